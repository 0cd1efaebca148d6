"""SIGKILL at any instant: what was acknowledged is there, the rest is there whole or not at all."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from trouper.store import LmdbStore
from trouper.testing.conformance._journal_rows import Row

# Each unit writes three rows that must agree, deletes one of an earlier unit, and its number is
# printed only after the verdict. Some units raise, and must leave nothing.
CHILD = """
import os, sys
import trio
from trouper.store import LmdbStore, log_key
from trouper.testing.conformance._journal_rows import Row

class Refused(Exception):
    pass

def unit(tx):
    count = tx.get("group", b"count", Row) or Row("count")
    number = count.number + 1
    tx.put("group", b"count", Row("count", number))
    tx.put("record", number.to_bytes(8, "big"), Row("record", number, "x" * (number % 3000)))
    if number > 200:
        tx.delete("record", (number - 200).to_bytes(8, "big"))
    sequence = tx.append(Row("log", number))
    assert sequence == number, (sequence, number)
    return number

def refused(tx):
    unit(tx)
    raise Refused

async def actor(store):
    while True:
        os.write(1, b"%d\\n" % await store.commit(unit))
        try:
            await store.commit(refused)
        except Refused:
            pass

async def main():
    async with LmdbStore(sys.argv[1], level=sys.argv[2]) as store:
        os.write(1, b"open %d\\n" % store.epoch)
        async with trio.open_nursery() as nursery:
            for _ in range(int(sys.argv[3])):
                nursery.start_soon(actor, store)

trio.run(main)
"""


def run_and_kill(path: Path, level: str, actors: int, bytes_first: int) -> tuple[int, list[int]]:
    """Run the child until it has acknowledged some units, kill it, return epoch and numbers."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), level, str(actors)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    output = b""
    try:
        while len(output) < bytes_first:
            more = os.read(child.stdout.fileno(), 4096)
            assert more, "the child died by itself"
            output += more
    finally:
        child.kill()
        output += child.stdout.read()
        child.stdout.close()
        assert child.wait() == -signal.SIGKILL
    lines = output.decode().split("\n")[:-1]  # the kill may cut the last line
    return int(lines[0].removeprefix("open ")), [int(line) for line in lines[1:]]


async def check(path: Path, epoch: int, acknowledged: list[int], before: int) -> int:
    """Compare what the store holds with what was acknowledged; return how many units it holds."""
    async with LmdbStore(path) as store:
        assert store.epoch == epoch + 1
        row = store.get("group", b"count", Row)
        count = row.number if row is not None else 0
        numbers = list(range(1, count + 1))
        assert len(set(acknowledged)) == len(acknowledged), "one number, two units"
        assert all(before < number <= count for number in acknowledged), "acknowledged, and gone"
        assert [row.number for _, row in store.scan("log", b"", Row)] == numbers
        records = [row for _, row in store.scan("record", b"", Row)]
        assert [row.number for row in records] == numbers[-200:]
        assert all(len(row.value) == row.number % 3000 for row in records)
        return count


async def kill_rounds(path: Path, level: str, rounds: int) -> None:
    """Kill and check, again and again on one store; a failure names the seed of the round."""
    count = 0
    for seed in range(rounds):
        dice = random.Random(f"{level} {seed}")
        actors = dice.choice((1, 8, 64))
        # The number of output bytes to wait for is what spreads the kills over the child's life.
        epoch, acknowledged = await trio.to_thread.run_sync(
            run_and_kill, path, level, actors, dice.randrange(1, 3000)
        )
        count = await check(path, epoch, acknowledged, count)
    assert count > 0


@pytest.mark.parametrize(("level", "rounds"), [("durable", 8), ("relaxed", 3)])
async def test_no_acknowledged_unit_is_lost_and_none_is_torn(
    level: str, rounds: int, tmp_path: Path
) -> None:
    await kill_rounds(tmp_path, level, rounds)


@pytest.mark.soak
@pytest.mark.parametrize("level", ["durable", "relaxed"])
async def test_a_hundred_kills_lose_nothing_and_tear_nothing(level: str, tmp_path: Path) -> None:
    await kill_rounds(tmp_path, level, 100)
