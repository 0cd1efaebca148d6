"""The main job against what users and disks do to it: one clear line, and nothing lost."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio

from trouper.store import LmdbStore

AuditOf = Callable[..., Any]
Example = Callable[[str], ModuleType]


def entry(path: str, data: bytes, **more: str) -> dict[str, Any]:
    """What the report must hold for a file, computed here."""
    return {
        "path": path,
        "sha256": hashlib.sha256(data).hexdigest(),
        "binary": b"\0" in data[:8000],
        "bytes": len(data),
        "lines": data.count(b"\n"),
        "words": len(data.split()),
        **more,
    }


def content(directory: Path) -> dict[str, bytes]:
    """What a store holds; the lock names its last owner, so it may change."""
    files = (directory / "data.mdb", directory / "store.json")
    return {path.name: path.read_bytes() for path in files if path.exists()}


def executed(trace: Path) -> list[tuple[str, str]]:
    return [(what, path) for what, path in map(json.loads, trace.read_text().splitlines())]


# --- the tree


@pytest.mark.parametrize("what", ["missing", "file", "dangling", "pipe"])
def test_a_root_that_is_no_directory_is_refused(
    audit_of: AuditOf, tmp_path: Path, what: str
) -> None:
    root = tmp_path / "root"
    if what == "file":
        root.touch()
    elif what == "dangling":
        root.symlink_to("nowhere")
    elif what == "pipe":
        os.mkfifo(root)
    line = audit_of(root).refused()
    assert f"{root}: not a directory" in line
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("option", ["--store", "--out"])
def test_journal_and_report_inside_the_tree_are_refused(
    audit_of: AuditOf, small: Path, option: str
) -> None:
    line = audit_of(small).refused(option, small / "sub" / "place")
    assert "lies in the tree" in line
    assert not (small / "sub" / "place").exists()


def test_an_empty_tree_has_an_empty_report(audit_of: AuditOf, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    audit = audit_of(tmp_path / "tree")
    done = audit.run()
    assert (done.returncode, audit.report()) == (0, {})
    assert "done: 0 entries" in done.stderr
    assert "all" in (tmp_path / "report" / "report.txt").read_text()


NAMES = {
    b"plain.txt": b"one two\nthree",
    b"empty": b"",
    b"binary.bin": b"\0\1\2\n",
    b"line\nend.t\nxt": b"a\nb\n",
    b"lat\xefn.\xff": b"bytes\n",
    b"dir\xe9/below.txt": b"x\n",
    b"back\\xff": b"a name that looks escaped\n",
    b"markup.[bold]": b"no markup\n",
    b"escape.\x1b[2J": b"no terminal\n",
    "Straße.ñ".encode(): b"text\n",
    b" leading and trailing ": b"spaces\n",
}


def test_every_name_and_every_kind_of_entry_is_in_the_report(
    audit_of: AuditOf, tmp_path: Path
) -> None:
    root = tmp_path / "tree"
    for name, data in NAMES.items():
        path = root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (root / "nothing in it").mkdir()
    (root / "dangling").symlink_to("nowhere")
    (root / "link").symlink_to("plain.txt")
    (root / "up").symlink_to("..")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(root / "socket"))
        audit = audit_of(root)
        done = audit.run("--progress", "bar")
    assert done.returncode == 0, done.stderr
    wanted: dict[str, dict[str, Any]] = {}
    for name, data in NAMES.items():
        shown = name.decode("utf-8", "backslashreplace")
        hexed = {} if shown.encode() == name else {"path_hex": name.hex()}
        wanted[shown] = entry(shown, data, **hexed)
    for other in ("dangling", "link", "up", "pipe", "socket"):
        wanted[other] = {"path": other, "error": "not a plain file"}
    assert audit.report() == wanted
    table = (tmp_path / "report" / "report.txt").read_text()
    assert "[bold]" in table
    assert "\x1b" not in table + done.stdout


def test_a_root_whose_name_is_no_text_is_as_good_as_any(audit_of: AuditOf, tmp_path: Path) -> None:
    home = tmp_path / os.fsdecode(b"h\xff")
    root = home / os.fsdecode(b"tr\xee [bold]")
    root.mkdir(parents=True)
    (root / "file").write_bytes(b"a b\n")
    audit = replace(audit_of(root), home=home)
    assert audit.run().returncode == 0
    assert audit.report() == {"file": entry("file", b"a b\n")}
    assert "already done" in audit.run().stderr


def test_what_may_not_be_read_is_an_entry_that_says_so(
    audit_of: AuditOf, small: Path, no_override: tuple[str, ...]
) -> None:
    (small / "secret").write_bytes(b"x")
    (small / "secret").chmod(0)
    (small / "closed" / "inner").mkdir(parents=True)
    (small / "closed").chmod(0)
    (small / "blind").mkdir()
    (small / "blind" / "file").touch()
    (small / "blind").chmod(0o444)  # its names can be read, what they name cannot
    audit = replace(audit_of(small), shim=no_override)
    try:
        done = audit.run()
    finally:
        (small / "closed").chmod(0o700)
        (small / "blind").chmod(0o700)
    assert done.returncode == 0, done.stderr
    report = audit.report()
    assert {path for path, row in report.items() if "error" in row} == {
        "secret",
        "closed",
        "blind/file",
    }
    for path in ("secret", "closed", "blind/file"):
        assert report[path]["error"].startswith("PermissionError: ")
        assert path in report[path]["error"]
    assert report["one.txt"] == entry("one.txt", b"one\n")


# Runs the audit, and changes a file at the very moment at which an effect is about to open it.
SABOTAGE = """
import os, socket, sys
sys.path.insert(0, sys.argv[1])
import audit, inventory

