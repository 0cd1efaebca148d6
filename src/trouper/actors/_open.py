"""`open_system`: store, cells and actors for the time of one ``async with`` block."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from trio.lowlevel import enable_ki_protection

from ..mailbox import Overflow
from ..store import LmdbStore, MemoryStore, Store
from ..supervision import Strategy
from ._durable import Drifted, DurableSide, RunnerKind
from ._instruments import Instrument
from ._parts import Parts
from ._system import ActorSystem, Block, run_system
from .activations import HISTORY_LIMIT, Durable
from .groups import SIGNALS_KEPT, Activity


def open_system(
    name: str,
    *,
    store: Store | str | os.PathLike[str] | None = None,
    cells: RunnerKind | None = None,
    effects: Iterable[Activity[..., Any]] = (),
    activities: Iterable[Durable[..., Any]] = (),
    strategy: Strategy | None = None,
    shutdown: float = 5.0,
    ask_safety: float = 30.0,
    mailbox: int = 1024,
    overflow: Overflow = "reject",
    seed: int | None = None,
    history_limit: int = HISTORY_LIMIT,
    signal_limit: int = SIGNALS_KEPT,
    keep_groups: bool = False,
    drifted: Drifted = "refuse",
    instruments: Iterable[Instrument] = (),
) -> AbstractAsyncContextManager[ActorSystem]:
    """Open an actor system for the time of an ``async with`` block.

    On the way in the store is opened, unfinished activations resume, then the body runs. On the way
    out effects get ``shutdown`` seconds and end without a terminal, activations leave memory (all
    resume at the next open), every actor stops in reverse start order, shielded and within budgets;
    left normally, mailboxes are drained first. A failure that no supervisor took cancels the body
    and is raised at the block, unwrapped; with an error of the body it is one group.

    Args:
        name: First part of every path.
        store: A store, open or not, or the path of an `LmdbStore`; by default a `MemoryStore`.
        cells: A pool of cells, for guests.
        effects: Effects and guests local to a function; module-level ones are known by import.
        activities: Durable functions that are local to a function.
        strategy: How the system supervises the actors it spawns.
        shutdown: Seconds for effects; for an actor's drain and turn, and again for its hook.
        ask_safety: Seconds after which a pending ask ends with `AskUnknown`.
        mailbox: Messages an actor may have waiting, unless its spawn says otherwise.
        overflow: What a full mailbox does with a message, unless a spawn says otherwise.
        seed: Of the jitter of restarts.
        history_limit: Steps that one activation may take; a group of n counts n.
        signal_limit: Signals of one name that may wait for one activation.
        keep_groups: Keep settled groups until their activation is forgotten.
        drifted: With unfinished work of other code, ``refuse`` to open, or ``park`` it.
        instruments: What follows messages to their turn, `OpenTelemetry` for one.

    Raises:
        StoreError: The store cannot be opened: owned, damaged, of another version. Untouched.
        DrainFirst: It holds unfinished work of other code. Untouched.
        NameTaken: Two listed functions have one durable name.
        WrongTask: Left in another task than it was entered in.
    """
    return Block(
        _open(
            _store(store),
            [] if cells is None else [cells],
            [*effects, *activities],
            history_limit=history_limit,
            signal_limit=signal_limit,
            keep_groups=keep_groups,
            drifted=drifted,
            name=name,
            strategy=strategy,
            shutdown=shutdown,
            ask_safety=ask_safety,
            mailbox=mailbox,
            overflow=overflow,
            seed=seed,
            parts=Parts(_checked(instruments)),
        )
    )


def open_staged(
    parts: Parts,
    name: str,
    *,
    store: Store,
    cells: RunnerKind | None,
    listed: Iterable[Activity[..., Any]],
    **options: Any,
) -> AbstractAsyncContextManager[ActorSystem]:
    """Open a system that is put together from other parts; for the explorer of schedules."""
    kinds = [] if cells is None else [cells]
    return Block(_open(store, kinds, [*listed], name=name, parts=parts, **options))


def _store(store: Store | str | os.PathLike[str] | None) -> Store:
    if store is None:
        return MemoryStore()
    if isinstance(store, str | os.PathLike):
        return LmdbStore(store)
    if not hasattr(store, "is_open"):
        raise TypeError(
            f"store= takes the path of a directory as a text, or a store, not {store!r:.80}"
        )
    return store


def _checked(instruments: Iterable[Instrument]) -> tuple[Instrument, ...]:
    given = tuple(instruments)
    for each in given:
        if isinstance(each, type) or not callable(getattr(each, "sending", None)):
            raise TypeError(f"instruments takes objects with the method sending(), not {each!r}")
    return given


@asynccontextmanager
@enable_ki_protection  # a Ctrl-C between two exits would leave out the second
async def _open(
    store: Store,
    kinds: list[RunnerKind],
    listed: list[Activity[..., Any]],
    *,
    history_limit: int,
    signal_limit: int = SIGNALS_KEPT,
    keep_groups: bool,
    drifted: Drifted = "refuse",
    shutdown: float,
    parts: Parts,
    **options: Any,
) -> AsyncGenerator[ActorSystem]:
    # Store and cells lie around the system: whatever runs in it has ended before they close.
    async with AsyncExitStack() as stack:
        if not store.is_open:
            await stack.enter_async_context(store)
        for kind in kinds:
            await stack.enter_async_context(kind)
        durable = DurableSide(
            store,
            kinds,
            listed,
            shutdown=shutdown,
            history_limit=history_limit,
            signal_limit=signal_limit,
            keep_groups=keep_groups,
            drifted=drifted,
            parts=parts,
        )
        around = run_system(durable=durable, shutdown=shutdown, parts=parts, **options)
        async with around as system:
            yield system
