"""Envelopes: one unit of outside work as data, and its fingerprint.

Absent membership is absent from the encoding, so the canonical bytes of an ungrouped envelope, and
with them its fingerprint, never change because groups exist (golden values in the tests).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...errors import ReplayMismatch, TooLarge, ValueRefused
from ...store import Coded, MapCode, canonical, decode, encode, fingerprint, fingerprint_of
from ._policy import Disposition, WakePolicy, read_word

FINGERPRINT_DOMAIN = "envelope/1"
MAX_ARGUMENTS = 4 << 20

# The two orders of its fields: that of the stored bytes, and that of the fingerprint (canonical).
_STORED = MapCode("arguments", "kind", "name", "replay_key", "scope")
_STORED_IN_GROUP = MapCode("arguments", "kind", "name", "replay_key", "scope", "membership")
_STORED_MEMBERSHIP = MapCode("disposition", "group", "position", "wake")
_PRINTED = MapCode("kind", "name", "scope", "arguments", "replay_key")
_PRINTED_IN_GROUP = MapCode("kind", "name", "scope", "arguments", "membership", "replay_key")
_PRINTED_MEMBERSHIP = MapCode("wake", "group", "position", "disposition")


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """Which group a child belongs to, and the words of that group."""

    group: str
    position: int
    wake: WakePolicy
    disposition: Disposition

    def __post_init__(self) -> None:
        if not self.group.strip() or self.position < 0:
            raise ValueRefused(
                f"a membership needs a group key and a position from 0, it has {self.group!r} and "
                f"{self.position!r}",
                path="membership",
                reason="blank or out of range",
            )

    def stored(self) -> bytes | None:
        """Return the stored bytes, or None where they take the general encoder."""
        return _STORED_MEMBERSHIP.encode(
            self.disposition.value, self.group, self.position, self.wake.value
        )

    def printed(self) -> bytes | None:
        """Return the canonical bytes, or None where they take the general encoder."""
        return _PRINTED_MEMBERSHIP.encode(
            self.wake.value, self.group, self.position, self.disposition.value
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the persisted form."""
        return {
            "disposition": str(self.disposition),
            "group": self.group,
            "position": self.position,
            "wake": str(self.wake),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GroupMembership:
        """Read the persisted form; missing fields and unknown words are refused by name."""
        return cls(
            _field(data, "group", str),
            _field(data, "position", int),
            read_word(WakePolicy, _field(data, "wake", str)),
            read_word(Disposition, _field(data, "disposition", str)),
        )


@dataclass(frozen=True, slots=True)
class EffectEnvelope:
    """What to run, with which arguments, under which identity.

    ``kind`` picks the runner kind (effect, timer, activation, guest), ``name`` the code in it;
    ``arguments`` is the canonical encoding of ``[args, kwargs]``.
    """

    kind: str
    name: str
    arguments: bytes
    scope: str
    replay_key: str
    membership: GroupMembership | None = None

    def __post_init__(self) -> None:
        try:
            named = self.kind.strip() and self.name.strip()
            sound = named and self.scope.strip() and self.replay_key.strip()
        except AttributeError:  # no text
            sound = ""
        if not sound:
            raise self._refused()

    def _refused(self) -> ValueRefused:
        for field in ("kind", "name", "scope", "replay_key"):
            value = getattr(self, field)
            if type(value) is not str or not value.strip():
                break
        return ValueRefused(
            f"an envelope needs a text that is not blank as its {field}, it has {value!r:.80}",
            path=field,
            reason="blank",
        )

    @classmethod
    def make(
        cls, kind: str, name: str, args: list[Any], kwargs: dict[str, Any], scope: str, key: str
    ) -> EffectEnvelope:
        """Build an envelope; raises `ValueRefused` naming the place in the arguments."""
        return cls(kind, name, encode_arguments(args, kwargs), scope, key)

    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """Return fresh copies of the arguments, in their plain form."""
        args, kwargs = decode(self.arguments, is_canonical=True)
        return args, kwargs

    def in_group(self, membership: GroupMembership) -> EffectEnvelope:
        """Return this envelope as a child of that group."""
        return EffectEnvelope(
            self.kind, self.name, self.arguments, self.scope, self.replay_key, membership
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the persisted form."""
        data: dict[str, Any] = {
            "arguments": self.arguments,
            "kind": self.kind,
            "name": self.name,
            "replay_key": self.replay_key,
            "scope": self.scope,
        }
        if self.membership is not None:
            data["membership"] = self.membership.to_dict()
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EffectEnvelope:
        """Read the persisted form; it passes the constructor's checks again."""
        membership = data.get("membership")
        return cls(
            _field(data, "kind", str),
            _field(data, "name", str),
            _field(data, "arguments", bytes),
            _field(data, "scope", str),
            _field(data, "replay_key", str),
            None if membership is None else GroupMembership.from_dict(_mapping(membership)),
        )

    def encoded(self) -> bytes:
        """Return the stored bytes."""
        code, member = None, None
        if self.membership is None:
            code = _STORED.encode(self.arguments, self.kind, self.name, self.replay_key, self.scope)
        elif (member := self.membership.stored()) is not None:
            code = _STORED_IN_GROUP.encode(
                self.arguments, self.kind, self.name, self.replay_key, self.scope, Coded(member)
            )
        return encode(self.to_dict()) if code is None else code

    @classmethod
    def decoded(cls, data: bytes) -> EffectEnvelope:
        """Read the stored bytes."""
        return cls.from_dict(_mapping(decode(data)))

    def fingerprint(self) -> bytes:
        """Return the SHA-256 identity of the whole envelope, membership included when present."""
        code, member = None, None
        if self.membership is None:
            code = _PRINTED.encode(
                self.kind, self.name, self.scope, self.arguments, self.replay_key
            )
        elif (member := self.membership.printed()) is not None:
            code = _PRINTED_IN_GROUP.encode(
                self.kind, self.name, self.scope, self.arguments, Coded(member), self.replay_key
            )
        if code is None:
            return fingerprint(FINGERPRINT_DOMAIN, self.to_dict())
        return fingerprint_of(FINGERPRINT_DOMAIN, code)


def encode_arguments(args: Iterable[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Encode the arguments of a call.

    Raises:
        ValueRefused: A value that the journal cannot carry, with its place.
        TooLarge: More than `MAX_ARGUMENTS` bytes.
    """
    both: list[Any] = [list(args), dict(kwargs)]
    try:
        data = canonical(both)
    except ValueRefused as refused:
        raise at_place(refused, {"$[0]": "args", "$[1]": "kwargs"}) from None
    if len(data) > MAX_ARGUMENTS:
        raise TooLarge(
            f"arguments of {len(data)} bytes are larger than the {MAX_ARGUMENTS} bytes that one "
            "call may have; keep them outside, and pass where they are",
            size=len(data),
            limit=MAX_ARGUMENTS,
        )
    return data


def at_place(refused: ValueRefused, places: Mapping[str, str]) -> ValueRefused:
    """Return a refusal that says the place in the words of the caller, not of our encoding."""
    for prefix, place in places.items():
        if refused.path.startswith(prefix):
            path = place + refused.path.removeprefix(prefix)
            return ValueRefused(
                f"value refused at {path}: {refused.reason}", path=path, reason=refused.reason
            )
    return refused


def require_same(recorded: EffectEnvelope, offered: EffectEnvelope, where: str) -> None:
    """Raise `ReplayMismatch` naming the first field in which a replay drifted from its record."""
    if recorded == offered:
        return
    # Compared as bytes: 1, 1.0 and True are other arguments, though Python calls them equal.
    old, new = _flat(recorded), _flat(offered)
    field = next(f for f in sorted(old.keys() | new.keys()) if old.get(f) != new.get(f))
    held, asked = (
        list(envelope.call()) if field == "arguments" else flat.get(field)
        for envelope, flat in ((recorded, old), (offered, new))
    )
    raise ReplayMismatch(
        f"{where}: the journal holds {field} = {held!r}, the code now offers {asked!r}; restore "
        "the recorded code, or start under a new key",
        step=where,
        field=field,
        recorded=held,
        offered=asked,
    )


def _flat(envelope: EffectEnvelope) -> dict[str, Any]:
    data = envelope.to_dict()
    membership = data.pop("membership", {})
    return data | {f"membership.{name}": value for name, value in membership.items()}


def _mapping(data: object) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise ValueRefused(
            f"an envelope and its membership are maps of fields, this is {data!r:.80}",
            path="$",
            reason="not a map",
        )
    return cast("Mapping[str, Any]", data)


def _field(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueRefused(
            f"field {name!r} must be {kind.__name__}, it is {value!r:.80}",
            path=name,
            reason="missing or of another type",
        )
    return value
