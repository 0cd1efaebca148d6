"""The scope of an activation: begun with its first unit, ended with its last, gone by a verb."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...errors import CorruptRecord, ScopeBusy
from ...store import Store, Tx
from ..groups import (
    FINISHED,
    SCOPES,
    Doomed,
    GroupRow,
    MemberRow,
    begin_run,
    begin_sweep,
    being_swept,
    end_run,
    everything_in,
    extent,
    is_live,
    pass_group,
    require_finished,
    signal_remains,
    take_off,
)
from ._rows import TABLE, ActivationRow, activation_key, run_prefix


def begin(tx: Tx, row: ActivationRow) -> None:
    """List a run that starts.

    Raises:
        ScopeBusy: an earlier activation of this key was forgotten, and is not gone yet.
    """
    if being_swept(tx, row.scope):
        raise still_going(row.key)
    begin_run(tx, row.scope, row.key, row.parent)


def still_going(key: str) -> ScopeBusy:
    """Build the refusal of a key that was forgotten and is not gone yet."""
    return ScopeBusy(
        f"activation {key!r} was forgotten, and its rows are still being removed; start it again "
        "when they are gone",
        key=key,
    )


def end(tx: Tx, row: ActivationRow, unpassed: Iterable[str]) -> list[GroupRow]:
    """End a run with its terminal: nobody reads its groups again. Return those that retired."""
    passed = [pass_group(tx, key) for key in unpassed]
    end_run(tx, row.scope, row.key, row.parent)
    return [group for group in passed if group is not None and group.retired]


def forget(tx: Tx, key: str) -> str:
    """Mark an activation and everything below it to be swept; return the name of the sweep.

    One sweep takes all its runs, under the name of the first, which is where a key begins anew:
    until the last row of the last run is gone, `begin` refuses the key.

    Raises:
        ScopeBusy: it has not ended, something in its scope is unsettled or live, or its caller may
            still ask for its result.
    """
    row = tx.get(TABLE, activation_key(key), ActivationRow)
    if row is None or row.key != key:
        return _scope(key, 0)  # forgotten before, perhaps not gone yet
    if not row.ended:
        raise ScopeBusy(
            f"activation {key!r} has not ended; wait for it or cancel it, then forget it", key=key
        )
    if row.parent and is_live(tx, row.parent):
        raise ScopeBusy(
            f"activation {key!r} is part of {row.parent!r}, which has not ended and reads its "
            "result when it replays; forget that",
            key=key,
            scope=row.parent,
        )
    scopes = [_scope(key, run) for run in range(row.run + 1)]
    for scope in scopes:
        require_finished(tx, scope)
    tx.delete(TABLE, activation_key(key))
    if row.parent:
        take_off(tx, FINISHED, MemberRow(row.parent, "activation", key))
    doomed = [*signal_remains(key), *(each for scope in scopes for each in _remains(scope))]
    begin_sweep(tx, SCOPES, scopes[0], doomed)
    return scopes[0]


@extent("activation")
def _of_a_child(tx: Tx, key: str) -> list[Doomed]:
    # Its own row goes last: until then whoever asks for the key reads its result.
    try:
        row = tx.get(TABLE, activation_key(key), ActivationRow)
    except CorruptRecord:
        row = None  # it goes with its scope, readable or not
    found: list[Doomed] = [(TABLE, activation_key(key)), *signal_remains(key)]
    for run in range(1 if row is None else row.run + 1):
        found += _remains(_scope(key, run))
    return found


def _remains(scope: str) -> list[Doomed]:
    return [everything_in(scope), (TABLE, run_prefix(scope))]


def _scope(key: str, run: int) -> str:
    return f"{key}#{run}"


def read_all(
    store: Store, keys: Iterable[str], damaged: Callable[[CorruptRecord], None]
) -> list[ActivationRow]:
    """Return activations by their keys; a row that cannot be read is reported and left out."""
    found: list[ActivationRow] = []
    for key in keys:
        try:
            row = store.get(TABLE, activation_key(key), ActivationRow)
        except CorruptRecord as damage:
            damaged(damage)
            continue
        if row is not None:
            found.append(row)
    return found
