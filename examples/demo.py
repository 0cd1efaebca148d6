"""The demonstration behind ``make demo``: kill the audit half-way, resume it, and prove the result.

Three runs of ``examples/audit.py`` over the same tree, each in a process of its own:

1. an uninterrupted one, for its report;
2. one that gets SIGKILL when half of its effects have settled;
3. the same command again, on the store that the second one left behind.

The verdict is computed from two witnesses that know nothing of each other: the journal, read from
the killed store, and the trace files that the effects wrote as they ran.

    python examples/demo.py [ROOT]
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trouper import LmdbStore
from trouper.actors import inspect

AUDIT = Path(__file__).with_name("audit.py")
NEEDED = 256 << 20  # bytes of disk: two journals and reports of a tree as large as Python's library
# Places to work in, the first with room is taken; `make clean` removes the second.
PLACES = (
    Path(tempfile.gettempdir()) / f"trouper-demo-{os.getuid()}",
    AUDIT.parents[1] / ".demo",
)
# A shim that becomes the audit, and dies with the demo even if that is killed: prctl(
# PR_SET_PDEATHSIG, SIGKILL) outlives an exec. The demo may have died before it was set.
DIE_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""

Work = tuple[str, str]
"""What an effect does and to which path."""


@dataclass(slots=True)
class Evidence:
    """What both witnesses said."""

    first: Counter[Work]  # executions of the killed run
    second: Counter[Work]  # executions of the resumed run
    settled_at_kill: set[Work]  # from the journal that the killed run left behind
    settled_at_end: set[Work]
    reports_equal: bool
    faults: list[str] = field(default_factory=list[str])

    @property
    def in_flight(self) -> set[Work]:
        """Return what was started and not settled when the kill came."""
        return set(self.first) - self.settled_at_kill

    @property
    def repeated(self) -> set[Work]:
        """Return what both runs executed."""
        return set(self.first) & set(self.second)

    def judge(self) -> bool:
        """Compute the verdict; every rule that does not hold is named."""
        again = self.settled_at_kill & set(self.second)
        twice = [w for run in (self.first, self.second) for w, n in run.items() if n > 1]
        never = self.settled_at_end - set(self.first) - set(self.second)
        unsettled = (set(self.first) | set(self.second)) - self.settled_at_end
        for said, found in (
            ("settled before the kill and executed after it", again),
            ("executed twice within one run", twice),
            ("settled without having been executed", never),
            ("executed and not settled in the end", unsettled),
            ("executed again though not in flight at the kill", self.repeated - self.in_flight),
        ):
            if found:
                self.faults.append(f"{len(found)} effects {said}, such as {sorted(found)[0]}")
        if len(self.repeated) > len(self.in_flight):
            self.faults.append("more re-executions than effects in flight at the kill")
        if not self.settled_at_kill:
            self.faults.append("nothing had settled at the kill: there was nothing to prove")
        if not self.reports_equal:
            self.faults.append("the report differs from that of the uninterrupted run")
        return not self.faults


def start_audit(root: str, home: Path, run: str) -> subprocess.Popen[str]:
    """Start one run of the audit; it dies with this process."""
    out = home / ("report" if run != "whole" else "whole-report")
    store = home / ("store" if run != "whole" else "whole-store")
    arguments = [root, "--store", store, "--out", out, "--key", "demo", "--progress", "lines"]
    arguments += ["--trace", home / f"{run}.trace", "--tree", home / f"{run}.tree"]
    shim = [sys.executable, "-c", DIE_WITH_PARENT, os.getpid(), "-u", AUDIT]
    with (home / f"{run}.log").open("w") as log:
        command = [str(argument) for argument in (*shim, *arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)


def progress_of(process: subprocess.Popen[str]) -> Iterator[tuple[int, int]]:
    """Yield (settled, expected) as the audit reports them."""
    assert process.stdout is not None
    for line in process.stdout:
        settled, expected = map(int, line.split())
        yield settled, expected


@contextmanager
def reaped(process: subprocess.Popen[str]) -> Generator[None]:
    """Wait for a run; whatever goes wrong here, it does not go on alone."""
    with process:
        try:
            yield
        except BaseException:
            process.kill()
            raise


def finish(process: subprocess.Popen[str], home: Path, run: str) -> None:
    """Wait for a run that must succeed."""
    with reaped(process):
        for _ in progress_of(process):
            pass
    if process.returncode != 0:
        log = (home / f"{run}.log").read_text()[-2000:]
        raise SystemExit(f"demo: the {run} run ended with {process.returncode}: {log}")


def kill_half_way(process: subprocess.Popen[str], home: Path) -> tuple[int, int]:
    """Send SIGKILL once half of the expected effects have settled."""
    with reaped(process):
        for settled, expected in progress_of(process):
            if settled >= expected // 2:
                process.send_signal(signal.SIGKILL)
                return settled, expected
    log = (home / "killed.log").read_text()[-2000:]
    raise SystemExit(
        f"demo: the run ended before it was killed; give a larger tree. It said: {log}"
    )


def executions(trace: Path) -> Counter[Work]:
    """Read what the effects of one run wrote about themselves; a torn last line was not written."""
    lines = trace.read_text().split("\n")[:-1] if trace.exists() else []
    return Counter((what, path) for what, path in map(json.loads, lines))


def settled(store: Path) -> set[Work]:
    """Read from a journal which effects have settled."""
    return trio.run(_settled, store)


async def _settled(path: Path) -> set[Work]:
    done: set[Work] = set()
    async with LmdbStore(path) as store:
        for work in inspect.effects(store):
            if not work.settled:
                continue
            what = work.name.rpartition(".")[2]
            if what == "scan":
                done.add((what, "."))
            elif what in ("listing", "digest"):
                done.add((what, shown(work.arguments[1])))
            elif what == "count":
                done.add((what, shown(work.arguments[0].split(b"\0")[1])))
        done |= {("report", o.key) for o in inspect.operations(store) if o.status == "completed"}
    return done


def shown(path: bytes) -> str:
    """Return a path as the trace shows it."""
    return path.decode("utf-8", "backslashreplace")


def settlement_table(evidence: Evidence) -> Table:
    """Build the table of the demonstration."""
    table = Table(title="settlement", title_justify="left")
    for name in ("effect", "settled", "executed", "replayed", "re-executed", "in flight at kill"):
        table.add_column(name, justify="left" if name == "effect" else "right")
    kinds = sorted({what for what, _ in evidence.settled_at_end})
    for kind in [*kinds, "all"]:

        def of(works: set[Work], kind: str = kind) -> set[Work]:
            return {work for work in works if kind in ("all", work[0])}

        executed = sum(
            n
            for run in (evidence.first, evidence.second)
            for w, n in run.items()
            if kind in ("all", w[0])
        )
        if kind == "all":
            table.add_section()
        table.add_row(
            kind,
            *[
                f"{number:,}"
                for number in (
                    len(of(evidence.settled_at_end)),
                    executed,
                    len(of(evidence.settled_at_kill)),
                    len(of(evidence.repeated)),
                    len(of(evidence.in_flight)),
                )
            ],
        )
    return table


def clear_leftovers(place: Path) -> None:
    """Remove what earlier demonstrations left behind that are not running any more."""
    for old in place.glob("[1-9]*"):
        try:
            os.kill(int(old.name), 0)
        except ProcessLookupError:
            shutil.rmtree(old, ignore_errors=True)
        except (ValueError, OverflowError, PermissionError):
            continue  # not ours, or of somebody who is alive


def find_home() -> Path:
    """Make a directory to work in, where there is room and nobody else has a hand in it."""
    for place in PLACES:
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            found = place.lstat()
        except OSError:
            continue
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            continue
        clear_leftovers(place)
        if shutil.disk_usage(place).free >= NEEDED:
            home = place / str(os.getpid())
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            return home
    tried = " or ".join(str(place) for place in PLACES)
    raise SystemExit(f"demo: needs {NEEDED >> 20} MiB of disk in {tried}; set TMPDIR")


def main(argv: list[str] | None = None) -> int:
    """Run the demonstration."""
    console = Console(width=100)
    chosen = (sys.argv[1:] if argv is None else argv) or [sysconfig.get_path("stdlib")]
    home = find_home()
    try:
        return demonstrate(console, chosen[0], home)
    except KeyboardInterrupt:
        print("demo: interrupted; what it started ends with it", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(home, ignore_errors=True)


def demonstrate(console: Console, root: str, home: Path) -> int:
    """Make the three runs and print what they show."""
    began = time.monotonic()
    console.print(f"[bold]auditing[/] {escape(root)}")
    finish(start_audit(root, home, "whole"), home, "whole")
    console.print(f"  uninterrupted run: {time.monotonic() - began:.1f} s")

    victim = start_audit(root, home, "killed")
    done, expected = kill_half_way(victim, home)
    console.print(f"  SIGKILL at {done:,} of about {expected:,} settled effects")
    at_kill = settled(home / "store")

    resumed = time.monotonic()
    finish(start_audit(root, home, "resumed"), home, "resumed")
    console.print(f"  resumed and finished in {time.monotonic() - resumed:.1f} s\n")

    evidence = Evidence(
        executions(home / "killed.trace"),
        executions(home / "resumed.trace"),
        at_kill,
        settled(home / "store"),
        (home / "report" / "report.jsonl").read_bytes()
        == (home / "whole-report" / "report.jsonl").read_bytes(),
    )
    console.print("[bold]supervision tree[/] of the resumed run, half-way")
    tree = (home / "resumed.tree").read_text()
    console.print(tree, markup=False, highlight=False, soft_wrap=True)
    files = len({path for what, path in evidence.settled_at_end if what == "digest"})
    holds = evidence.judge()
    console.print(settlement_table(evidence))
    console.print(
        f"{files:,} files, {len(evidence.settled_at_end):,} settled effects, "
        f"{time.monotonic() - began:.1f} s in all"
    )
    for fault in evidence.faults:
        console.print(f"[red]x[/] {escape(fault)}")
    if holds:
        console.print(
            "[green]verdict: every settled effect executed exactly once; "
            f"{len(evidence.repeated)} re-executed of {len(evidence.in_flight)} in flight at the "
            "kill; the report equals that of the uninterrupted run[/]"
        )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
