"""Random histories of a host, compared with the model at every step, across lives."""

from __future__ import annotations

import random
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final

from ...actors.groups import (
    Cancelled,
    Completed,
    Disposition,
    EffectHost,
    GroupHandle,
    Outcome,
    Settlement,
)
from ...errors import GroupRetired, GroupShapeError, HandleClosed, ScopeBusy, TrouperError
from ._host_bench import Ending, HostBench
from ._host_cast import Cast
from ._host_model import Answer, Model, Word

_REFUSALS: Final[dict[Answer, type[TrouperError]]] = {
    "shape": GroupShapeError,
    "closed": HandleClosed,
    "busy": ScopeBusy,
    "retired": GroupRetired,
}
_SIZES: Final = {"a": 3, "b": 2, "c": 1}
_DECLARED: Final[dict[str, Word]] = {
    "a": "run_to_completion",
    "b": "cancel",
    "c": "run_to_completion",
}


@dataclass
class _Life:
    host: EffectHost
    casts: dict[str, Cast]
    handles: dict[str, list[GroupHandle]]


async def a_history_is_that_of_the_model(bench: HostBench, seed: int) -> None:
    """Whatever is done to a host in several lives, it answers as the model does, rank by rank.

    Args:
        bench: A journal of its own.
        seed: Which history; the same for every bench.
    """
    chance, model = random.Random(seed), Model()
    for _ in range(3):
        ending: Ending = "crash" if chance.random() < 0.5 else "shutdown"
        async with bench.runtime(ending) as runtime:
            casts = {name: Cast(bench.key(name), size) for name, size in _SIZES.items()}
            by_key = {cast.key: cast for cast in casts.values()}
            host = await runtime.host(
                lambda envelope, by_key=by_key: by_key[  # type: ignore[misc]
                    envelope.replay_key.rpartition("/")[0]
                ].resolver(envelope)
            )
            life = _Life(host, casts, {})
            for _ in range(10):
                await _step(life, model, chance)
            for name in _SIZES:
                await _compare(life, model, name)
        model.die()


async def _step(life: _Life, model: Model, chance: random.Random) -> None:
    name = chance.choice(sorted(_SIZES))
    verb = chance.choice(("open", "open", "finish", "finish", "close", "read", "drain", "retire"))
    if verb == "open" or name not in model.groups:
        await _open(life, model, name)
    elif verb == "finish":
        running = sorted(model.groups[name].running)
        if running:
            await _finish(life, model, name, chance.choice(running))
    elif verb == "close":
        handles = life.handles.get(name)
        if handles:
            await _close(life, model, name, chance.choice(handles), chance.choice(_WORDS))
    elif verb == "read":
        handles = life.handles.get(name)
        if handles:
            await _read(life, model, name, chance.choice(handles))
    elif verb == "drain":
        await _drain(life, model, name)
    else:
        answer = model.retire(name)
        await _told(answer, life.host.retire(life.casts[name].key))
    await _compare(life, model, name)


_WORDS: Final[tuple[Word, ...]] = ("run_to_completion", "cancel")


async def _told(answer: Answer, call: Awaitable[object]) -> None:
    """Assert that a call answers as the model says."""
    refusal: TrouperError | None = None
    try:
        await call
    except TrouperError as error:
        refusal = error
    told = "done" if refusal is None else type(refusal).__name__
    kind = _REFUSALS.get(answer)
    assert told == ("done" if kind is None else kind.__name__), f"{answer} in the model: {refusal}"


async def _open(life: _Life, model: Model, name: str) -> None:
    cast = life.casts[name]
    group = cast.group(Disposition(_DECLARED[name]))
    answer = model.open(name, len(cast.parts), _DECLARED[name])
    if answer != "done":
        await _told(answer, life.host.open_group(group))
        return
    handle = await life.host.open_group(group)
    assert handle.closes == model.groups[name].closes
    life.handles.setdefault(name, []).append(handle)
    if running := sorted(model.groups[name].running):
        await cast.begun(*running)


async def _finish(life: _Life, model: Model, name: str, position: int) -> None:
    model.finish(name, position, "completed")
    await life.casts[name].finish_in_turn(position)
    await _ranks(life, model, name)


async def _close(life: _Life, model: Model, name: str, handle: GroupHandle, asked: Word) -> None:
    answer = model.close(name, handle.closes, asked)
    await _told(answer, life.host.close_group(handle, Disposition(asked)))


async def _read(life: _Life, model: Model, name: str, handle: GroupHandle) -> None:
    answer = model.read(name, handle.closes)
    if answer != "done":
        if not handle.exhausted:
            await _told(answer, life.host.next_settlement(handle))
    elif handle.consumed < len(model.groups[name].ranks):
        before = handle.consumed
        settled = await life.host.next_settlement(handle)
        assert handle.consumed == settled.rank == before + 1
        assert _end(settled) == model.groups[name].ranks[before]


async def _drain(life: _Life, model: Model, name: str) -> None:
    group = model.groups[name]
    if group.running or group.retired or group.effective != "cancel":
        return
    model.drain(name)
    assert (await life.host.drain().run(life.casts[name].key)).is_complete


async def _compare(life: _Life, model: Model, name: str) -> None:
    """Assert that the host serves the ranks of the model, and that nothing else has run."""
    if name not in model.groups or model.groups[name].retired:
        return
    found = await _ranks(life, model, name)
    assert [_end(settled) for settled in found] == model.groups[name].ranks
    assert [settled.rank for settled in found] == list(range(1, len(found) + 1))


async def _ranks(life: _Life, model: Model, name: str) -> list[Settlement]:
    """Read as many ranks as the model has, with a handle that is as old as the last close."""
    group = model.groups[name]
    handle = GroupHandle(life.casts[name].key, group.size, 0, group.closes)
    return [await life.host.next_settlement(handle) for _ in group.ranks]


def _end(settled: Settlement) -> tuple[int, str]:
    words: dict[type[Outcome], str] = {Completed: "completed", Cancelled: "cancelled"}
    return settled.position, words[type(settled.outcome)]
