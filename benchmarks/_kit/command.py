"""The command line that every benchmark of rows has: run, show, write, judge."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .page import PAGES, publish
from .plot import draw
from .process import HERE, SystemFailed
from .report import Result, show


def command(name: str, about: str, run: Callable[[bool], Result]) -> int:
    """Run, show, write the results, and judge the gates; return the exit status.

    Args:
        name: What the result files are called.
        about: The first line of the help.
        run: Measures everything; told whether it is only tried out.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="a smoke run; judges nothing")
    parser.add_argument("--results", type=Path, default=HERE / "results", metavar="DIR")
    parser.add_argument("--from", type=Path, dest="source", metavar="JSON", help="show it again")
    parser.add_argument(
        "--publish",
        type=Path,
        nargs="?",
        const=PAGES,
        metavar="DIR",
        help="render the page of the documentation too, into docs/performance",
    )
    args = parser.parse_args()
    started = time.monotonic()
    try:
        result = run(args.quick) if args.source is None else Result.load(args.source)
    except SystemFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show(result)
    if args.source is None:
        args.results.mkdir(parents=True, exist_ok=True)
        result.save(args.results / f"{name}.json")
        draw(result, args.results / f"{name}.svg")
        print(f"{time.monotonic() - started:.0f} s; written to {args.results}")
    if args.publish is not None:
        publish(result, args.publish)
    if result.quick:
        return 0
    for miss in result.misses():
        print(f"MISSED: {miss}", file=sys.stderr)
    return 1 if result.misses() else 0
