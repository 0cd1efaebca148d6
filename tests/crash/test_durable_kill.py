"""SIGKILL while a durable actor works: what was answered is there, once, with the same answer."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from trouper import LmdbStore
from trouper.actors import inspect
from trouper.store import check, record

PROGRAM = Path(__file__).with_name("durable_program.py")


@record("kill.put")
@dataclass(frozen=True, slots=True)
class Put:
    """As the program has it."""

    ident: str


def kill_after(store: Path, answers: int) -> dict[str, int]:
    """Run the program from its first message on, kill it after so many answers; return them."""
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), str(store), "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(answers)]
        process.kill()
        lines += process.stdout.read().split("\n")[:-1]
    pairs = [line.split() for line in lines]
    assert len({ident for ident, _ in pairs}) == len(pairs)
    return {ident: int(total) for ident, total in pairs}


@pytest.mark.proves("Durable actors: recovery")
@pytest.mark.proves("Durable actors: idempotency id")
async def test_what_was_answered_before_a_kill_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "store"
    told: dict[str, int] = {}
    for answers in (1, 150, 400):
        for ident, total in kill_after(path, answers).items():
            assert told.setdefault(ident, total) == total  # the recorded reply, in every life
        async with LmdbStore(path) as store:
            history = [item async for item in store.records("till")]
            (view,) = inspect.actors(store)
        assert [number for number, _ in history] == list(range(1, len(history) + 1))
        assert max(Counter(put.ident for _, put in history).values()) == 1
        place = {put.ident: number for number, put in history}
        assert {ident: place[ident] for ident in told} == told
        assert view.records == view.replies == len(history)
        assert len(history) - view.snapshot < 50 + 1024
        assert check(path, invariants=inspect.INVARIANTS).ok
