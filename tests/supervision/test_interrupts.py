"""A Ctrl-C at any line of a supervisor: every child ends in order, and nothing hangs."""

from __future__ import annotations

import pytest
import trio
from tests.supervision.conftest import interrupt_at

from trouper.supervision import Backoff, Supervisor, one_for_all


class Cast:
    """Children of which one fails now and then."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.lives = 0

    async def child(self, name: str) -> None:
        self.log.append(f"+{name}")
        try:
            if name == "c":
                self.lives += 1
                await trio.sleep(0.5)
                if self.lives % 2:
                    raise ValueError("c")
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.1)
            self.log.append(f"-{name}")

    async def main(self) -> None:
        async with Supervisor(strategy=one_for_all(backoff=Backoff())) as supervisor:
            for name in "abcd":
                supervisor.start(self.child, name, name=name)
            supervisor.start(trio.sleep, 0.2, restart="never")
            await trio.sleep(1)
            await supervisor.stop("d")
            await trio.sleep(1)


@pytest.mark.proves("Shutdown: KeyboardInterrupt")
def test_a_ctrl_c_at_any_line_of_a_supervisor_ends_it_in_order() -> None:
    whole = interrupt_at(0, Cast().main)[0].seen
    assert whole > 300
    for line in range(1, whole, 5):
        cast = Cast()
        lines, is_interrupted = interrupt_at(line, cast.main)
        assert is_interrupted or not lines.where, lines.where
        ups = sorted(entry[1:] for entry in cast.log if entry[0] == "+")
        downs = sorted(entry[1:] for entry in cast.log if entry[0] == "-")
        assert downs == ups, lines.where
