"""The rules of one durable actor class: what decides, what applies, and within which limits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, get_args, get_origin

from ...errors import TrouperError, durable_name
from ...mailbox import Control, Table, run_control
from ...store import encode, encode_record, is_record, rebuild
from ._declare import (
    APPLIES,
    DECIDES,
    LEAVES,
    check_shape,
    hints_of,
    is_flat,
    marked,
    members,
    records_in,
    union_of,
)

Apply: TypeAlias = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one class; keywords of its ``class`` statement."""

    snapshot_every: int | None = 1000
    snapshot_bytes: int | None = 1 << 20
    keep_replies: int = 1000
    passivate_after: float | None = 60.0

    def __post_init__(self) -> None:
        for name in ("snapshot_every", "snapshot_bytes"):
            value = getattr(self, name)
            if value is not None and not value >= 1:
                raise ValueError(f"{name} must be 1 or more, or None for never, not {value!r}")
        if not self.keep_replies >= 0:
            raise ValueError(f"keep_replies must be 0 or more, not {self.keep_replies!r}")
        if self.passivate_after is not None and not self.passivate_after >= 0:
            raise ValueError(
                f"passivate_after must be 0 seconds or more, or None for never, "
                f"not {self.passivate_after!r}"
            )


@dataclass(frozen=True, slots=True)
class Rules:
    """What the runtime knows about a durable actor class. Pure: no trio, no store."""

    name: str
    initial: Any
    state: type[Any]
    table: Table
    applies: dict[type[Any], Apply]
    limits: Limits
    flat: dict[type[Any], Apply] = field(default_factory=dict[type[Any], Apply])
    """What applies records that are equal to what comes back of them, and shared with nobody."""
    rebuilt: set[type[Any]] = field(default_factory=set[type[Any]])
    """The kinds of the other records."""

    def fold(self, actor: Any, state: Any, records: Sequence[Any], bodies: Sequence[bytes]) -> Any:
        """Return the state after records that are encoded like this.

        What is applied is what recovery will apply: a record that could differ from what it is
        encoded to, or be changed by whoever made it, is rebuilt.

        Raises:
            TypeError: No rule applies one, or a rule returned something else than a state.
        """
        for place, record in enumerate(records):
            fn = self.flat.get(record.__class__)
            if fn is None:
                state = self.apply(actor, state, self._kept(record, bodies[place]))
            else:
                state = fn(actor, state, record)
                if not isinstance(state, self.state):
                    raise self._no_state(fn, state)
        return state

    def apply(self, actor: Any, state: Any, record: Any) -> Any:
        """Return the state after a record.

        Raises:
            TypeError: No rule applies it, or the rule returned something else than a state.
        """
        fn = self.applies.get(record.__class__) or self._find(record.__class__)
        after = fn(actor, state, record)
        if isinstance(after, self.state):
            return after
        raise self._no_state(fn, after)

    def _kept(self, record: Any, body: bytes) -> Any:
        kind = record.__class__
        if kind in self.rebuilt or not is_flat(kind):
            self.rebuilt.add(kind)
            return rebuild(body)
        self.flat[kind] = self.applies.get(kind) or self._find(kind)
        return record

    def _no_state(self, fn: Apply, after: Any) -> TypeError:
        # Raised before its record is kept, and before a snapshot could hold it.
        return TypeError(
            f"{fn.__qualname__} returned {after!r:.80}; it must return the state after the record, "
            f"which is a {self.state.__qualname__}"
        )

    def _find(self, kind: type[Any]) -> Apply:
        for base in kind.__mro__:
            fn = self.applies.get(base)
            if fn is not None:
                self.applies[kind] = fn
                return fn
        raise TypeError(
            f"{self.name} applies no {kind.__qualname__}; write a method under "
            f"@applies({kind.__qualname__})"
        )


