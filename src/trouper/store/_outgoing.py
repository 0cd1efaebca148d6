"""The way into the journal: from a value to its plain form, by its hint.

cattrs is not used for it: it reads the fields that a hint names off any object, and here a value is
carried only if it is of exactly the type that will come back.
"""

from __future__ import annotations

import threading
import typing
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

from .._gathered import CARRIED_AS
from ._codec import MAX_DEPTH, MAX_NODES, canonical, measure, objection
from ._forms import FORMS, Misfit, enum_form
from ._hints import (
    DICTS,
    LISTS,
    SETS,
    a,
    by_hint,
    describe,
    fields_of,
    hints_of,
    is_named_tuple,
    is_plain,
    kind_of,
    members,
    runtime_type,
    sole,
    tags_of,
    type_of,
)

Out = Callable[[Any], Any]


@by_hint
def out_of(hint: Any) -> Out:
    """Return the way out of a hint's values: to the plain form, or `Misfit`."""
    if is_plain(hint):
        return _plain
    parts = members(hint)
    if len(parts) > 1:
        return _union(parts)
    hint = next(iter(parts))
    kind, args = kind_of(hint), typing.get_args(hint)
    if kind in FORMS:
        return _single(kind, FORMS[kind][0])
    if kind in CARRIED_AS:
        return _without_order(kind)
    if issubclass(kind, Enum):
        return _single(kind, enum_form(kind)[0])
    if kind in LISTS:
        return _items(list, args[0])
    if kind in SETS:
        return _in_order(_items(kind, args[0] if args else Any))
    if kind in DICTS:
        return _mapping(*args)
    if kind is tuple:
        return _tuple(args)
    if is_named_tuple(kind):
        places = [f".{name}" for name in kind._fields]
        return _places(kind, places, lambda: hints_of(kind, kind._fields))
    if typing.is_typeddict(kind):
        return _typed_dict(hint)
    return _fields(kind, hint)


class _Budget(threading.local):
    nodes = MAX_NODES
    depth = 0


_budget: Final = _Budget()  # a row may be encoded on the loop and on the writer's thread at a time


def begin() -> None:
    """Begin a value. What was left behind by one that was refused is forgotten."""
    _budget.nodes, _budget.depth = MAX_NODES, 0


def enter(nodes: int) -> None:
    """Go one level down, to so many values.

    Counted and not left to the interpreter: its limit may be set so high that it dies, and a small
    graph whose parts are shared unfolds for ever.
    """
    _budget.nodes -= nodes
    _budget.depth += 1
    if _budget.nodes < 0:
        raise Misfit(f"more than {MAX_NODES} values in one value")
    if _budget.depth > MAX_DEPTH:
        raise Misfit(f"nested deeper than {MAX_DEPTH}, or a cycle")


def leave() -> None:
    """Go one level up again."""
    _budget.depth -= 1


def _plain(value: Any) -> Any:
    nodes = measure(value)
    if not nodes:
        place, reason = objection(value)
        raise Misfit(reason).at(place)
    if nodes > 1:
        enter(nodes)
        leave()
    return value


def _require_type(value: object, kind: type[Any]) -> None:
    found = type_of(value)
    if found is kind or (kind is Path and found is type(Path())):
        return
    if isinstance(value, kind):
        raise Misfit(
            f"{a(found)} would come back as {a(kind)}; name its own type in the annotation"
        )
    raise Misfit(f"{a(found)} where {a(kind)} is expected")


def _single(kind: type[Any], form: Out) -> Out:
    def out(value: Any) -> Any:
        _require_type(value, kind)
        enter(1)  # the form of a record goes on inside it
        try:
            plain = form(value)
        except Misfit:
            raise
        except Exception as error:
            raise Misfit(f"{type(error).__name__}: {error}") from error
        leave()
        return _plain(plain)

    return out


def _without_order(kind: type[Any]) -> Out:
    """Refuse a hint that promises what the journal does not keep."""
    equal = CARRIED_AS[kind].__name__

    def out(_: Any) -> Any:
        raise Misfit(
            f"{a(kind)} is carried as the {equal} it equals, without its order; say {equal}[...] "
            "in the annotation"
        )

    return out


