"""``trouper store``: the tools as a shell sees them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trouper import Activation, durable, effect, open_system
from trouper.actors.groups import GroupRow, group_key
from trouper.cli import main
from trouper.store import LmdbStore

Capture = pytest.CaptureFixture[str]


@effect
async def one(n: int) -> int:
    return n


@durable
async def three(act: Activation) -> list[int]:
    return await act.all_of(*[act.call(one, n) for n in range(3)])


@pytest.fixture
async def journal(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    async with open_system(
        "s", store=path, effects=[one], activities=[three], keep_groups=True
    ) as system:
        assert await system.run(three, key="k") == [0, 1, 2]
    return path


def call(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    status = main(["store", *map(str, arguments)])
    told = capsys.readouterr()
    return status, told.out, told.err


def from_json(capsys: Capture, *arguments: object) -> Any:
    status, out, err = call(capsys, *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def flip(journal: Path) -> None:
    data = journal / "data.mdb"
    data.write_bytes(
        data.read_bytes().replace(b"\x82ekind", b"\x82ekinD").replace(b"three", b"thReE")
    )


async def test_check_of_a_sound_journal_says_so(journal: Path, capsys: Capture) -> None:
    status, out, err = call(capsys, "check", journal)
    assert (status, err) == (0, "")
    assert f"{journal}: sound; " in out
    report = from_json(capsys, "check", journal)
    assert (report["ok"], report["findings"]) == (True, [])


async def test_check_names_each_damaged_row_and_exits_with_1(
    journal: Path, capsys: Capture
) -> None:
    flip(journal)
    status, out, _ = call(capsys, "check", journal)
    assert status == 1
    assert "checksum" in out
    assert "findings; " in out.splitlines()[-1]


async def test_check_compares_what_rows_mean(journal: Path, capsys: Capture) -> None:
    async with LmdbStore(journal) as store:
        ((_, group),) = store.scan("group", b"G", GroupRow)
        await store.commit(lambda tx: tx.delete("group", group_key(group.key)))
    status, out, _ = call(capsys, "check", journal)
    assert status == 1
    assert f"belongs to group {group.key!r}, which is not there" in out
    assert f"is group {group.key!r}, which is not there" in out


async def test_stat_counts_rows(journal: Path, capsys: Capture) -> None:
    status, out, _ = call(capsys, "stat", journal)
    assert status == 0
    assert "nobody; opened 1 times" in out
    assert from_json(capsys, "stat", journal)["rows"]["settle"] == 3


async def test_stat_and_backup_work_beside_the_owner(journal: Path, tmp_path: Path) -> None:
    async with LmdbStore(journal):
        told = trouper("stat", journal)
        assert f"process {os.getpid()}; opened 2 times" in told.stdout
        copied = trouper("backup", journal, tmp_path / "copy")
        assert (copied.returncode, copied.stderr) == (0, "")
        assert "verified" in copied.stdout
        for command in ("check", "compact"):
            refused = trouper(command, journal)
            assert refused.returncode == 2
            assert refused.stderr.count("\n") == 1
            assert f"process {os.getpid()} owns it" in refused.stderr
    assert main(["store", "check", str(tmp_path / "copy")]) == 0


async def test_dump_prints_a_row_a_line(journal: Path, capsys: Capture) -> None:
    status, out, _ = call(capsys, "dump", journal, "--table", "settle")
    assert status == 0
    assert len(out.splitlines()) == 3
    assert all("settle/1 group=" in line for line in out.splitlines())
    _, out, _ = call(capsys, "dump", journal, "--table", "group", "--table", "record", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["kind"] for row in rows} >= {"group", "child", "activation", "step"}
    child = next(row for row in rows if row["kind"] == "child")
    assert bytes.fromhex(child["key"]["$bytes"])[:1] == b"C"
    assert isinstance(child["fields"]["envelope"]["$bytes"], str)


RECORDS = """
from dataclasses import dataclass
from trouper.store import LmdbStore, record
import trio

@record("shop.sold")
@dataclass(frozen=True)
class Sold:
    what: str

async def main() -> None:
    async with LmdbStore("state") as store:
        await store.commit(lambda tx: tx.append(Sold("tea")))

if __name__ == "__main__":
    trio.run(main)
