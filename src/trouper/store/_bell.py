"""How the loop hears of a commit.

``TrioToken.run_sync_soon`` would do: it takes a lock, sends through a socket, and reads that twice.
Behind a flush all of this is cold, and stands between a commit and what waits for it. Where the
system has event counters, one of them does the same for less.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, final

import trio


@final
class Bell:
    """Runs calls on the loop that it was made on, one by one in order, for another thread.

    Args:
        token: Of that loop.
        is_plain: Do it by the token after all: a test's clock knows that way of waiting only.
    """

    def __init__(self, token: trio.lowlevel.TrioToken, *, is_plain: bool) -> None:
        self._token = token
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._scope = trio.CancelScope()
        self._fd = -1
        self._is_deaf = False  # nobody listens to the counter, any more or at all
        if sys.platform == "linux" and not is_plain:
            with suppress(OSError):  # no file to be had: the token's way needs none
                self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        if self._fd < 0:
            self._is_deaf = True
        else:
            trio.lowlevel.spawn_system_task(self._listen, name="trouper-store verdicts")

    def ring(self, call: Callable[..., None], *args: Any) -> None:
        """Let ``call(*args)`` run; it must not raise. If the loop has ended, nobody hears it."""
        self._calls.append((call, args))  # first: whoever goes deaf looks once more behind that
        if sys.platform == "linux" and not self._is_deaf:
            os.eventfd_write(self._fd, 1)
        else:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._answer)

    def ring_last(self, call: Callable[..., None], *args: Any) -> None:
        """Let a call run behind all others, and be the last one."""
        self._calls.append((call, args))
        try:
            self._token.run_sync_soon(self.close)
        except trio.RunFinishedError:  # nobody hears it, and nobody but this thread is left
            self._shut()

    def close(self) -> None:
        """Run what there is and listen no more. On the loop; nobody may ring again."""
        self._answer_all()
        self._scope.cancel()
        if self._is_deaf:  # whoever listened was cancelled before
            self._shut()

    def _shut(self) -> None:
        # Not before the last ring: while the thread may write to it, the number stays ours.
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _answer_all(self) -> None:
        while self._calls:
            self._answer()

    def _answer(self) -> None:
        calls = self._calls
        for _ in range(len(calls)):  # whoever rings meanwhile is heard after the others had a turn
            call, args = calls.popleft()
            try:
                call(*args)
            except BaseException as bug:  # ends the run, and the others are heard all the same
                self._token.run_sync_soon(_raise, bug)

    async def _listen(self) -> None:
        try:
            with self._scope:
                while True:
                    await trio.lowlevel.wait_readable(self._fd)
                    if sys.platform == "linux":
                        os.eventfd_read(self._fd)
                    self._answer()
            self._shut()
        finally:
            # When a run crashes, its own tasks are cancelled before those that wait for verdicts
            # have them; callbacks go on to its end.
            self._is_deaf = True
            self._answer_all()


def _raise(bug: BaseException) -> None:
    raise bug
