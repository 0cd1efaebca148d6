"""What a type hint says: is a value of it plain, which types may it have, what is it made of."""

from __future__ import annotations

import collections.abc as abc
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from .._gathered import CARRIED_AS, carried_type
from ._forms import FORMS, Misfit

T = TypeVar("T")

LISTS: Final = (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
DICTS: Final = (dict, abc.Mapping, abc.MutableMapping)
SETS: Final = (set, frozenset)
_LEAVES: Final = frozenset((type(None), bool, int, float, str, bytes))
_WRAPPERS: Final = frozenset(
    (typing.Annotated, typing.Required, typing.NotRequired, typing.Final, typing.ClassVar)
)
_FIELD_MARKS: Final = (
    *("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__", "__pydantic_fields__"),
)
type_of: Final = carried_type
_caches: Final[list[Callable[[], None]]] = []


def by_hint(make: Callable[[Any], T]) -> Callable[[Any], T]:
    """Keep what is made for a hint. Hints may hold what has no hash, in `Annotated`."""
    kept = functools.lru_cache(4096)(make)
    _caches.append(kept.cache_clear)

    @functools.wraps(make)
    def get(hint: Any) -> T:
        try:
            return kept(hint)
        except TypeError:
            return make(hint)

    return get


def forget_hints() -> None:
    """Make everything anew: a type has become known."""
    for clear in _caches:
        clear()


def bare(hint: Any) -> Any:
    """Return a hint without what says nothing about the value: aliases, annotations, new types."""
    while True:
        origin = typing.get_origin(hint)
        if hint is None:
            return type(None)
        if isinstance(hint, TypeVar):
            return Any
        if isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        elif type(origin).__name__ == "TypeAliasType":
            hint = origin.__value__[typing.get_args(hint)]
        elif origin in _WRAPPERS:
            hint = typing.get_args(hint)[0]
        else:
            return hint


def members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union or of a literal, in order; of anything else, itself."""
    hint = bare(hint)
    origin = typing.get_origin(hint)
    if origin is typing.Union or origin is types.UnionType:
        found = [member for part in typing.get_args(hint) for member in members(part)]
        return tuple(dict.fromkeys(found))
    if origin is typing.Literal:
        return tuple(dict.fromkeys(type_of(value) for value in typing.get_args(hint)))
    return (hint,)


def kind_of(hint: Any) -> Any:
    """Return the class of a bare hint, without its arguments."""
    return typing.get_origin(hint) or hint


def is_plain(hint: Any, seen: tuple[Any, ...] = ()) -> bool:
    """Tell whether values under this hint need no conversion."""
    parts = members(hint)
    if parts != (hint,):
        if hint in seen:  # a recursive alias, such as that of JSON
            return True
        return all(is_plain(part, (*seen, hint)) for part in parts)
    kind, args = kind_of(hint), typing.get_args(hint)
    if typing.is_typeddict(kind):
        return hint in seen or _has_plain_fields(hint, (*seen, hint))
    if not args:
        return not _is_structured(kind)
    if kind in LISTS:
        return is_plain(args[0], (*seen, hint))
    if kind in DICTS:
        return bare(args[0]) in (str, Any) and is_plain(args[1], (*seen, hint))
    return not _is_structured(kind)


def _has_plain_fields(hint: Any, seen: tuple[Any, ...]) -> bool:
    try:
        return all(is_plain(field, seen) for _, field in fields_of(hint))
    except Misfit:  # an annotation that cannot be resolved: said when a value is passed
        return False


def _is_structured(kind: Any) -> bool:
    if not isinstance(kind, type) or kind in _LEAVES:
        return False
    cls = cast("type[Any]", kind)
    return (
        cls in FORMS
        or cls in CARRIED_AS
        or cls is tuple
        or cls in SETS
        or issubclass(cls, Enum)
        or is_named_tuple(cls)
        or any(hasattr(cls, mark) for mark in _FIELD_MARKS)
    )


def is_named_tuple(cls: type[Any]) -> bool:
    """Tell whether this is a tuple with names."""
    return issubclass(cls, tuple) and hasattr(cast("Any", cls), "_fields")


def runtime_type(hint: Any) -> type[Any]:
    """Return the type that values under a bare, structured hint have."""
    kind = kind_of(hint)
    if kind in LISTS:
        return list
    if kind in DICTS or typing.is_typeddict(kind):
        return dict
    return type(Path()) if kind is Path else cast("type[Any]", kind)


def tags_of(parts: Iterable[Any]) -> dict[str, Any]:
    """Return the structured members of a union by the tag that tells them apart."""
    tags: dict[str, Any] = {}
    kinds: set[type[Any]] = set()
    for hint in parts:
        if is_plain(hint):
            continue
        kind = runtime_type(hint)
        tag = kind.__name__
        if tag in tags or kind in kinds:
            raise Misfit(f"two members of the union are called {tag}; they cannot be told apart")
        kinds.add(kind)
        tags[tag] = hint
    return tags


def sole(parts: Iterable[Any]) -> Any:
    """Return the one structured member of a union whose only other member is None, or None."""
    structured = [hint for hint in parts if hint is not type(None)]
    return structured[0] if len(structured) == 1 else None


def describe(hint: Any) -> str:
    """Return a hint as people write it."""
    return hint.__qualname__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def a(kind: type[Any]) -> str:
    """Return a type in words."""
    if kind is type(None):
        return "None"
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    name = f"{module}{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


# --- what a class is made of ----------------------------------------------------------------------


def fields_of(hint: Any) -> list[tuple[str, Any]]:
    """Return the fields that a class is built from, with their hints."""
    kind = kind_of(hint)
    if hasattr(kind, "__pydantic_fields__"):
        return [(name, field.annotation) for name, field in kind.__pydantic_fields__.items()]
    if typing.is_typeddict(kind):
        names = sorted(kind.__required_keys__ | kind.__optional_keys__)
    elif hasattr(kind, "__struct_fields__"):
        names = list(kind.__struct_fields__)
    elif hasattr(kind, "__attrs_attrs__"):
        names = [attribute.name for attribute in kind.__attrs_attrs__ if attribute.init]
    else:
        names = [name for name, field in kind.__dataclass_fields__.items() if _is_init(field)]
    given = dict(zip(getattr(kind, "__parameters__", ()), typing.get_args(hint), strict=False))
    return list(zip(names, (_filled(h, given) for h in hints_of(kind, names)), strict=True))


def _is_init(field: Any) -> bool:
    return bool(field.init) and field._field_type.name == "_FIELD"


def _filled(hint: Any, given: Mapping[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return given.get(hint, Any)
    parameters = getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(p, Any) for p in parameters)] if parameters and given else hint


def hints_of(kind: type[Any], names: Iterable[str]) -> list[Any]:
    """Return the hints of these attributes of a class.

    Raises:
        Misfit: One of its annotations names what cannot be found.
    """
    try:
        found = typing.get_type_hints(kind, include_extras=True)
    except Exception as error:
        raise Misfit(
            f"the annotations of {kind.__qualname__} cannot be resolved ({error}); define what "
            "they name at the top level of a module"
        ) from None
    return [found.get(name, Any) for name in names]


class Unresolved:
    """An annotation whose names cannot be found from where it stands."""

    def __init__(self, text: object, error: Exception) -> None:
        self.reason = f"the annotation {text!r} cannot be resolved: {error}"


def hints_of_record(kind: type[Any], names: Sequence[str]) -> list[tuple[str, Any]]:
    """Return the hints of a record's fields, `Unresolved` for those that cannot be resolved."""
    try:
        return list(zip(names, hints_of(kind, names), strict=True))
    except Misfit:
        found: dict[str, Any] = {}
        for base in reversed(kind.__mro__):
            module = sys.modules.get(base.__module__)
            known = {} if module is None else vars(module)
            found |= resolve(inspect.get_annotations(base), known, {})
        return [(name, found.get(name, Any)) for name in names]


def resolve(
    annotations: Mapping[str, Any], names: Mapping[str, Any], local: Mapping[str, Any]
) -> dict[str, Any]:
    """Resolve annotations one by one: what one of them names must not spoil the others."""
    found: dict[str, Any] = {}
    for name, annotation in annotations.items():
        shim = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints = typing.get_type_hints(shim, dict(names), dict(local), include_extras=True)
            found[name] = hints[name]
        except Exception as error:
            found[name] = Unresolved(annotation, error)
    return found