def _items(kind: type[Any], item: Any) -> Out:
    def out(value: Any) -> list[Any]:
        _require_type(value, kind)
        enter(len(value))
        convert = out_of(item)
        found: list[Any] = []
        for index, part in enumerate(value):
            try:
                found.append(convert(part))
            except Misfit as misfit:
                raise misfit.at(f"[{index}]") from None
        leave()
        return found

    return out


def _in_order(items: Out) -> Out:
    """Sort what comes from a set: equal sets have one form, and one fingerprint."""
    return lambda value: sorted(items(value), key=canonical)


def _tuple(args: tuple[Any, ...]) -> Out:
    if not args or (len(args) == 2 and args[1] is Ellipsis):
        item = args[0] if args else Any
        ways = {list: _items(list, item), tuple: _items(tuple, item)}
        return lambda value: ways[list if type_of(value) is list else tuple](value)
    return _places(tuple, [f"[{index}]" for index in range(len(args))], lambda: args)


def _places(kind: type[Any], places: Sequence[str], hints: Callable[[], Iterable[Any]]) -> Out:
    def out(value: Any) -> list[Any]:
        # `act.all_of` gives a list where its type says tuple (ADR 0002): it comes back as a tuple.
        if not (kind is tuple and type_of(value) is list):
            _require_type(value, kind)
        enter(len(places))
        if len(value) != len(places):
            raise Misfit(f"{len(value)} places where {len(places)} are expected")
        found: list[Any] = []
        for place, hint, part in zip(places, hints(), value, strict=True):
            try:
                found.append(out_of(hint)(part))
            except Misfit as misfit:
                raise misfit.at(place) from None
        leave()
        return found

    return out


def _mapping(key: Any, item: Any) -> Out:
    numbered = members(key) == (int,)

    def out(value: Any) -> dict[str, Any]:
        _require_type(value, dict)
        enter(len(value))
        convert, name_of = out_of(item), out_of(key)
        found: dict[str, Any] = {}
        for name, part in value.items():
            try:
                plain = str(name) if numbered and type(name) is int else name_of(name)
                if type_of(plain) is not str:
                    raise Misfit(
                        f"{a(type_of(name))} as a key; keys are text, what is carried as text, or "
                        "int where the annotation says so"
                    )
                found[plain] = convert(part)
            except Misfit as misfit:
                raise misfit.at(f"[{name!r:.80}]") from None
        leave()
        return found

    return out


def _union(parts: tuple[Any, ...]) -> Out:
    tags = tags_of(parts)
    only = sole(parts)
    if only is not None:
        return lambda value: None if value is None else out_of(only)(value)
    by_type = {runtime_type(hint): (tag, hint) for tag, hint in tags.items()}
    has_plain = len(tags) < len(parts)

    def out(value: Any) -> list[Any]:
        found = by_type.get(type_of(value))
        if found is not None:
            tag, hint = found
            return [tag, out_of(hint)(value)]
        if has_plain:
            return ["", _plain(value)]
        raise Misfit(f"{a(type_of(value))} is none of {' | '.join(describe(p) for p in parts)}")

    return out


def _fields(kind: type[Any], hint: Any) -> Out:
    ways: list[tuple[str, Out]] = []

    def out(value: Any) -> dict[str, Any]:
        if type_of(value) is not kind:
            _require_type(value, kind)
        if not ways:  # not before: a class may hold itself
            ways[:] = [(name, out_of(field)) for name, field in fields_of(hint)]
        if getattr(value, "__pydantic_extra__", None):
            raise Misfit("a model with extra fields, of whose types nothing is known")
        enter(len(ways))
        found: dict[str, Any] = {}
        for name, convert in ways:
            try:
                found[name] = convert(getattr(value, name))
            except Misfit as misfit:
                raise misfit.at(f".{name}") from None
        leave()
        return found

    return out


def _typed_dict(hint: Any) -> Out:
    def out(value: Any) -> dict[str, Any]:
        _require_type(value, dict)
        enter(len(value))
        hints = dict(fields_of(hint))
        found: dict[str, Any] = {}
        for name, part in value.items():
            try:
                if name not in hints:
                    raise Misfit(f"{describe(hint)} has no such key")
                found[name] = out_of(hints[name])(part)
            except Misfit as misfit:
                raise misfit.at(f"[{name!r:.80}]") from None
        leave()
        return found

    return out
