"""How arguments and results get into the journal: by the annotations of what is called."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from ...errors import ReplayMismatch, StoreError
from ...store import PLAIN, Shape, shapes_of
from ._outcome import Completed, Outcome

_EMPTY: Final = inspect.Parameter.empty


class CallShapes:
    """The shapes of a function's parameters and of its result.

    What comes back from the journal is what the annotations say, on the first run too (ruling 13).
    Without annotations, values are plain.
    """

    __slots__ = ("_by_name", "_other", "_positional", "_rest", "is_plain", "result")

    def __init__(self, fn: Any = None, given: int = 0) -> None:
        self._positional: list[Shape[Any]] = []
        self._by_name: dict[str, Shape[Any]] = {}
        self._rest = self._other = self.result = PLAIN
        if fn is not None:
            self._read(fn, given)
        shapes = (*self._positional, *self._by_name.values(), self._rest, self._other)
        self.is_plain = all(shape.is_plain for shape in shapes)

    def _read(self, fn: Any, given: int) -> None:
        signature = inspect.signature(fn)
        parameters = list(signature.parameters.values())[given:]
        annotations = {p.name: p.annotation for p in parameters if p.annotation is not _EMPTY}
        if signature.return_annotation is not _EMPTY:
            annotations["return"] = signature.return_annotation
        code = inspect.unwrap(fn)
        shapes = shapes_of(annotations, getattr(code, "__globals__", {}), _names_around(code))
        self.result = shapes.pop("return", PLAIN)
        for parameter in parameters:
            shape = shapes.get(parameter.name, PLAIN)
            match parameter.kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    self._rest = shape
                case inspect.Parameter.VAR_KEYWORD:
                    self._other = shape
                case inspect.Parameter.KEYWORD_ONLY:
                    self._by_name[parameter.name] = shape
                case _:
                    self._positional.append(shape)
                    self._by_name[parameter.name] = shape

    def to_plain(
        self, args: Iterable[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the plain forms of arguments. Raises `ValueRefused` with the place of a misfit."""
        return (
            [self._at(i).to_plain(value, f"args[{i}]") for i, value in enumerate(args)],
            {
                name: self._named(name).to_plain(value, f"kwargs[{name!r}]")
                for name, value in kwargs.items()
            },
        )

    def to_values(
        self, args: Iterable[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Rebuild arguments from their plain forms. Raises `StoreError` for those of other code."""
        return (
            [self._at(i).to_value(plain, f"args[{i}]") for i, plain in enumerate(args)],
            {
                name: self._named(name).to_value(plain, f"kwargs[{name!r}]")
                for name, plain in kwargs.items()
            },
        )

    def _at(self, index: int) -> Shape[Any]:
        return self._positional[index] if index < len(self._positional) else self._rest

    def _named(self, name: str) -> Shape[Any]:
        return self._by_name.get(name, self._other)


def rebuilt(outcome: Outcome, shape: Shape[Any], where: str) -> Outcome:
    """Return a journaled outcome with its value rebuilt.

    Raises:
        ReplayMismatch: The value was journaled by other code.
    """
    if shape.is_plain or not isinstance(outcome, Completed):
        return outcome
    try:
        return Completed(shape.to_value(outcome.value, "result"))
    except StoreError as error:
        raise ReplayMismatch(
            f"{where}: the journaled result does not fit the annotation of the code: {error}; "
            "restore the recorded code, or start under a new key",
            step=where,
            field="result",
        ) from error


_RESULTS: WeakKeyDictionary[Any, Shape[Any]] = WeakKeyDictionary()


def result_shape(fn: Any) -> Shape[Any]:
    """Return the shape of what a callable gives, by its annotations."""
    while isinstance(fn, partial):
        fn = fn.func
    fn = getattr(fn, "__func__", fn)
    try:
        known = _RESULTS.get(fn)
        if known is None:
            known = _RESULTS[fn] = CallShapes(fn).result
    except (TypeError, ValueError):  # no signature, no hash, or no weak reference
        return PLAIN
    return known


def _names_around(fn: Any) -> dict[str, Any]:
    """Return what the annotations of a local function may name beside its globals."""
    names = {parameter.__name__: parameter for parameter in getattr(fn, "__type_params__", ())}
    code = getattr(fn, "__code__", None)
    cells = getattr(fn, "__closure__", None) or ()
    for name, cell in zip(getattr(code, "co_freevars", ()), cells, strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names