def ran(what, path, noted=inventory.TRACE.ran):
    noted(what, path)
    name = os.path.join(os.fsencode(sys.argv[2]), path)
    if what != "digest" or not path.startswith(b"becomes "):
        return
    os.unlink(name)
    match path.split()[1]:
        case b"link": os.symlink("keep", name)
        case b"dangling": os.symlink("nowhere", name)
        case b"pipe": os.mkfifo(name)
        case b"directory": os.mkdir(name)
        case b"device": os.symlink("/dev/zero", name)
        case b"socket": socket.socket(socket.AF_UNIX).bind(name)

inventory.TRACE.ran = ran
sys.exit(audit.main(sys.argv[2:]))
"""


def test_a_file_that_becomes_something_else_is_an_entry_and_never_a_hang(
    audit_of: AuditOf, tmp_path: Path
) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "keep").write_bytes(b"kept\n")
    kinds = ("nothing", "link", "dangling", "pipe", "directory", "device", "socket")
    for kind in kinds:
        (root / f"becomes {kind}").write_bytes(b"was here\n")
    audit = audit_of(root)
    script = audit.command()[1]
    command = [sys.executable, "-c", SABOTAGE, str(Path(script).parent), *audit.command()[2:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    report = audit.report()
    assert report.pop("keep") == entry("keep", b"kept\n")
    assert report.keys() == {f"becomes {kind}" for kind in kinds}
    assert all("Error: " in row["error"] for row in report.values())


def test_a_read_that_fails_half_way_is_an_error_of_that_file(example: Example) -> None:
    with pytest.raises(OSError, match="Input/output error"):
        example("inventory").digest(b"/proc/self", b"mem")


def test_a_tree_beyond_the_limit_is_refused_before_the_work(
    example: Example, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = example("inventory")
    monkeypatch.setattr(inventory, "MOST_ENTRIES", 4)
    with pytest.raises(inventory.Reject, match="more than 4 entries"):
        inventory.scan(os.fsencode(small))
    monkeypatch.setattr(inventory, "MOST_ENTRIES", 5)
    assert inventory.scan(os.fsencode(small)) == [b".", b"sub"]


def test_the_deadline_does_not_wait_for_a_file_without_end(audit_of: AuditOf, small: Path) -> None:
    with (small / "sub" / "huge").open("wb") as file:
        file.truncate(1 << 42)  # sparse: reading it takes an hour
    audit = audit_of(small)
    done = audit.run("--deadline", "0.5")
    assert done.returncode == 0, done.stderr
    report = audit.report()
    assert report["sub"] == {"path": "sub", "error": "not done within 0.5 s"}
    assert report["one.txt"] == entry("one.txt", b"one\n")


def many(root: Path, count: int) -> dict[str, dict[str, Any]]:
    """Make one directory of many files; return its report."""
    wanted: dict[str, dict[str, Any]] = {}
    (root / "many").mkdir(parents=True)
    for number in range(count):
        data = b"number %d\n" % number
        (root / "many" / f"{number}").write_bytes(data)
        wanted[f"many/{number}"] = entry(f"many/{number}", data)
    return wanted


def test_progress_begins_at_what_the_journal_holds_and_never_passes_its_end(
    audit_of: AuditOf, tmp_path: Path
) -> None:
    wanted = many(tmp_path / "tree", 500)
    audit = audit_of(tmp_path / "tree")
    process = subprocess.Popen(
        audit.command("--progress", "lines"), stdout=subprocess.PIPE, text=True
    )
    with process:
        seen = (0, 1)
        for seen in numbers(process):
            if seen[0] > 400:
                process.kill()
    resumed = audit.run("--progress", "lines")
    assert resumed.returncode == 0, resumed.stderr
    assert audit.report() == wanted
    later = [tuple(map(int, line.split())) for line in resumed.stdout.splitlines()]
    assert later[0][0] >= seen[0]
    assert later == sorted(later)
    assert {total for _, total in later} == {seen[1]} == {2 * 500 + 3 * 2}
    assert all(settled <= total for settled, total in later)


def numbers(process: subprocess.Popen[str]) -> Iterator[tuple[int, int]]:
    assert process.stdout is not None
    for line in process.stdout:
        settled, total = line.split()
        yield int(settled), int(total)


# --- Ctrl-C


def test_ctrl_c_ends_with_130_says_how_to_go_on_and_goes_on(
    audit_of: AuditOf, example: Example, tmp_path: Path
) -> None:
    wanted = many(tmp_path / "tree", 400)
    audit = audit_of(tmp_path / "tree")
    process = subprocess.Popen(
        audit.command("--progress", "lines", "--trace", tmp_path / "first"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        for settled, _ in numbers(process):
            if settled > 200:
                process.send_signal(signal.SIGINT)
                break
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert said.splitlines() == [
        "audit: interrupted; the same command goes on where this one ended"
    ]
    assert not (tmp_path / "report" / "report.jsonl").exists()
    settled_then = example("demo").settled(tmp_path / "store")
    assert len(settled_then) > 200
    done = audit.run("--trace", tmp_path / "second")
    assert done.returncode == 0, done.stderr
    assert "resuming" in done.stderr
    assert audit.report() == wanted
    again = set(executed(tmp_path / "first")) & set(executed(tmp_path / "second"))
    assert again.isdisjoint(settled_then)


def test_ctrl_c_does_not_wait_for_a_file_without_end(
    audit_of: AuditOf, small: Path, tmp_path: Path
) -> None:
    with (small / "huge").open("wb") as file:
        file.truncate(1 << 42)
    os.mkfifo(tmp_path / "trace")
    process = subprocess.Popen(
        audit_of(small).command("--trace", tmp_path / "trace"), stderr=subprocess.PIPE, text=True
    )
    with process, (tmp_path / "trace").open() as trace:
        begun: set[str] = set()
        while not {"digest", "count"} <= begun:
            what, path = json.loads(trace.readline())
            begun |= {what} if path == "huge" else set()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert len(said.splitlines()) == 1


# --- the store


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of an audit that is done, to be copied and spoilt."""
    home = tmp_path_factory.mktemp("finished")
    (home / "tree").mkdir()
    for number in range(30):
        (home / "tree" / f"file {number}").write_bytes(b"word " * number)
    script = Path(__file__).parents[2] / "examples" / "audit.py"
    command = [sys.executable, script, home / "tree", "--store", home / "store"]
    command += ["--out", home / "report"]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return home


