"""Shapes: how values get into the journal by a type hint, and out of it again.

A *plain* value (None, bool, int, float, str, bytes, list, dict with text keys) is carried as it is,
whatever its hint says. A *structured* one - a dataclass, an enum, a datetime, a tuple ... - is
carried as plain ones and rebuilt by its hint. Without a hint that names it, it would not come back
as itself, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar, cast

from ..errors import ValueRefused
from ._codec import encode
from ._forms import FORMS, Misfit
from ._hints import Unresolved, by_hint, describe, forget_hints, is_plain, resolve, type_of
from ._outgoing import begin, enter, leave, out_of

T = TypeVar("T")
Out = Callable[[Any], Any]
Back = Callable[[Any], Any]


class Shape(Generic[T]):
    """The two ways through one hint. `shape_of` makes them.

    ``is_plain`` says that values need no conversion: `encode` and `decode` are all there is to do.
    """

    __slots__ = ("_note", "_ways", "hint", "is_plain")

    def __init__(self, hint: Any, *, is_plain: bool, note: str = "") -> None:
        self.hint = hint
        self.is_plain = is_plain
        self._note = note
        self._ways: tuple[Out, Back] | None = None

    def to_plain(self, value: T, path: str = "$") -> Any:
        """Return the plain form of a value, proved to come back.

        Raises:
            ValueRefused: It is not what the hint says, or would not come back as itself; ``path``
                says where.
        """
        if self.is_plain:
            return value
        try:
            begin()
            if self._note:
                return out_of(self.hint)(value)
            out, back = self._made()
            plain = out(value)
            # What is journaled must never be what nobody can rebuild.
            begin()
            again = out(back(plain))
            same = again == plain and encode(again) == encode(plain)  # 1, 1.0 and True differ
        except Misfit as misfit:
            raise _refused(misfit, path, self._note) from None
        except ValueRefused as refused:
            place = refused.path.removeprefix("$")
            raise _refused(Misfit(refused.reason).at(place), path) from None
        if not same:
            raise _refused(Misfit("it would come back as something else"), path)
        return plain

    def to_value(self, plain: Any, path: str = "$") -> T:
        """Rebuild a value from its plain form; the checks of constructors run.

        Raises:
            ValueRefused: The plain form is none of this hint; ``path`` says where.
            FormatTooNew, UpcastFailed: It holds a record that cannot be read here.
        """
        if self.is_plain or self._note:
            return cast("T", plain)
        try:
            value: T = self._made()[1](plain)
        except Misfit as misfit:
            raise _refused(misfit, path) from misfit
        return value

    def out(self, value: T) -> Any:
        """Return the plain form, unproved, as a part of another; raises `Misfit`."""
        return out_of(self.hint)(value)

    def _made(self) -> tuple[Out, Back]:
        if self._ways is None:
            from ._converter import back_of  # cattrs costs more than the rest of this package

            self._ways = out_of(self.hint), back_of(self.hint)
        return self._ways

    def __repr__(self) -> str:
        return f"<shape of {describe(self.hint)}>"


PLAIN: Final[Shape[Any]] = Shape(Any, is_plain=True)
"""The shape of what needs no conversion."""


@by_hint
def shape_of(hint: Any) -> Shape[Any]:
    """Return the shape of the values that a type hint describes.

    Plain hints, and hints of types that the journal does not know, give a shape that changes
    nothing; the codec then refuses what is not plain.
    """
    return PLAIN if is_plain(hint) else Shape(hint, is_plain=False)


def plain_of(value: Any) -> Any:
    """Return the plain form of a value by its own type: for a fingerprint, which nobody reads back.

    Raises:
        ValueRefused: Something in it has no such form; ``path`` says where.
    """
    begin()
    try:
        return _by_own_type(value)
    except Misfit as misfit:
        raise _refused(misfit, "$") from None


def _by_own_type(value: Any) -> Any:
    kind = type_of(value)
    if kind is list:
        parts: Iterable[tuple[Any, Any]] = enumerate(cast("list[Any]", value))
    elif kind is dict:
        parts = cast("dict[Any, Any]", value).items()
    else:
        shape = shape_of(kind)
        return value if shape.is_plain else shape.out(value)
    enter(len(value))
    found: dict[Any, Any] = {}
    for place, part in parts:
        try:
            found[place] = _by_own_type(part)
        except Misfit as misfit:
            raise misfit.at(f"[{place!r:.80}]") from None
    leave()
    return found if kind is dict else list(found.values())


def shapes_of(
    annotations: Mapping[str, Any], names: Mapping[str, Any], local: Mapping[str, Any]
) -> dict[str, Shape[Any]]:
    """Return the shapes that annotations give, read with these global and local names.

    One that cannot be resolved lets plain values pass, and says so when it refuses others.
    """
    found = resolve(annotations, names, local)
    return {
        name: unresolved(hint.reason) if isinstance(hint, Unresolved) else shape_of(hint)
        for name, hint in found.items()
    }


def unresolved(reason: str) -> Shape[Any]:
    """Return the shape for an annotation that cannot be resolved: plain values pass."""
    return Shape(Any, is_plain=False, note=reason)


def register_type(cls: type[T], to_plain: Callable[[T], Any], to_value: Callable[[Any], T]) -> None:
    """Let the journal carry a type that it does not know.

    Both functions are pure and for ever: they read what any earlier run has written. Raise in
    either to refuse; the message reaches whoever passed the value.

    Args:
        cls: The type; values of exactly this type are carried, where a hint names it.
        to_plain: Returns the plain form of a value.
        to_value: Rebuilds it.

    Raises:
        ValueError: The type has a form in the journal already.
    """
    if FORMS.get(cls, (to_plain, to_value)) != (to_plain, to_value):
        raise ValueError(f"{cls.__qualname__} has a form in the journal already")
    FORMS[cls] = (to_plain, to_value)
    forget_hints()


def _refused(misfit: Misfit, path: str, note: str = "") -> ValueRefused:
    path += "".join(reversed(misfit.places))
    reason = f"{misfit} ({note})" if note else str(misfit)
    return ValueRefused(f"value refused at {path}: {reason}", path=path, reason=reason)
