"""The plain forms of single values: what the standard library's types are in the journal.

Each is text that people can read, except a timedelta, whose text would be ours alone. Text has one
spelling per value, so that fingerprints can rest on it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from enum import Enum, Flag
from fractions import Fraction
from pathlib import Path
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

Out = Callable[[Any], Any]
Back = Callable[[Any], Any]


class Misfit(Exception):
    """A value has no such form, or a form is of no such value. The text says why.

    Each level that it passes adds its place, innermost first.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.places: list[str] = []

    def at(self, place: str) -> Misfit:
        """Add a place on the way out."""
        self.places.append(place)
        return self


def enum_form(cls: type[Enum]) -> tuple[Out, Back]:
    """Carry a member by its name: a value may change under it, as `auto()` does.

    A flag is carried by its number, since a combination has no name of its own.
    """
    if issubclass(cls, Flag):
        return lambda member: member.value, lambda number: _flag(cls, number)
    return lambda member: member.name, lambda name: _member(cls, name)


def _member(cls: type[Enum], name: Any) -> Enum:
    found = cls.__members__.get(_text(name))
    if found is None:
        raise Misfit(f"{cls.__qualname__} has no member {name!r:.80}")
    return found


def _flag(cls: type[Flag], number: Any) -> Flag:
    if type(number) is not int:
        raise Misfit(f"{cls.__qualname__} is carried as a number, not as {number!r:.80}")
    try:
        return cls(number)
    except ValueError as error:
        raise Misfit(str(error)) from None


def _text(plain: Any) -> str:
    if type(plain) is not str:
        raise Misfit(f"a text is expected, not {plain!r:.80}")
    return plain


def _datetime_out(value: dt.datetime) -> str:
    """Return ISO 8601 with the offset, and the name of the zone where it has one (RFC 9557)."""
    zone = value.tzinfo
    if zone is None:
        raise Misfit("a datetime without a zone means another instant elsewhere; give it one")
    if isinstance(zone, ZoneInfo):
        if not zone.key:
            raise Misfit("a zone without a key cannot be found again; use ZoneInfo(key)")
        return f"{value.isoformat()}[{zone.key}]"
    if zone.utcoffset(None) is None:
        raise Misfit(
            f"zones of {type(zone).__module__} do not come back; use zoneinfo or datetime.timezone"
        )
    return value.isoformat()


def _datetime_back(plain: Any) -> dt.datetime:
    text, bracket, zone = _text(plain).partition("[")
    value: dt.datetime = _parsed(dt.datetime.fromisoformat, text)
    if value.tzinfo is None:
        raise Misfit(f"an instant without an offset: {plain!r:.80}")
    # Zones change by law: the instant is what was meant, so its text decides.
    return value.astimezone(ZoneInfo(zone.removesuffix("]"))) if bracket else value


def _time_out(value: dt.time) -> str:
    if value.fold or (value.tzinfo is not None and value.utcoffset() is None):
        raise Misfit("a time of day carries a fixed offset or none, and no fold")
    return value.isoformat()


def _span_back(plain: Any) -> dt.timedelta:
    match plain:
        case [int(days), int(seconds), int(microseconds)]:
            return dt.timedelta(days, seconds, microseconds)
        case _:
            raise Misfit(f"not days, seconds and microseconds: {plain!r:.80}")


def _parsed(parse: Callable[[str], Any], plain: Any) -> Any:
    try:
        return parse(_text(plain))
    except (ValueError, InvalidOperation, ZeroDivisionError):
        name = getattr(parse, "__qualname__", "value").partition(".")[0]
        raise Misfit(f"not a {name}: {plain!r:.80}") from None


FORMS: Final[dict[type[Any], tuple[Out, Back]]] = {
    dt.datetime: (_datetime_out, _datetime_back),
    dt.date: (dt.date.isoformat, lambda plain: _parsed(dt.date.fromisoformat, plain)),
    dt.time: (_time_out, lambda plain: _parsed(dt.time.fromisoformat, plain)),
    dt.timedelta: (lambda span: [span.days, span.seconds, span.microseconds], _span_back),
    UUID: (str, lambda plain: _parsed(UUID, plain)),
    Decimal: (str, lambda plain: _parsed(Decimal, plain)),
    Fraction: (str, lambda plain: _parsed(Fraction, plain)),
    Path: (str, lambda plain: Path(_text(plain))),
}
"""By type: how a value becomes plain, and how it comes back."""