def spoil(store: Path, how: str) -> None:
    data = bytearray((store / "data.mdb").read_bytes())
    match how:
        case "garbage":
            data[:] = b"no database " * 1000
        case "empty":
            del data[:]
        case "truncated":
            del data[len(data) // 2 :]
        case "no first pages":
            data[: 2 * 4096] = bytes(2 * 4096)
        case "zeroed pages":
            data[2 * 4096 :] = bytes(len(data) - 2 * 4096)
    (store / "data.mdb").write_bytes(data)


@pytest.mark.parametrize("how", ["garbage", "empty", "truncated", "no first pages", "zeroed pages"])
def test_a_damaged_store_is_refused_and_left_as_it_is(
    audit_of: AuditOf, small: Path, finished: Path, tmp_path: Path, how: str
) -> None:
    shutil.copytree(finished / "store", tmp_path / "store")
    spoil(tmp_path / "store", how)
    before = content(tmp_path / "store")
    line = audit_of(small).refused()
    assert str(tmp_path / "store") in line
    assert "damaged" in line
    assert "restore a backup, or move the directory away" in line
    assert content(tmp_path / "store") == before
    assert not (tmp_path / "report").exists()


def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(
    audit_of: AuditOf, small: Path, finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished / "store", tmp_path / "store")
    identity = json.loads((tmp_path / "store" / "store.json").read_text())
    (tmp_path / "store" / "store.json").write_text(json.dumps(identity | {"format": 99}))
    before = content(tmp_path / "store")
    line = audit_of(small).refused()
    assert "format 99" in line
    assert "Use the trouper version that wrote it" in line
    assert content(tmp_path / "store") == before


async def test_a_store_that_a_live_process_owns_is_refused_and_the_process_is_named(
    audit_of: AuditOf, small: Path, tmp_path: Path
) -> None:
    async with LmdbStore(tmp_path / "store"):
        line = await trio.to_thread.run_sync(audit_of(small).refused)
    assert f"process {os.getpid()} owns it" in line
    assert audit_of(small).run().returncode == 0


@pytest.mark.parametrize("what", ["a file", "a pipe", "below a file"])
def test_a_store_that_is_no_directory_is_refused(
    audit_of: AuditOf, small: Path, tmp_path: Path, what: str
) -> None:
    place = tmp_path / "place"
    if what == "a pipe":
        os.mkfifo(place)
    else:
        place.write_bytes(b"precious")
    store = place / "store" if what == "below a file" else place
    assert str(store) in audit_of(small).refused("--store", store)
    assert what == "a pipe" or place.read_bytes() == b"precious"


@pytest.mark.parametrize("option", ["--store", "--out", "--trace"])
def test_a_read_only_place_is_refused(
    audit_of: AuditOf, small: Path, tmp_path: Path, no_override: tuple[str, ...], option: str
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o555)
    audit = replace(audit_of(small), shim=no_override)
    for where in (place, place / "new") if option != "--trace" else (place / "new",):
        line = audit.refused(option, where)
        assert str(place) in line
        assert "ermission" in line
    assert list(place.iterdir()) == []


def test_a_key_of_another_tree_is_refused_and_its_own_tree_goes_on(
    audit_of: AuditOf, finished: Path, tmp_path: Path, small: Path
) -> None:
    shutil.copytree(finished / "store", tmp_path / "store")
    key = f"audit {finished / 'tree'}"
    line = audit_of(small).refused("--key", key)
    assert key in line
    assert str(small) in line
    assert "use another key" in line
    own = replace(audit_of(finished / "tree"))
    done = own.run("--key", key)
    assert (done.returncode, len(own.report())) == (0, 30)


@pytest.mark.parametrize("kibibytes", [1, 16, 200])
def test_a_full_disk_ends_the_run_and_room_lets_it_go_on(
    audit_of: AuditOf, tmp_path: Path, kibibytes: int
) -> None:
    wanted = many(tmp_path / "tree", 120)
    limit = (
        "import os, resource, sys;"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({kibibytes << 10}, {kibibytes << 10}));"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    audit = audit_of(tmp_path / "tree")
    full = replace(audit, shim=(sys.executable, "-c", limit)).run()
    assert full.returncode in (1, 3), full.stderr
    (line,) = full.stderr.splitlines()
    assert str(tmp_path / "store") in line
    assert "make room" in line or "Run the same command again" in line
    done = audit.run()
    assert done.returncode == 0, done.stderr
    assert audit.report() == wanted


# --- the report


@pytest.mark.parametrize("what", ["a file", "below a file"])
def test_a_report_without_a_place_is_refused_before_the_work(
    audit_of: AuditOf, small: Path, tmp_path: Path, what: str
) -> None:
    (tmp_path / "place").write_bytes(b"precious")
    out = tmp_path / "place" / ("out" if what == "below a file" else "")
    line = audit_of(small).refused("--out", out, "--trace", tmp_path / "trace")
    assert str(tmp_path / "place") in line
    assert "Nothing was started" in line
    assert not (tmp_path / "trace").exists()
    assert (tmp_path / "place").read_bytes() == b"precious"


def test_a_report_that_cannot_be_written_after_all_is_unknown_and_the_next_run_writes_it(
    audit_of: AuditOf, small: Path, tmp_path: Path
) -> None:
    audit = audit_of(small)
    (tmp_path / "report" / "report.jsonl").mkdir(parents=True)
    line = audit.refused("--trace", tmp_path / "first", status=3)
    assert "outcome unknown" in line
    assert "Is a directory" in line
    (tmp_path / "report" / "report.jsonl").rmdir()
    assert audit.run("--trace", tmp_path / "second").returncode == 0
    assert len(audit.report()) == 3
    assert [what for what, _ in executed(tmp_path / "second")] == ["report"]


def test_done_is_done_and_another_place_gets_a_report_of_its_own(
    audit_of: AuditOf, finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished / "store", tmp_path / "store")
    audit = audit_of(finished / "tree")
    first = audit.run("--trace", tmp_path / "first")
    assert "done: 30 entries" in first.stderr
    assert [what for what, _ in executed(tmp_path / "first")] == ["report"]
    assert audit.report()["file 3"] == entry("file 3", b"word word word ")
    (tmp_path / "report" / "report.jsonl").unlink()
    again = audit.run("--trace", tmp_path / "second")
    assert "already done" in again.stderr
    assert "gone since" in again.stderr
    assert executed(tmp_path / "second") == []


# --- the command line


@pytest.mark.parametrize(
    ("option", "value"),
    [("--key", " "), ("--key", "a\nb"), ("--key", "\udcff")]
    + [("--deadline", value) for value in ("0", "nan", "inf", "-1")]
    + [("--cells", value) for value in ("0", "65")],
)
def test_an_option_outside_its_range_is_refused(
    example: Example, small: Path, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    example("inventory")
    assert example("audit").main([str(small), f"{option}={value}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert option in line


def test_of_several_errors_the_one_that_says_most_decides(example: Example) -> None:
    example("inventory")
    audit = example("audit")
    several: list[BaseException] = [OSError("disk"), audit.StoreLost("lost")]
    assert audit.explain(BaseExceptionGroup("", several))[0] == 3
    several.append(BaseExceptionGroup("", [KeyboardInterrupt()]))
    assert audit.explain(BaseExceptionGroup("", several))[0] == 130


@pytest.mark.parametrize("error", [MemoryError(), SystemExit(7), ZeroDivisionError()])
def test_what_is_a_bug_keeps_its_traceback(example: Example, error: BaseException) -> None:
    example("inventory")
    with pytest.raises(type(error)):
        example("audit").explain(BaseExceptionGroup("", [error]))
