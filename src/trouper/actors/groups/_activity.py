"""Activities: code that has a durable name, and the registry through which a journal finds it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, cast

from ...errors import NameTaken, ReplayMismatch, StoreError, TrouperError, durable_name
from ...store import decode
from ._calls import EffectCall
from ._carried import CallShapes
from ._envelope import EffectEnvelope, encode_arguments

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_ANYTHING = inspect.Signature(
    [
        inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ]
)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_IMPORTED: dict[tuple[str, str], list[Activity[..., Any]]] = {}


class Activity(Generic[P, R_co]):
    """Something that can be run from a journal: an effect, a durable function, a guest.

    ``kind`` picks the runner kind, ``name`` is the durable name. Module-level activities are known
    by being imported; local ones only in the systems that list them.
    """

    kind: ClassVar[str] = "activity"
    name: str
    _given = 0  # leading arguments that the runtime passes
    _signature: inspect.Signature | None = None
    _least, _most = 0, -1  # how many positional arguments are taken without a further look
    _shapes: CallShapes | None = None

    def _adopt_name(self, fn: Any, name: str | None) -> None:
        if name is None:
            name = durable_name(fn)
            if "<lambda>" in name:
                raise TrouperError(
                    f"a lambda has no durable name; pass name= to @{self.kind}", kind=self.kind
                )
        self.name = name
        if "<locals>" not in getattr(fn, "__qualname__", ""):
            self._become_known()

    def _become_known(self) -> None:
        _IMPORTED.setdefault((self.kind, self.name), []).append(self)

    def envelope(
        self, args: Iterable[Any], kwargs: dict[str, Any], scope: str, key: str
    ) -> EffectEnvelope:
        """Describe one call. Raises `ValueRefused` for arguments that a journal cannot carry."""
        return EffectEnvelope(self.kind, self.name, self.encode_call(args, kwargs), scope, key)

    def call(self: Activity[P, R], /, *args: P.args, **kwargs: P.kwargs) -> EffectCall[R]:
        """Describe one call, for a combinator or a group on a bare host. Nothing starts.

        Raises:
            ValueRefused: an argument that the journal cannot carry, with its place.
            TypeError: it does not take these arguments.
        """
        self.require_call(args, kwargs)
        arguments = self.encode_call(args, kwargs)
        return EffectCall(self.kind, self.name, arguments, self.shapes.result)

    @property
    def shapes(self) -> CallShapes:
        """Return how its arguments and its result are carried.

        Not before the first call: its annotations may name what is defined below it.
        """
        if self._shapes is None:
            self._shapes = CallShapes(getattr(self, "fn", None), self._given)
        return self._shapes

    def encode_call(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Encode the arguments of a call; raises as `encode_arguments` does."""
        shapes = self.shapes
        if not shapes.is_plain:
            args, kwargs = shapes.to_plain(args, kwargs)
        return encode_arguments(args, kwargs)

    def decode_call(self, arguments: bytes) -> tuple[list[Any], dict[str, Any]]:
        """Rebuild the arguments of a journaled call.

        Raises:
            ReplayMismatch: The code takes other arguments than it did then.
        """
        args, kwargs = decode(arguments, is_canonical=True)
        try:
            self.require_call(args, kwargs)
            shapes = self.shapes
            return (args, kwargs) if shapes.is_plain else shapes.to_values(args, kwargs)
        except (TypeError, StoreError) as error:
            raise ReplayMismatch(
                f"journaled arguments are not those that the code takes: {error}; restore the "
                "recorded code, or start under a new key",
                field="arguments",
            ) from error

    def require_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError, as the call itself would, for arguments that it does not take.

        Found here it is the caller's mistake at the caller's line. Found when the code runs, it
        would be journaled already.
        """
        if self._signature is None:
            self._signature = self._signature_of_call()
            self._least, self._most = _arity(self._signature, self._given)
        if not kwargs and self._least <= len(args) <= self._most:
            return  # what nearly every call is; to bind costs more than the rest of it
        try:
            self._signature.bind(*(None,) * self._given, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.kind} {self.name}: {error}") from None

    def _signature_of_call(self) -> inspect.Signature:
        fn: Any = getattr(self, "fn", None)
        return inspect.signature(fn) if fn is not None else _ANYTHING

    def source(self) -> object:
        """Return what it is made of: two of one name that differ in this are two things."""
        return source_of(getattr(self, "fn", None))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


def _arity(signature: inspect.Signature, given: int) -> tuple[int, int]:
    """Return the least and most positional arguments of a call that has no others."""
    parameters = list(signature.parameters.values())
    plain = [p for p in parameters if p.kind in _POSITIONAL]
    if len(plain) != len(parameters):
        return 0, -1
    needed = sum(p.default is inspect.Parameter.empty for p in plain)
    return max(needed - given, 0), len(plain) - given


def require_activity(what: object) -> Activity[..., Any]:
    """Return what can be called from a journal, or raise TypeError for anything else."""
    if not isinstance(what, Activity):
        raise TypeError(f"act.call takes an @effect, a @durable function or a guest, not {what!r}")
    return cast("Activity[..., Any]", what)


class ActivityRegistry:
    """What one system can run: everything imported, plus what it was handed."""

    def __init__(self, listed: Iterable[Activity[..., Any]] = ()) -> None:
        self._listed: dict[tuple[str, str], Activity[..., Any]] = {}
        for activity in listed:
            other = self._listed.setdefault((activity.kind, activity.name), activity)
            if other is not activity:
                raise NameTaken(
                    f"two {activity.kind}s are listed under the name {activity.name!r}; in one "
                    "system a name means one function: give one of them name=",
                    name=activity.name,
                )

    def find(self, kind: str, name: str) -> Activity[..., Any] | None:
        """Return the code of that name, or None: a miss is a routing fact."""
        listed = self._listed.get((kind, name))
        if listed is not None:
            return listed
        known = _IMPORTED.get((kind, name))
        return known[-1] if known else None

    def knows(self, kind: str, name: str) -> bool:
        """Tell whether there is code for a kind and a name; timers and signals need none."""
        return kind in ("timer", "signal") or self.find(kind, name) is not None

    def require_unambiguous(self) -> None:
        """Refuse names under which two different functions of the imported code go."""
        for (kind, name), known in _IMPORTED.items():
            if (kind, name) not in self._listed and len({a.source() for a in known}) > 1:
                raise NameTaken(
                    f"{len(known)} different {kind}s were imported under the name {name!r}; give "
                    "one of them name=, or list the one you mean",
                    name=name,
                )


def source_of(fn: object) -> tuple[str, int]:
    """Return where a function is written: the same in a module that is imported twice."""
    code = getattr(fn, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else (durable_name(type(fn)), 0)
