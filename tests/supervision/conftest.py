"""Ctrl-C at chosen lines of the library, to find where it would leave something half-done."""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import trio
from trio.testing import MockClock

import trouper

ROOT = f"{Path(trouper.__file__).parent}/"  # of the source tree, or of an installed wheel
WATCHDOG = 20  # seconds; says only that a run hangs


class Lines:
    """Counts the lines of the library that run, and sends a Ctrl-C at one of them."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen = 0
        self.where = ""

    def calls(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self.lines if ROOT in frame.f_code.co_filename else None

    def lines(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.seen += 1
            if self.seen == self.at:
                name = frame.f_code.co_filename.partition(ROOT)[2]
                self.where = f"{name}:{frame.f_lineno}"
                signal.raise_signal(signal.SIGINT)
        return self.lines


@contextmanager
def watched(lines: Lines) -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise AssertionError(f"a Ctrl-C at {lines.where} hangs the run")

    before, trace = signal.signal(signal.SIGALRM, give_up), sys.gettrace()
    signal.alarm(WATCHDOG)
    sys.settrace(lines.calls)
    try:
        yield
    finally:
        sys.settrace(trace)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def interrupt_at(line: int, main: Callable[[], Awaitable[Any]]) -> tuple[Lines, bool]:
    """Run ``main`` with a Ctrl-C at that line; tell whether it came out as KeyboardInterrupt."""
    lines = Lines(line)
    try:
        with watched(lines):
            trio.run(main, clock=MockClock(autojump_threshold=0))
    except KeyboardInterrupt:
        return lines, True
    except BaseExceptionGroup as group:  # of a nursery of the test's own
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        return lines, True
    return lines, False
