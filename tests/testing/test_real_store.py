"""The real store beside the journal of a schedule: what is on the disk after a real kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import trio

from trouper.errors import ScheduleError
from trouper.store import Tx, record
from trouper.testing._real_store import Recovering, mirror_for
from trouper.testing.schedules._journal import Journal
from trouper.testing.schedules._mirror import MIRROR, Mirror


@record("mirrored", version=1)
@dataclass(frozen=True, slots=True)
class Row:
    n: int


def put(key: bytes, n: int, tx: Tx) -> None:
    tx.put("meta", key, Row(n))


def append(n: int, tx: Tx) -> None:
    tx.append(Row(n))


async def write(journal: Journal, rows: dict[bytes, int]) -> None:
    async with journal.store() as store:
        for key, n in rows.items():
            await store.commit(partial(put, key, n))
            await store.commit(partial(append, n))
        journal.crash()


def killed(path: Path) -> None:
    """Write two rows in another process, which dies at its crash."""
    code = (
        "import sys, trio; from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "import test_real_store as test\n"
        "test.MIRROR.set(test.mirror_for('kill', Path(sys.argv[1])))\n"
        "trio.run(test.write, test.Journal(), {b'a': 1, b'b': 2})\n"
    )
    here = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", code, str(path), here], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def mirrored(mirror: Mirror) -> Journal:
    before = MIRROR.set(mirror)
    try:
        return Journal()
    finally:
        MIRROR.reset(before)


def test_what_was_committed_before_a_real_kill_is_what_the_explorer_believes(
    tmp_path: Path,
) -> None:
    killed(tmp_path / "store")
    mirror = mirror_for("recover", tmp_path / "store")
    journal = mirrored(mirror)
    trio.run(write, journal, {b"a": 1, b"b": 2})
    assert isinstance(mirror, Recovering)
    assert mirror.differences == []
    assert journal.get("meta", b"b", Row) == Row(2)
    assert journal.state.head == 2


def test_the_second_life_goes_on_from_the_disk_and_tells_what_differs(tmp_path: Path) -> None:
    killed(tmp_path / "store")
    mirror = Recovering(tmp_path / "store")
    journal = mirrored(mirror)
    trio.run(write, journal, {b"a": 3})
    assert mirror.differences[0] == f"meta {b'a'.hex()}"
    assert mirror.differences[-1] == "the log ends with 2, not 1"
    assert journal.get("meta", b"a", Row) == Row(1)
    assert journal.get("meta", b"b", Row) == Row(2)


def test_a_second_crash_is_simulated(tmp_path: Path) -> None:
    killed(tmp_path / "store")
    mirror = Recovering(tmp_path / "store")
    journal = mirrored(mirror)
    trio.run(write, journal, {b"a": 1, b"b": 2})
    trio.run(write, journal, {b"a": 7})
    assert mirror.differences == []
    assert journal.get("meta", b"a", Row) == Row(7)


def test_other_jobs_need_no_mirror(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match="no process of ours does 'trace'"):
        mirror_for("trace", tmp_path)
