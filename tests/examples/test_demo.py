"""The demonstration: its verdict finds what is wrong, and nothing of it outlives it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
Example = Callable[[str], ModuleType]
Work = tuple[str, str]

A, B, C, D = (("digest", name) for name in "abcd")


@pytest.fixture
def demo(example: Example) -> ModuleType:
    return example("demo")


# --- the verdict


def evidence(demo: ModuleType, **changes: Any) -> Any:
    """What a run shows in which A settled before the kill, B was in flight, C and D came later."""
    sound: dict[str, Any] = {
        "first": Counter([A, B]),
        "second": Counter([B, C, D]),
        "settled_at_kill": {A},
        "settled_at_end": {A, B, C, D},
        "reports_equal": True,
    }
    return demo.Evidence(**sound | changes)


def test_a_sound_run_is_found_sound(demo: ModuleType) -> None:
    seen = evidence(demo)
    assert seen.judge()
    assert seen.faults == []
    assert (seen.in_flight, seen.repeated) == ({B}, {B})


FORGED: list[tuple[str, dict[str, Any]]] = [
    ("1 effects settled before the kill and executed after it", {"second": Counter([A, B, C, D])}),
    ("1 effects executed twice within one run", {"second": Counter([B, C, C, D])}),
    ("1 effects executed twice within one run", {"first": Counter([A, A, B])}),
    ("1 effects settled without having been executed", {"second": Counter([B, C])}),
    ("1 effects executed and not settled in the end", {"settled_at_end": {A, B, C}}),
    ("executed again though not in flight at the kill", {"second": Counter([A, B, C, D])}),
    ("more re-executions than effects in flight", {"second": Counter([A, B, C, D])}),
    ("nothing had settled at the kill", {"settled_at_kill": set[Work]()}),
    ("the report differs", {"reports_equal": False}),
]


@pytest.mark.parametrize(("fault", "changes"), FORGED)
def test_each_rule_that_does_not_hold_is_named(
    demo: ModuleType, fault: str, changes: dict[str, Any]
) -> None:
    seen = evidence(demo, **changes)
    assert not seen.judge()
    assert any(fault in named for named in seen.faults)


def test_a_fault_names_one_of_its_effects(demo: ModuleType) -> None:
    seen = evidence(demo, second=Counter([B, C, D, D]))
    seen.judge()
    assert seen.faults == [
        "1 effects executed twice within one run, such as ('digest', 'd')",
    ]


def test_what_is_settled_counts_for_each_kind(demo: ModuleType) -> None:
    both = Counter([A, ("count", "a"), B])
    seen = evidence(demo, first=both, settled_at_end={A, B, C, D, ("count", "a")})
    assert seen.judge()
    assert seen.in_flight == {B, ("count", "a")}
    assert demo.settlement_table(seen).row_count == 3


def test_a_torn_last_line_of_a_trace_was_not_written(demo: ModuleType, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    assert demo.executions(trace) == Counter()
    trace.write_text('["digest", "a"]\n["digest", "a"]\n["dig')
    assert demo.executions(trace) == Counter({A: 2})


# --- where it works


class Disk(NamedTuple):
    free: int


@pytest.fixture
def places(
    demo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[ModuleType, Path, Path]:
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr(demo, "PLACES", (first, second))
    return demo, first, second


def test_it_works_where_there_is_room(
    places: tuple[ModuleType, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    demo, first, second = places
    assert demo.find_home() == first / str(os.getpid())
    free = {first: demo.NEEDED - 1, second: demo.NEEDED}
    monkeypatch.setattr(demo.shutil, "disk_usage", lambda place: Disk(free[place]))
    assert demo.find_home() == second / str(os.getpid())
    free[second] -= 1
    with pytest.raises(SystemExit, match=f"needs 256 MiB of disk in {first} or {second}"):
        demo.find_home()


def test_it_keeps_out_of_a_place_that_somebody_else_has_laid(
    places: tuple[ModuleType, Path, Path], tmp_path: Path
) -> None:
    demo, first, second = places
    (tmp_path / "home" / "4194304").mkdir(parents=True)  # the name of a process that cannot be
    first.symlink_to(tmp_path / "home")
    assert demo.find_home().parent == second
    assert (tmp_path / "home" / "4194304").exists()
    second.rename(tmp_path / "away")
    second.touch()
    with pytest.raises(SystemExit):
        demo.find_home()


def test_it_removes_what_the_dead_left_and_nothing_else(
    places: tuple[ModuleType, Path, Path],
) -> None:
    demo, first, _ = places
    gone = subprocess.Popen(["true"])
    gone.wait()
    kept = {"notes", "1x", "99999999999999999999", str(os.getppid())}
    for name in kept | {str(gone.pid)}:
        (first / name).mkdir(parents=True)
    demo.clear_leftovers(first)
    assert {path.name for path in first.iterdir()} == kept


# --- the whole of it


def tree_of(root: Path, files: int) -> Path:
    (root / "sub").mkdir(parents=True)
    for number in range(files):
        (root / ("sub" if number % 2 else "") / f"file {number}").write_bytes(b"word " * number)
    return root


@contextmanager
def started(root: Path, temporary: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(DEMO), str(root)],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def left_in(temporary: Path) -> list[Path]:
    return [path for place in temporary.iterdir() for path in place.iterdir()]


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """A TMPDIR of its own, with a name that wants quoting."""
    place = tmp_path / "temporary files [x]"
    place.mkdir()
    return place


def test_killed_half_way_and_resumed_the_verdict_holds(tmp_path: Path, temporary: Path) -> None:
    root = tree_of(tmp_path / "a tree [bold]", 250)
    (root / os.fsdecode(b"no text \xff")).write_bytes(b"x")
    (root / "nowhere").symlink_to("gone")
    with started(root, temporary) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "a tree [bold]" in said
    assert "SIGKILL at" in said
    assert "verdict: every settled effect executed exactly once" in said
    assert "251 files, 506 settled effects" in said
    assert "inventory.audit_directory" in said  # the supervision tree
    assert left_in(temporary) == []


def audit_below(demo: int) -> int:
    """Return the pid of the audit that a demo runs, once it has begun to work."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for child in Path(f"/proc/{demo}/task/{demo}/children").read_text().split():
            command: list[bytes] = []
            with suppress(ProcessLookupError, FileNotFoundError):
                command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if b"--trace" in command and b"-c" not in command:
                trace = Path(os.fsdecode(command[command.index(b"--trace") + 1]))
                if trace.exists() and trace.stat().st_size:
                    return int(child)
        os.sched_yield()
    pytest.fail("the demo started no audit")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_whatever_ends_the_demo_ends_its_audit_and_it_runs_again(
    tmp_path: Path, temporary: Path, number: signal.Signals
) -> None:
    endless = tmp_path / "endless"
    endless.mkdir()
    with (endless / "huge").open("wb") as file:
        file.truncate(1 << 42)  # sparse: this audit does not end by itself
    with started(endless, temporary) as process:
        audit = os.pidfd_open(audit_below(process.pid))
        process.send_signal(number)
        process.wait(30)
        ready, _, _ = select.select([audit], [], [], 30)
        assert ready == [audit], "the audit lives on"
        os.close(audit)
        said = process.communicate()[0]
    assert "Traceback" not in said
    if number == signal.SIGINT:
        assert (process.returncode, left_in(temporary)) == (130, [])
    else:
        assert process.returncode == -number
        assert len(left_in(temporary)) == 1
    if number == signal.SIGKILL:
        with started(tree_of(tmp_path / "tree", 250), temporary) as again:
            said, _ = again.communicate(timeout=60)
        assert again.returncode == 0, said
        assert left_in(temporary) == []


def test_a_tree_that_is_none_is_refused_in_one_line(tmp_path: Path, temporary: Path) -> None:
    with started(tmp_path / "nowhere", temporary) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in said
    (line,) = [line for line in said.splitlines() if line.startswith("demo: ")]
    assert "not a directory; give the directory to take stock of" in line
    assert left_in(temporary) == []


def test_a_run_that_ends_before_its_middle_is_seen_says_what_to_do(
    demo: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "killed.log").write_text("audit: done")
    short = subprocess.Popen(["echo", "0 100"], stdout=subprocess.PIPE, text=True)
    with pytest.raises(SystemExit, match=r"give a larger tree\. It said: audit: done"):
        demo.kill_half_way(short, tmp_path)
    assert short.returncode == 0
