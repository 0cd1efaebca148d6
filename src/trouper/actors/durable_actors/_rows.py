"""The rows of a durable actor beside its history. Its owner is the one writer."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from ...errors import TrouperError, ValueRefused
from ...store import decode, decode_record, encode, encode_record, is_record, record, row_key
from ..groups import ErrorRecord


@record("actor.snapshot", version=1)
@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """The state after record ``number``, encoded with its kind and version."""

    key: str
    number: int
    state: bytes


@record("actor.reply", version=1)
@dataclass(frozen=True, slots=True)
class ReplyRow:
    """What was answered under an idempotency id, and the fingerprint of the message."""

    ident: str
    message: bytes
    reply: bytes


def snapshot_key(key: str) -> bytes:
    """Return the row key of the latest snapshot."""
    return row_key(b"K", key)


def reply_key(key: str, number: int) -> bytes:
    """Return the row key of one recorded reply."""
    return row_key(b"R", key, number.to_bytes(8, "big"))


def encode_value(value: Any, what: str) -> bytes:
    """Encode a plain value or a record, with its version; `what` is its name in an error.

    Raises:
        ValueRefused, TooLarge: The journal cannot carry it.
    """
    if is_record(value.__class__):
        return encode(["record", encode_record(value)])
    with named_places(what):
        return encode(["value", value])


@contextmanager
def named_places(what: str) -> Generator[None]:
    """Name what a refused place belongs to, where its own list would say ``$[1]``.

    Raises:
        ValueRefused: What was raised within, under that name.
    """
    try:
        yield
    except ValueRefused as refused:
        path = what + refused.path.removeprefix("$[1]")
        raise ValueRefused(
            f"value refused at {path}: {refused.reason}", path=path, reason=refused.reason
        ) from None


def encode_error(error: TrouperError) -> bytes:
    """Encode a definite refusal; it comes back as itself."""
    known = ErrorRecord.of(error)
    return encode(["refused", known.name, known.message, known.facts])


def decode_kept(data: bytes) -> tuple[Any, TrouperError | None]:
    """Decode what was encoded above: the value, or the refusal.

    Raises:
        ValueRefused: It is neither.
        FormatTooNew: It holds a record of a newer version.
    """
    match decode(data):
        case ["value", value]:
            return value, None
        case ["record", bytes(inner)]:
            return decode_record(inner, object), None
        case ["refused", str(name), str(message), facts] if isinstance(facts, dict):
            return None, ErrorRecord(name, message, cast("dict[str, Any]", facts)).revive()
        case other:
            raise ValueRefused(f"not a kept value: {other!r:.80}", path="$", reason="unknown shape")
