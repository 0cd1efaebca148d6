"""What is counted of a trace of system calls."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _kit.traced import Written, count

BEGIN = '7 write(3</dev/null>, "trouper begin", 13) = 13'
END = '7 write(3</dev/null>, "trouper end", 11) = 11'


def counted(*lines: str) -> tuple[int, int]:
    written = count(lines, 1)
    return written.bytes, written.syncs


@pytest.mark.parametrize(
    "call", ["pwrite64(9</d/data.mdb>, ..., 4096, 8192)", "writev(9</d/data.mdb>, [...], 1)"]
)
def test_writes_to_files_count_while_the_bench_runs(call: str) -> None:
    line = f"8 {call} = 4096"
    assert counted(line, BEGIN, line, line, END, line) == (8192, 0)


def test_what_goes_elsewhere_does_not_count() -> None:
    lines = ['7 write(5<pipe:[12]>, "x", 1) = 1', '7 write(1</dev/pts/0>, "x", 1) = 1']
    failed = "7 pwrite64(9</d/data.mdb>, ..., 4096, 0) = -1 ENOSPC (No space left on device)"
    assert counted(BEGIN, *lines, failed, END) == (0, 0)


def test_flushes_count_and_so_do_writes_that_wait_for_the_disk() -> None:
    opened = '7 openat(AT_FDCWD, "/d/data.mdb", O_WRONLY|O_DSYNC|O_CLOEXEC) = 10</d/data.mdb>'
    meta = "8 pwrite64(10</d/data.mdb>, ..., 120, 4112) = 120"
    assert counted(opened, BEGIN, "8 fdatasync(9</d/data.mdb>) = 0", meta, END) == (120, 2)
    reopened = '7 openat(AT_FDCWD, "/d/other", O_WRONLY|O_CLOEXEC) = 10</d/other>'
    assert counted(opened, reopened, BEGIN, meta, END) == (120, 0)


def test_a_call_that_another_thread_interrupted_counts_once() -> None:
    begun = "8 pwrite64(9</d/data.mdb>, ..., 4096, 0 <unfinished ...>"
    other = "7 fdatasync(9</d/data.mdb> <unfinished ...>"
    lines = [begun, other, "8 <... pwrite64 resumed>) = 4096", "7 <... fdatasync resumed>) = 0"]
    assert counted(BEGIN, *lines, END) == (4096, 1)


def test_each_is_spread_over_the_operations() -> None:
    assert Written(4, 100, 2).bytes_each == 25
    assert Written(4, 100, 2).syncs_each == 0.5
