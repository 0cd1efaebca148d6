"""SIGKILL inside a race that cancels its losers: recovery resumes it and decides nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from trouper.actors import inspect
from trouper.store import LmdbStore

PROGRAM = Path(__file__).with_name("race_program.py")


def start(store: Path, winner: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(store), winner],
        stdout=subprocess.PIPE,
        text=True,
    )


def kill_in_the_race(store: Path, winner: str) -> None:
    process = start(store, winner)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "in the race 1\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


async def states(store: Path) -> dict[str, str]:
    async with LmdbStore(store) as journal:
        return {
            **{effect.name.rpartition(".")[2]: effect.state for effect in inspect.effects(journal)},
            **{
                activation.activity.rpartition(".")[2]: activation.state
                for activation in inspect.activations(journal)
            },
        }


@pytest.mark.parametrize(
    ("winner", "result"),
    [("effect", [0, "worked", 1]), ("child", [0, "worked", 1]), ("timer", [1, None, 1])],
)
async def test_the_resumed_race_ends_with_its_real_winner(
    tmp_path: Path, winner: str, result: list[object]
) -> None:
    store = tmp_path / "store"
    kill_in_the_race(store, winner)
    at_kill = await states(store)
    assert set(at_kill.values()) == {"open", "running"}

    with trio.fail_after(60):
        finished = await trio.run_process(
            [sys.executable, str(PROGRAM), str(store), winner], capture_stdout=True
        )
    assert finished.stdout.decode().splitlines()[-1] == str(result)

    ended = await states(store)
    assert ended["contest"] == "completed"
    # Only the race itself cancelled anything, and only its loser.
    cancelled = {name for name, state in ended.items() if state == "cancelled"}
    assert cancelled == ({"work"} if winner == "timer" else {"sleep"})


async def test_a_second_kill_in_the_same_race_changes_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    kill_in_the_race(store, "timer")
    process = start(store, "timer")
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "in the race 2\n"
        process.send_signal(signal.SIGKILL)
    assert set((await states(store)).values()) == {"open", "running"}
