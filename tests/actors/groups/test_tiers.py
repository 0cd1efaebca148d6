"""`MemoryHost` and `LmdbHost`: the one host, opened by the name of its tier."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import trio

from trouper.actors.groups import (
    EffectHost,
    EmbeddedHost,
    GroupHandle,
    LmdbHost,
    MemoryHost,
    open_host,
)
from trouper.errors import CorruptRecord, EffectGroupsUnsupported, PathRefused
from trouper.store import LmdbStore, MemoryStore
from trouper.testing.conformance.host import Cast


async def order(host: EffectHost, handle: GroupHandle) -> list[int]:
    found: list[int] = []
    while not handle.exhausted:
        found.append((await host.next_settlement(handle)).position)
    return found


@pytest.fixture(params=["MemoryHost", "LmdbHost"])
def tier(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return what makes a host of a tier; each call is given the same journal."""
    store = MemoryStore()

    def make(resolver: Any = None, **options: Any) -> EmbeddedHost[Any]:
        if request.param == "MemoryHost":
            return MemoryHost(resolver, store=store, **options)
        return LmdbHost(tmp_path / "journal", resolver, **options)

    return make


async def test_it_is_the_one_implementation(tier: Any) -> None:
    async with tier() as host:
        assert type(host) is EffectHost


async def test_handed_nothing_it_is_unwired(tier: Any) -> None:
    async with tier() as host:
        assert not host.supports_groups
        with pytest.raises(EffectGroupsUnsupported):
            await host.open_group(Cast("g").group())


async def test_what_it_kept_is_there_in_its_next_life(tier: Any) -> None:
    first, second = Cast("g", 2), Cast("g", 2)
    async with tier(first.resolver, shutdown=0) as host:
        handle = await host.open_group(first.group())
        await first.finish_in_turn(1)
        assert (await host.next_settlement(handle)).position == 1
    opened = tier(second.resolver)
    async with opened as host:
        await host.open_group(second.group())
        await second.finish_in_turn(0)
        assert await order(host, GroupHandle("g", 2)) == [1, 0]
    async with opened as host:  # the same object again: one more life
        assert await order(host, await host.open_group(second.group())) == [1, 0]
    assert second.attempts == [[2], []]


async def test_a_memory_host_keeps_its_own_journal_as_long_as_it_is_there() -> None:
    cast = Cast("g", 1)
    cast.finish()
    tier = MemoryHost(cast.resolver)
    for _ in range(2):
        async with tier as host:
            assert await order(host, await host.open_group(cast.group())) == [0]
    assert cast.attempts == [[1]]


async def test_options_reach_the_host(tier: Any) -> None:
    with pytest.raises(ValueError, match="signal_limit"):
        async with tier(signal_limit=0):
            raise AssertionError("it opened")
    async with tier(lease=7.0) as host:
        lease = host.lease("g")
        assert lease.expires - lease.now == 7.0


async def test_one_object_is_one_host_at_a_time(tier: Any) -> None:
    opened = tier()
    async with opened as host:
        with pytest.raises(RuntimeError, match=r"make another one of `\.store`"):
            await opened.__aenter__()
        assert host.store.is_open


async def test_several_share_a_store_that_is_open() -> None:
    async with MemoryStore() as store, MemoryHost(store=store) as one:
        async with MemoryHost(store=store) as two:
            assert one.owner != two.owner
        assert store.is_open


async def test_a_store_with_options_of_its_own(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "journal", create=False)
    with pytest.raises(PathRefused):
        async with LmdbHost(store):
            raise AssertionError("it opened")


async def test_an_error_of_the_block_comes_out_as_itself(tier: Any) -> None:
    with pytest.raises(CorruptRecord, match="mine"):
        async with tier():
            raise CorruptRecord("mine", table="log", key=b"")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: LmdbHost(MemoryStore()), r"takes a path or an LmdbStore.*open_host"),  # type: ignore[arg-type]
        (lambda: MemoryHost(store="jobs"), r"takes a MemoryStore, it got 'jobs'"),  # type: ignore[arg-type]
        (lambda: MemoryHost(MemoryStore()), "a resolver is a function"),  # type: ignore[arg-type]
        (lambda: LmdbHost("jobs", "jobs"), "a resolver is a function"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_store_or_resolver_is_refused_by_name(make: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        make()


def test_an_empty_path_names_no_store() -> None:
    with pytest.raises(PathRefused, match="empty"):
        LmdbHost("")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("mine")])
async def test_whatever_ends_the_block_leaves_it_as_itself(tier: Any, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        async with tier():
            raise error
    assert caught.value is error


async def test_a_cancel_of_the_block_ends_at_its_scope(tier: Any) -> None:
    with trio.CancelScope() as scope:
        async with tier():
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shutdown": -1}, "shutdown must be 0 seconds or more, not -1"),
        ({"shutdown": math.nan}, "shutdown must be 0 seconds or more, not nan"),
        ({"shutdown": "x"}, "shutdown is a number of seconds, not 'x'"),
        ({"lease": -1}, "lease must be 0 seconds or more, not -1"),
        ({"lease": math.nan}, "lease must be 0 seconds or more, not nan"),
        ({"lease": 0}, "lease must be more than 0 seconds"),
        ({"lease": math.inf}, "lease must be more than 0 seconds, and finite"),
        ({"lease": "x"}, "lease is a number of seconds, not 'x'"),
    ],
)
async def test_terms_that_cannot_be_are_refused_when_a_host_is_made(
    tier: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        tier(**options)
    store = MemoryStore()
    with pytest.raises((TypeError, ValueError), match=says):
        async with open_host(store, **options):
            raise AssertionError("it opened")
    assert not store.is_open
