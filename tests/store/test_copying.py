"""Writing a copy: what stops it, and what it leaves."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from trouper.errors import PathRefused, StoreFull
from trouper.store._copying import cannot_write, silent, write_copy
from trouper.store._place import Identity

WHO = Identity(1, "somebody")


def test_what_the_source_raises_is_raised(tmp_path: Path) -> None:
    def copy(fd: int) -> None:
        os.write(fd, b"half of it")
        raise StoreFull("the source says no")

    with pytest.raises(StoreFull, match="the source says no"):
        write_copy(copy, tmp_path, WHO, 10, silent)


def test_a_copy_that_nobody_wants_ends(tmp_path: Path) -> None:
    ended = threading.Event()

    def copy(fd: int) -> None:
        try:
            while True:
                os.write(fd, b"x" * 1024)
        finally:
            ended.set()

    def enough(done: int, size: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_copy(copy, tmp_path, WHO, 10, enough)
    assert ended.is_set()


def test_without_a_thread_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PathRefused, match="no thread to be had"):
        write_copy(lambda fd: None, tmp_path, WHO, 10, silent)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_disk_that_takes_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy(fd: int) -> None:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(b"x" * 10)

    monkeypatch.setattr(os, "write", lambda *_: 0)
    with pytest.raises(PathRefused, match="nothing was written"):
        write_copy(copy, tmp_path, WHO, 10, silent)


@pytest.mark.parametrize(("code", "error"), [(28, StoreFull), (122, StoreFull), (13, PathRefused)])
def test_an_error_of_the_system_says_what_to_do(
    code: int, error: type[Exception], tmp_path: Path
) -> None:
    told = cannot_write(tmp_path / "copy", OSError(code, os.strerror(code)))
    assert type(told) is error
    assert str(tmp_path) in str(told)
