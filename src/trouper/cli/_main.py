"""Entry point: load the command line if its extra is there; failures become exit statuses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from ._status import Status, read_failure

_EXTRA = ("typer", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    A mistake of the user's is one line on stderr: what was wrong, where, what to do. Anything
    that is not one of trouper's errors, nor the operating system's, is a bug and keeps its
    traceback.

    Args:
        arguments: What follows the command's name; ``sys.argv[1:]`` by default.

    Returns:
        A `Status`: 0 done, 1 the job failed, 2 wrong use or refused input, 3 outcome unknown,
        130 interrupted, 141 nobody reads the output any more.
    """
    if any(find_spec(name) is None for name in _EXTRA):
        print(
            "trouper: the command line is an extra: pip install 'trouper[cli]'",
            file=sys.stderr,
        )
        return Status.REFUSED
    from ._app import run_app  # needs the extra

    try:
        return run_app(sys.argv[1:] if arguments is None else arguments)
    except BaseException as error:
        failure = read_failure(error)
        if failure is None:
            raise
        for line in failure.lines:
            print(f"trouper: {line}", file=sys.stderr)
        return failure.status
