"""A shortage is no damage: a machine out of descriptors or memory says nothing about a file.

Who reads "damaged" restores a backup over a sound store, so everything that opens one asks here
first.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from ..errors import PathRefused

_ADVICE: Final = {
    errno.EMFILE: "close files, or raise the limit of open files (ulimit -n), and retry",
    errno.ENFILE: "close files of any process, and retry",
    errno.ENOMEM: "free memory, or raise its limit (ulimit -v), and retry",
    errno.EAGAIN: "retry when there is room",
}


def is_shortage(code: int | None) -> bool:
    """Tell whether an error number means that the machine ran out of something."""
    return code in _ADVICE


def cannot_open(directory: Path, code: int | None, reason: str) -> PathRefused:
    """Return the refusal of a store that the system did not let us open, with what helps."""
    advice = _ADVICE.get(code or 0, "the store was left as it is; mend that, and retry")
    return PathRefused(
        f"no store can be opened at {str(directory)!r}: {reason}; {advice}",
        path=str(directory),
        reason=reason,
    )
