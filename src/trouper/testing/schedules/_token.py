"""Tokens: a failing schedule as a line that can be copied.

``T1.`` and base64 of compressed JSON. Version history: 1 is the first.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from ...errors import TokenForeign, TokenGarbled
from ._event import KINDS, Event
from ._order import Constraint
from ._trace import Delivery, Time

VERSION: Final = 1
TOKEN_CHARACTERS: Final = 64 * 1024
_TOKEN_BYTES: Final = 1024 * 1024  # unpacked
_RECORDED: Final = KINDS[:-1]  # rest is never part of a schedule


@dataclass(frozen=True, slots=True)
class Token:
    """What it takes to play a schedule again.

    Args:
        model: Digest of the scenario's name; see `model_digest`.
        constraints: What comes before what.
        tape: All events in order; only where the constraints alone do not reproduce the failure.
        delivery, time: The `Rules` it was found under.
    """

    model: str
    constraints: tuple[Constraint, ...]
    tape: tuple[Event, ...] = ()
    delivery: Delivery = "causal"
    time: Time = "idle"


def model_digest(scenario: str) -> str:
    """Return what ties a token to the scenario of this name, and to no version of its code."""
    return hashlib.blake2b(scenario.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def encode_token(token: Token) -> str:
    """Write a token down.

    Raises:
        ValueError: It would be longer than `decode_token` reads.
    """
    pairs = [[row_of(c.first), row_of(c.then)] for c in token.constraints]
    tape = [row_of(event) for event in token.tape]
    fields = [token.model, token.delivery, token.time, pairs, tape]
    data = json.dumps(fields, separators=(",", ":")).encode()
    packed = base64.urlsafe_b64encode(zlib.compress(data, 9)).rstrip(b"=").decode()
    text = f"T{VERSION}.{packed}"
    if len(data) > _TOKEN_BYTES or len(text) > TOKEN_CHARACTERS:
        raise ValueError(
            f"the schedule makes a token of {len(text)} characters; at most {TOKEN_CHARACTERS} are "
            "read back. Let the scenario do less."
        )
    return text


def decode_token(text: str, *, model: str | None = None) -> Token:
    """Read a token.

    Args:
        text: What `encode_token` returned; white space around it does not matter.
        model: The digest of the scenario that shall be played; any is taken by default.

    Raises:
        TokenGarbled: This is none, or not all of it.
        TokenForeign: It is of another scenario, or of another version.
    """
    text = text.strip()
    head, dot, body = text.partition(".")
    version = head[1:]
    if head[:1] != "T" or not dot or not version.isascii() or not version.isdigit():
        raise _garbled(text, "it does not begin with T1.")
    if len(text) > TOKEN_CHARACTERS:
        raise _garbled(text, f"it is longer than {TOKEN_CHARACTERS} characters")
    if version != str(VERSION):
        raise TokenForeign(
            f"the token is of version {version[:9]}, this is {VERSION}: replay it with the trouper "
            "that printed it, or find the failure again with the same seed"
        )
    try:
        token = _read(json.loads(_unpack(body)))
    except (ValueError, TypeError, KeyError, RecursionError, zlib.error, binascii.Error) as exc:
        raise _garbled(text, "what is in it is damaged") from exc
    if model is not None and token.model != model:
        raise TokenForeign(
            "the token was printed for another scenario (by its name): replay it with the test "
            "that printed it"
        )
    return token


def _garbled(text: str, why: str) -> TokenGarbled:
    shown = text if len(text) <= 40 else f"{text[:40]}..."
    return TokenGarbled(
        f"no token of a schedule: {why}. Copy the whole line that a failure printed, from T1. to "
        f"its end; got {shown!r}"
    )


def _unpack(body: str) -> bytes:
    packed = body.encode("ascii")
    packed = base64.b64decode(packed + b"=" * (-len(packed) % 4), altchars=b"-_", validate=True)
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(packed, _TOKEN_BYTES)
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("cut off, or something is behind it")
    return data


def row_of(event: Event) -> list[object]:
    """Return an event as JSON holds it."""
    kind = _RECORDED.index(event.kind)
    return [kind, event.target, event.sender, event.what, event.sequence, event.life]


def _read(fields: Any) -> Token:
    model, delivery, time, pairs, tape = fields
    if not isinstance(model, str) or delivery not in get_args(Delivery):
        raise ValueError("no such delivery")
    if time not in get_args(Time):
        raise ValueError("no such time")
    constraints = tuple(Constraint(event_of(first), event_of(then)) for first, then in pairs)
    return Token(model, constraints, tuple(map(event_of, tape)), delivery, time)


def event_of(row: Any) -> Event:
    """Return the event that `row_of` wrote down.

    Raises:
        ValueError, TypeError: It is none.
    """
    kind, target, sender, what, sequence, life = row
    names, numbers = (target, sender, what), (kind, sequence, life)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("a name is text")
    if not all(type(number) is int for number in numbers) or kind < 0:
        raise TypeError("a number is whole")
    if kind >= len(_RECORDED):
        raise ValueError("no such kind of event")
    return Event(cast("Any", _RECORDED[kind]), target, sender, what, sequence, life)
