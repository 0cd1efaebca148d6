"""The one door to cattrs: from plain forms back to values, by their hints.

cattrs builds the classes and names the place of what does not fit. We tell it what is plain, what
the forms of single values are, and to take a list only for a list: code changes between the run
that wrote and the run that reads.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from cattrs import Converter
from cattrs.cols import list_structure_factory
from cattrs.errors import (
    AttributeValidationNote,
    BaseValidationError,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, make_hetero_tuple_structure_fn

from ..errors import FormatTooNew, UpcastFailed
from ._forms import FORMS, Misfit, enum_form
from ._hints import (
    DICTS,
    LISTS,
    SETS,
    a,
    bare,
    by_hint,
    describe,
    fields_of,
    hints_of,
    is_named_tuple,
    is_plain,
    kind_of,
    members,
    sole,
    tags_of,
    type_of,
)

Hook = Callable[[Any, Any], Any]


class _Values(Converter):
    """cattrs, with our hook for every part of what it builds."""

    def get_structure_hook(self, type: Any, cache_result: bool = True) -> Hook:  # noqa: A002
        return _hook(type)


_VALUES: Final = _Values(forbid_extra_keys=True)


def back_of(hint: Any) -> Callable[[Any], Any]:
    """Return the way back to a hint's values, from their plain form.

    It raises `Misfit`, or `FormatTooNew` and `UpcastFailed` for a record within.
    """
    hook = _hook(hint)

    def back(plain: Any) -> Any:
        try:
            return hook(plain, hint)
        except Exception as error:
            raise _told(error) from error

    return back


def _told(error: Exception) -> Exception:
    """Return what a failure to build says, with its place."""
    places: list[str] = []
    while True:
        notes: list[Any] = getattr(error, "__notes__", [])
        for note in reversed(notes):  # outermost first
            if isinstance(note, AttributeValidationNote):
                places.append(f".{note.name}")
            elif isinstance(note, IterableValidationNote):
                places.append(f"[{note.index!r}]")
        if not isinstance(error, BaseValidationError):
            break
        error = error.exceptions[0]
    match error:
        case FormatTooNew() | UpcastFailed():
            return error
        case Misfit():
            reason = str(error)
            places += reversed(error.places)
        case KeyError(args=(name,)):
            reason = f"the field {name!r} is missing"
        case ForbiddenExtraKeysError(cl=cls, extra_fields=extra):
            reason = f"{describe(cls)} has no field {', '.join(sorted(extra))}"
        case _:
            reason = f"{type(error).__name__}: {error}"
    told = Misfit(reason)
    told.places = places[::-1]
    return told


@by_hint
def _hook(hint: Any) -> Hook:
    if is_plain(hint):
        return _as_it_is
    parts = members(hint)
    if len(parts) > 1:
        return _union(parts)
    hint = next(iter(parts))
    kind, args = kind_of(hint), typing.get_args(hint)
    if kind in FORMS:
        return _single(FORMS[kind][1])
    if issubclass(kind, Enum):
        return _single(enum_form(kind)[1])
    if kind in LISTS:
        return _only(list, _items(args[0]))
    if kind in SETS:
        return _only(list, _made(kind, _items(args[0] if args else Any)))
    if kind in DICTS:
        return _only(dict, _mapping(*args))
    if kind is tuple:
        return _only(list, _tuple(args))
    if is_named_tuple(kind):
        return _only(list, _late(lambda: _named_tuple(kind)))
    return _only(dict, _late(lambda: _class(hint)))


def _as_it_is(plain: Any, _: Any) -> Any:
    return plain


def _only(kind: type[Any], hook: Hook) -> Hook:
    def back(plain: Any, hint: Any) -> Any:
        if type(plain) is not kind:
            raise Misfit(
                f"the journal holds {a(type_of(plain))} where {describe(hint)} is expected"
            )
        return hook(plain, hint)

    return back


def _late(make: Callable[[], Hook]) -> Hook:
    """Make a hook when it is first needed: a class may hold itself."""
    made: list[Hook] = []

    def back(plain: Any, hint: Any) -> Any:
        if not made:
            made.append(make())
        return made[0](plain, hint)

    return back


def _single(form: Callable[[Any], Any]) -> Hook:
    return lambda plain, _: form(plain)


def _items(item: Any) -> Hook:
    # cattrs puts hints into sets, and what `Annotated` holds may have no hash.
    hint: Any = list.__class_getitem__(bare(item))
    hook: Hook = list_structure_factory(hint, _VALUES)
    return hook


def _made(kind: Callable[[Any], Any], hook: Hook) -> Hook:
    return lambda plain, hint: kind(hook(plain, hint))


def _tuple(args: tuple[Any, ...]) -> Hook:
    if not args or (len(args) == 2 and args[1] is Ellipsis):
        return _made(tuple, _items(args[0] if args else Any))
    hook: Hook = make_hetero_tuple_structure_fn(
        tuple.__class_getitem__(tuple(map(bare, args))), _VALUES
    )
    return hook


def _named_tuple(kind: Any) -> Hook:
    return _made(kind._make, _tuple(tuple(hints_of(kind, kind._fields))))


def _mapping(key: Any, item: Any) -> Hook:
    def back(plain: dict[str, Any], hint: Any) -> dict[Any, Any]:
        convert, key_hook = _hook(item), _hook(key)
        numbered = members(key) == (int,)
        found: dict[Any, Any] = {}
        for name, part in plain.items():
            try:
                found[_number(name) if numbered else key_hook(name, key)] = convert(part, item)
            except Exception as error:
                error.add_note(IterableValidationNote("", name, item))
                raise
        return found

    return back


def _number(text: str) -> int:
    if text.removeprefix("-").isdecimal() and str(int(text)) == text:
        return int(text)
    raise Misfit(f"the key {text!r:.80} is no int")


def _union(parts: tuple[Any, ...]) -> Hook:
    tags = tags_of(parts)
    only = sole(parts)
    if only is not None:
        return lambda plain, _: None if plain is None else _hook(only)(plain, only)
    has_plain = len(tags) < len(parts)

    def back(plain: Any, _: Any) -> Any:
        match plain:
            case ["", value] if has_plain:
                return value
            case [str(tag), value] if tag in tags:
                return _hook(tags[tag])(value, tags[tag])
            case _:
                names = " | ".join(describe(part) for part in parts)
                raise Misfit(f"the journal holds {plain!r:.80} where {names} is expected")

    return back


def _class(hint: Any) -> Hook:
    kind = kind_of(hint)
    if typing.is_typeddict(kind):
        return _keywords(hint, _complete(kind))
    if hasattr(kind, "__pydantic_fields__"):
        return _keywords(hint, _validated(kind))
    if hasattr(kind, "__struct_fields__"):
        return _keywords(hint, lambda fields: kind(**fields))
    parameters = getattr(kind, "__parameters__", ())
    if parameters and not typing.get_args(hint):
        hint = kind[(Any,) * len(parameters)]
    hook: Hook = make_dict_structure_fn(hint, _VALUES)
    return hook


def _keywords(hint: Any, build: Callable[[dict[str, Any]], Any]) -> Hook:
    """Build what cattrs does not, or not with postponed annotations."""
    hints = dict(fields_of(hint))

    def back(plain: dict[str, Any], _: Any) -> Any:
        fields: dict[str, Any] = {}
        for name, part in plain.items():
            if name not in hints:
                raise Misfit(f"{describe(hint)} has no field {name}")
            try:
                fields[name] = _hook(hints[name])(part, hints[name])
            except Exception as error:
                error.add_note(AttributeValidationNote("", name, hints[name]))
                raise
        return build(fields)

    return back


def _validated(kind: Any) -> Callable[[dict[str, Any]], Any]:
    if getattr(kind, "__pydantic_root_model__", False):
        return lambda fields: kind.model_validate(fields["root"])
    return lambda fields: kind.model_validate(fields, by_name=True, by_alias=False)


def _complete(kind: Any) -> Callable[[dict[str, Any]], Any]:
    # With postponed annotations __required_keys__ does not know what NotRequired says.
    optional = {
        name for name, hint in fields_of(kind) if typing.get_origin(hint) is typing.NotRequired
    }
    required = kind.__required_keys__ - optional

    def build(fields: dict[str, Any]) -> dict[str, Any]:
        for name in sorted(required - fields.keys()):
            raise KeyError(name)
        return fields

    return build