def rules_of(
    cls: type[Any], root: type[Any], name: str | None, limits: Limits, names: Mapping[str, Any]
) -> Rules | None:
    """Build and check the rules of a class; None for a base that has neither rules nor a state.

    Args:
        cls: The class.
        root: The base of all durable actors.
        name: Its durable name; where it is defined by default.
        limits: Its limits.
        names: What was defined around the class, for annotations of local classes.

    Raises:
        TypeError: The class contradicts itself; the text says how to mend it.
    """
    decided = marked(cls, DECIDES, "decide")
    applied = marked(cls, APPLIES, "apply")
    if not decided and not applied and not hasattr(cls, "initial"):
        return None
    _check_class(cls)
    state, messages = _declared(cls, root)
    initial = _initial(cls, state)
    state = state or initial.__class__
    assert state is not None
    for record, (method, fn) in applied.items():
        check_shape(cls, method, fn, "record")
        before, subject, after = hints_of(cls, method, fn, names)
        _check_same(cls, method, "state", before, state)
        _check_same(cls, method, "record", subject, record)
        _check_same(cls, method, "result", after, state)
        if not is_record(record):
            raise TypeError(
                f"{cls.__qualname__}.{method}: {record.__qualname__} is no record; decorate it "
                'with @record("some.kind") above @dataclass(frozen=True, slots=True)'
            )
    for message, (method, fn) in decided.items():
        check_shape(cls, method, fn, "message")
        before, subject, result = hints_of(cls, method, fn, names)
        _check_same(cls, method, "state", before, state)
        _check_same(cls, method, "message", subject, message)
        for record in records_in(cls, method, result):
            if not any(base in applied for base in record.__mro__):
                raise TypeError(
                    f"{cls.__qualname__}.{method} may return {record.__qualname__}, and nothing "
                    f"applies it; write a method under @applies({record.__qualname__})"
                )
    _check_messages(cls, messages, set(decided))
    table: Table = {Control: (True, False, run_control)}
    table.update({message: (False, False, fn) for message, (_, fn) in decided.items()})
    return Rules(
        name or durable_name(cls),
        initial,
        state,
        table,
        {record: fn for record, (_, fn) in applied.items()},
        limits,
    )


def _check_class(cls: type[Any]) -> None:
    for name in dir(cls):
        if hasattr(inspect.getattr_static(cls, name), "__trouper_handles__"):
            raise TypeError(
                f"{cls.__qualname__}.{name} is marked with @handles; a durable actor decides: use "
                "@decides, and return a Decision"
            )
    try:
        inspect.signature(cls).bind()
    except TypeError as error:
        raise TypeError(
            f"{cls.__qualname__} cannot be made without arguments ({error}), and at recovery there "
            "are none; what differs between two of them belongs into the state"
        ) from None


def _declared(cls: type[Any], root: type[Any]) -> tuple[type[Any] | None, Any]:
    """Return the state's type and the message union of ``DurableActor[State, Messages]``.

    Raises:
        TypeError: The state is a union.
    """
    for base in cls.__mro__:
        for alias in getattr(base, "__orig_bases__", ()):
            origin = get_origin(alias)
            if isinstance(origin, type) and issubclass(origin, root):
                declared: tuple[Any, ...] = (*get_args(alias), Any)
                if len(states := list(union_of(declared[0]))) > 1:
                    names = " | ".join(getattr(m, "__qualname__", str(m)) for m in states)
                    raise TypeError(
                        f"{cls.__qualname__}: its state is declared as {names}, and a state is of "
                        "one class; derive them from one, and declare that"
                    )
                plain: Any = get_origin(declared[0]) or declared[0]
                if plain is Any:  # which is a class, from 3.11 on
                    return None, declared[1]
                return (plain if isinstance(plain, type) else None), declared[1]
    return None, Any


def _initial(cls: type[Any], state: type[Any] | None) -> Any:
    if not hasattr(cls, "initial"):
        what = "..." if state is None else f"{state.__qualname__}(...)"
        raise TypeError(
            f"{cls.__qualname__} has no initial state; set it in the class: initial = {what}"
        )
    initial = cls.initial
    if state is not None and not isinstance(initial, state):
        raise TypeError(
            f"{cls.__qualname__}: initial is {initial!r}, which is no {state.__qualname__}"
        )
    try:
        if not isinstance(initial, LEAVES):
            encode_record(initial)
        else:
            encode(initial)
    except TrouperError as error:
        raise TypeError(
            f"{cls.__qualname__}: its state cannot be kept in a snapshot ({error}); it is a plain "
            "value that does not change, or a frozen dataclass under @record"
        ) from error
    return initial


def _check_same(cls: type[Any], method: str, what: str, said: Any, wanted: type[Any]) -> None:
    plain = get_origin(said) or said
    if said is Any or isinstance(said, TypeVar) or not isinstance(plain, type):
        return
    if plain is not wanted:
        raise TypeError(
            f"{cls.__qualname__}.{method}: its {what} is annotated as {plain.__qualname__} and is "
            f"{wanted.__qualname__}; say {wanted.__qualname__}"
        )


def _check_messages(cls: type[Any], declared: Any, decided: set[type[Any]]) -> None:
    wanted = None if declared is Any or isinstance(declared, TypeVar) else members(declared)
    if wanted is None:
        return
    missing = {w for w in wanted if not any(issubclass(w, d) for d in decided)}
    extra = {d for d in decided if not any(issubclass(d, w) for w in wanted)}
    if missing or extra:
        problems = [
            f"{label} {', '.join(sorted(t.__qualname__ for t in found))}"
            for label, found in (("nothing decides", missing), ("undeclared", extra))
            if found
        ]
        raise TypeError(
            f"{cls.__qualname__}: DurableActor[..., messages] and @decides disagree: "
            f"{'; '.join(problems)}"
        )
