"""Outcomes: what a journaled effect came to, and how an error travels through a journal.

Live equals replay (ruling 13): what a step hands to the code is always decoded from the bytes that
were journaled, on the first run too. Errors of registered types - every `TrouperError`, a user's
subclass of `Reject` included - come back as themselves, any other as `EffectFailed`.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard, cast

from ...errors import (
    EffectFailed,
    OutcomeUnknown,
    StoreError,
    TooLarge,
    TrouperError,
    ValueRefused,
    durable_name,
)
from ...store import PLAIN, Shape, decode, decode_vouched, encode, shapes_of
from ._envelope import at_place

MAX_TEXT = 4096


MAX_OUTCOME = 8 << 20
"""Bytes of one outcome. With the arguments beside it, it fits the largest row of a store."""


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """An error as data: the durable name of its type, its message, its facts."""

    name: str
    message: str
    facts: dict[str, Any]

    @classmethod
    def of(cls, error: BaseException) -> ErrorRecord:
        """Describe an error. Single-element groups are unwrapped; the cause is what people need."""
        error = _innermost(error)
        if isinstance(error, TrouperError):
            return cls(error.record_name, _text(error), _plain(type(error), error.facts))
        text = _text(error)
        return cls(
            EffectFailed.record_name,
            f"{type(error).__name__}: {text}",
            {"type": durable_name(type(error)), "text": text, "where": _where(error)},
        )

    def revive(self) -> TrouperError:
        """Build the error again; as `EffectFailed` where this program has no such type."""
        kind = TrouperError.named(self.name)
        if kind is None:
            return EffectFailed(self.message, type=self.name, text=self.message)
        return kind.revive(self.message, _rebuilt(kind, self.facts))


def _innermost(error: BaseException) -> BaseException:
    match error:
        case BaseExceptionGroup(exceptions=(only,)):
            return _innermost(cast("BaseException", only))
        case _:
            return error


def _where(error: BaseException) -> str:
    """Return the line that raised it: a traceback does not survive, and people need one line."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code, line = trace.tb_frame.f_code, trace.tb_lineno
    where = f"{code.co_filename.rpartition('/')[2]}:{line} in {code.co_name}"
    return where.encode("utf-8", "backslashreplace").decode()


def _text(error: BaseException) -> str:
    """Return an error's text as a journal can carry it: a file name may hold lone surrogates."""
    try:
        text = str(error)
    except Exception as broken:
        text = f"(its text cannot be had: {type(broken).__name__})"
    return text.encode("utf-8", "backslashreplace").decode()


_SHAPES: dict[type[TrouperError], dict[str, Shape[Any]]] = {}  # writer: `_shapes`


def _shapes(kind: type[TrouperError]) -> dict[str, Shape[Any]]:
    """Return the shapes of an error's facts, by the annotations of its class."""
    known = _SHAPES.get(kind)
    if known is not None:
        return known
    found: dict[str, Shape[Any]] = {}
    for base in reversed(kind.__mro__):
        module = sys.modules.get(base.__module__)
        names = {} if module is None else vars(module)
        found |= shapes_of(inspect.get_annotations(base), names, {})
    _SHAPES[kind] = found
    return found


def _plain(kind: type[TrouperError], facts: dict[str, Any]) -> dict[str, Any]:
    """Keep the facts that a journal can carry; of the others it carries the text."""
    shapes = _shapes(kind)
    return {name: _fact(shapes.get(name, PLAIN), value) for name, value in facts.items()}


def _fact(shape: Shape[Any], value: Any) -> Any:
    for how in (shape, PLAIN):
        try:
            return decode(encode(how.to_plain(value)))
        except (ValueRefused, TooLarge):
            continue
    return f"{value!r:.{MAX_TEXT}}"


def _rebuilt(kind: type[TrouperError], facts: dict[str, Any]) -> dict[str, Any]:
    """Rebuild facts as the class annotates them; what it does not fit any more stays plain."""
    shapes = _shapes(kind)
    found: dict[str, Any] = {}
    for name, plain in facts.items():
        try:
            found[name] = shapes.get(name, PLAIN).to_value(plain)
        except StoreError:
            found[name] = plain
    return found


@dataclass(frozen=True, slots=True)
class Completed:
    """The effect gave this value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The effect raised. ``unknown`` says that only the answer was lost: it may have happened."""

    error: ErrorRecord
    unknown: bool = False

    def exception(self) -> TrouperError:
        """Build the exception that a waiter gets."""
        return self.error.revive()


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A journaled cancel ended it. Never the result of a shutdown (ruling 14)."""


Outcome: TypeAlias = Completed | Failed | Cancelled


def timed_out(name: str, key: str, timeout: float) -> Failed:
    """Build the outcome of an effect whose last attempt ran out of time (ruling 7)."""
    return Failed(
        ErrorRecord.of(
            OutcomeUnknown(
                f"effect {name} did not answer within {timeout} s: outcome unknown; re-read what "
                f"it changes, or retry under the same key {key!r}, never under a new one",
                key=key,
            )
        ),
        unknown=True,
    )


def encode_outcome(outcome: Outcome, shape: Shape[Any] = PLAIN) -> bytes:
    """Encode an outcome for the journal, its value in the form that its shape gives it.

    A value that the journal cannot carry makes the effect a failure that says so: it ran, and what
    it gave cannot be handed on twice.
    """
    match outcome:
        case Completed(value):
            try:
                return _bounded(encode(["completed", shape.to_plain(value, "result")]))
            except ValueRefused as refused:
                return encode_outcome(Failed(ErrorRecord.of(at_place(refused, {"$[1]": "result"}))))
            except TooLarge as refused:
                return encode_outcome(Failed(ErrorRecord.of(refused)))
        case Failed() as failed:
            error, unknown = failed.error, failed.unknown
            facts: dict[str, Any] = error.facts
            try:
                return encode(["failed", error.name, error.message, facts, unknown])
            except TooLarge:
                # An error is a message to people: its head says what the rest cannot.
                message = f"{error.message[:MAX_TEXT]} [cut: {len(error.message)} characters]"
                return encode(["failed", error.name, message, dict[str, Any](), unknown])
        case Cancelled():
            return encode(["cancelled"])


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_OUTCOME:
        raise TooLarge(
            f"a result of {len(data)} bytes is larger than the {MAX_OUTCOME} bytes that one "
            "outcome may have; keep it outside, and return where it is",
            size=len(data),
            limit=MAX_OUTCOME,
        )
    return data


def decode_outcome(data: bytes) -> Outcome:
    """Decode a journaled outcome, for whose bytes the checksum of its row vouches."""
    match decode_vouched(data):
        case ["completed", value]:
            return Completed(value)
        case ["failed", str(name), str(message), facts, bool(unknown)] if _is_map(facts):
            return Failed(ErrorRecord(name, message, facts), unknown)
        case ["cancelled"]:
            return Cancelled()
        case other:
            raise ValueRefused(
                f"not a journaled outcome: {other!r:.80}", path="$", reason="unknown outcome"
            )


def _is_map(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)