"""


def test_records_of_an_application_are_known_once_it_is_imported(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(RECORDS)
    subprocess.run([sys.executable, "shop.py"], cwd=tmp_path, check=True, timeout=60)

    def dumped(*more: str) -> subprocess.CompletedProcess[str]:
        return trouper("dump", "state", "--table", "log", *more, cwd=tmp_path)

    assert dumped().stdout.endswith("shop.sold/1 0='tea'\n")
    assert dumped("--import", "shop").stdout.endswith("shop.sold/1 what='tea'\n")
    unknown = dumped("--import", "nowhere.records")
    assert unknown.returncode == 2
    assert "no module 'nowhere.records'" in unknown.stderr
    checked = trouper("check", "state", cwd=tmp_path)
    assert "1 rows of kind 'shop.sold', version 1" in checked.stdout
    assert "rows of kind" not in trouper("check", "state", "--import", "shop", cwd=tmp_path).stdout


async def test_dump_tells_of_damaged_rows_and_goes_on(journal: Path, capsys: Capture) -> None:
    _, whole, _ = call(capsys, "dump", journal)
    flip(journal)
    status, out, err = call(capsys, "dump", journal)
    assert status == 1
    assert len(out.splitlines()) + len(err.splitlines()) == len(whole.splitlines())
    assert all(line.startswith("trouper: table 'record', row ") for line in err.splitlines())


async def test_dump_into_a_closed_pipe_says_nothing(journal: Path) -> None:
    with subprocess.Popen(  # noqa: ASYNC220
        [*COMMAND, "store", "dump", journal], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


async def test_an_unknown_table_is_wrong_use(journal: Path, capsys: Capture) -> None:
    status, _, err = call(capsys, "dump", journal, "--table", "nope")
    assert status == 2
    assert "no table 'nope'" in err


async def test_compact_says_what_it_gave_back(journal: Path, capsys: Capture) -> None:
    done = from_json(capsys, "compact", journal)
    assert done["after"] <= done["before"]
    assert main(["store", "check", str(journal)]) == 0


async def test_backup_overwrites_nothing(journal: Path, capsys: Capture, tmp_path: Path) -> None:
    made = from_json(capsys, "backup", journal, tmp_path / "copy")
    assert made["path"] == str(tmp_path / "copy")
    status, out, err = call(capsys, "backup", journal, tmp_path / "copy")
    assert (status, out) == (2, "")
    assert "overwrites nothing" in err


MISTAKES = [
    ("missing", "there is nothing"),
    ("file", "it is not a directory"),
    ("empty", "there is no store"),
    ("foreign", "not an LMDB file"),
]


@pytest.mark.parametrize("command", ["check", "stat", "dump", "backup", "compact"])
@pytest.mark.parametrize(("place", "says"), MISTAKES)
def test_a_wrong_path_is_one_line_and_2_and_nothing_is_made_there(
    command: str, place: str, says: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "data.mdb").write_bytes(b"x" * 8192)
    more = [tmp_path / "copy"] if command == "backup" else []
    status, out, err = call(capsys, command, tmp_path / place, *more)
    if (command, place) == ("check", "foreign"):  # that is what a check is for
        assert status == 1
        assert says in out
        return
    assert (status, out) == (2, "")
    assert says in err
    assert err.startswith("trouper: ")
    assert err.count("\n") == 1
    assert os.listdir(tmp_path / "empty") == []
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("command", ["stat", "backup", "compact"])
async def test_a_journal_with_broken_pages_is_refused_in_one_line(
    command: str, journal: Path, tmp_path: Path, capsys: Capture
) -> None:
    data = journal / "data.mdb"
    data.write_bytes(data.read_bytes()[:-4096])
    more = [tmp_path / "copy"] if command == "backup" else []
    status, _, err = call(capsys, command, journal, *more)
    assert status == 2
    assert err.count("\n") == 1
    assert "damaged" in err


async def test_interrupted_a_backup_leaves_nothing_and_says_130(
    journal: Path, tmp_path: Path
) -> None:
    code = (
        "import os, signal, sys\n"
        "from trouper.store import _copying\n"
        "pump = _copying._pump\n"
        "def interrupted(*args):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return pump(*args)\n"
        "_copying._pump = interrupted\n"
        "from trouper.cli import main; sys.exit(main())"
    )
    done = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", code, "store", "backup", journal, tmp_path / "copy"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 128 + signal.SIGINT
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == ["state"]


COMMAND = [sys.executable, "-c", "import sys; from trouper.cli import main; sys.exit(main())"]


def trouper(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "store", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def unread(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run the command with its output into a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            [sys.executable, "-m", "trouper", "store", *map(str, arguments)],
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)


@pytest.mark.parametrize("command", [["dump"], ["dump", "--json"], ["stat"], ["check", "--json"]])
async def test_a_reader_that_has_gone_is_no_damage(journal: Path, command: list[str]) -> None:
    done = unread(*command, journal)
    assert (done.returncode, done.stderr) == (141, b"")


async def test_check_gives_its_counts_as_stat_does(journal: Path, capsys: Capture) -> None:
    report = from_json(capsys, "check", journal)
    assert report["rows"] == from_json(capsys, "stat", journal)["rows"]
    assert report["unknown"] == []


async def test_one_finding_is_one(journal: Path, capsys: Capture) -> None:
    (journal / "store.json").write_text("{")
    status, out, _ = call(capsys, "check", journal)
    assert status == 1
    assert ": 1 finding; " in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["store", "check", ""],
        ["store", "backup", "state", ""],
        ["inspect", ""],
        ["run", "tests:x", "--store", "", "--key", "k"],
    ],
)
def test_an_empty_path_is_not_the_current_directory(
    arguments: list[str], capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert "an empty path" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
