"""When a failed attempt is followed by another: the rule of an effect, and what a runner says.

Pure: no clock, no journal. Whoever runs attempts counts the failures and keeps the due instant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import cast

from ...errors import Reject
from ...supervision import Backoff
from ._outcome import Failed

_CHANCES = 1 << 53


@dataclass(frozen=True, slots=True)
class Retry:
    """What a failed attempt comes to that is not the last: another, ``after`` so many seconds.

    ``failed`` is the terminal should there be no further attempt after all, as when a cancel came.
    """

    after: float
    failed: Failed


@dataclass(frozen=True, slots=True)
class Retries:
    """How often an effect is tried, how long it waits in between, and which errors are definite.

    Attempts that ended with their process count for nothing here: only a failure that was journaled
    uses one up.
    """

    attempts: int = 1
    backoff: Backoff = field(default_factory=Backoff)
    definite: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        _require_count(self.attempts)
        _require_kinds(self.definite)

    def is_definite(self, error: BaseException) -> bool:
        """Tell whether an error is an answer, so that another attempt could only ask again.

        A group of errors is definite if any of them is.
        """
        if isinstance(error, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", error)
            return any(self.is_definite(each) for each in group.exceptions)
        return isinstance(error, (Reject, *self.definite))

    def decide(self, key: str, failures: int, failed: Failed) -> Failed | Retry:
        """Decide what an attempt that failed, with no definite answer, comes to.

        Args:
            key: The effect's replay key. It seeds the jitter: the same wait in every process, and
                another one for each effect.
            failures: How many attempts failed before this one.
            failed: The outcome if it was the last.
        """
        if failures + 1 >= self.attempts:
            return failed
        return Retry(self.backoff.delay(failures, chance(key, failures)), failed)


def _require_count(attempts: object) -> None:
    if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
        raise ValueError(f"attempts must be a whole number from 1, it is {attempts!r}")


def _require_kinds(definite: object) -> None:
    kinds = cast("tuple[object, ...]", definite)
    if not isinstance(definite, tuple) or not all(
        isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds
    ):
        raise TypeError(f"definite takes a tuple of exception types, it is {definite!r}")


ONCE = Retries()


def chance(key: str, failures: int) -> float:
    """Return a number in [0, 1) that depends on the effect and on its failures alone."""
    digest = blake2b(f"{key} {failures}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / _CHANCES
