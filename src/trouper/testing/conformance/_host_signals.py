"""Laws of waits for signals: the oldest of its name, once, and never by who lost."""

from __future__ import annotations

import trio.testing

from ...actors.groups import Cancelled, Completed, EffectEnvelope, EffectGroup, Runner
from ...errors import SignalRefused
from ._host_bench import HostBench, Runtime
from ._host_cast import CANCEL, RUN_ON, Cast, order, refused, rest


class Waiting(Cast):
    """Children of which some wait for signals: `None` stands for an ordinary one."""

    def __init__(self, life: Runtime, key: str, names: list[str | None]) -> None:
        super().__init__(key, len(names), scope=key)
        self._life = life
        self._names = names

    def runner(self, envelope: EffectEnvelope) -> Runner | None:
        """Find the runner of an envelope, that of a wait among them."""
        if envelope.kind == "signal":
            return self._life.waits(envelope)
        return self.resolver(envelope)

    def opened(self) -> EffectGroup:
        """Describe the group."""
        children = [
            self.envelope(p) if name is None else self.envelope(p, kind="signal", name=name)
            for p, name in enumerate(self._names)
        ]
        return self.group(children=children)


async def a_signal_child_takes_the_oldest_of_its_name(bench: HostBench) -> None:
    """Also one that came before the wait did; of another name it takes none."""
    async with bench.runtime() as life:
        key = bench.key("oldest")
        first, cast = Waiting(life, key, [None]), Waiting(life, f"{key}/waits", ["b", "a", "a"])
        cast.scope = key
        host = await life.host(cast.runner)
        await host.open_group(first.opened())  # a scope takes signals while a group is open in it
        for name, payload in (("a", 1), ("a", 2), ("b", 3)):
            await host.signal(key, name, payload)
        found = await rest(host, await host.open_group(cast.opened()))
        assert {s.position: s.outcome for s in found} == {
            0: Completed(3),
            1: Completed(1),
            2: Completed(2),
        }


async def a_signal_outlives_the_life_it_came_in(bench: HostBench) -> None:
    """Sent means journaled: a wait of the next life takes it, and it is taken once."""
    key = bench.key("outlives")
    async with bench.runtime("crash") as life:
        cast = Waiting(life, key, [None, None])
        host = await life.host(cast.runner)
        await host.open_group(cast.opened())
        await host.signal(key, "a", "kept")
    async with bench.runtime() as life:
        waits = Waiting(life, f"{key}/waits", ["a", "a"])
        waits.scope = key
        host = await life.host(waits.runner)
        handle = await host.open_group(waits.opened())
        await trio.testing.wait_all_tasks_blocked()
        await host.signal(key, "a", "second")
        found = await rest(host, handle)
        assert [s.outcome for s in found] == [Completed("kept"), Completed("second")]


async def a_wait_ends_with_the_interest_in_its_group(bench: HostBench) -> None:
    """Under either word it ends as cancelled at the close, is ranked, and takes nothing."""
    for losers in (RUN_ON, CANCEL):
        async with bench.runtime() as life:
            cast = Waiting(life, bench.key(f"loser {losers}"), [None, "a"])
            host = await life.host(cast.runner)
            handle = await host.open_group(cast.opened())
            await cast.finish_in_turn(0)
            assert (await host.next_settlement(handle)).position == 0
            await host.close_group(handle, losers)
            await trio.testing.wait_all_tasks_blocked()
            again = await host.open_group(cast.opened(), consumed=1)
            assert [s.outcome for s in await rest(host, again)] == [Cancelled()]
            await refused(SignalRefused, host.signal(cast.key, "a", 1))


async def a_repeat_under_an_id_is_kept_once(bench: HostBench) -> None:
    """Also when it was taken meanwhile; another signal under that id is refused."""
    async with bench.runtime() as life:
        cast = Waiting(life, bench.key("id"), ["a", "a"])
        host = await life.host(cast.runner)
        handle = await host.open_group(cast.opened())
        await host.signal(cast.key, "a", 1, id="one")
        assert (await host.next_settlement(handle)).outcome == Completed(1)
        before = life.journal()
        await host.signal(cast.key, "a", 1, id="one")
        await refused(SignalRefused, host.signal(cast.key, "a", 2, id="one"))
        assert life.journal() == before
        await host.signal(cast.key, "a", 2, id="two")
        assert (await host.next_settlement(handle)).outcome == Completed(2)


async def a_signal_nobody_can_take_is_refused(bench: HostBench) -> None:
    """An unknown scope, and one whose group was closed: nothing is kept."""
    async with bench.runtime() as life:
        cast = Waiting(life, bench.key("nobody"), [None])
        host = await life.host(cast.runner)
        before = life.journal()
        await refused(SignalRefused, host.signal(cast.key, "a"))
        assert life.journal() == before
        handle = await host.open_group(cast.opened())
        await host.signal(cast.key, "a")
        await cast.finish_in_turn(0)
        assert await order(host, handle) == [0]
        await host.close_group(await host.open_group(cast.opened()), RUN_ON)
        await refused(SignalRefused, host.signal(cast.key, "a"))


SIGNAL_LAWS = (
    a_signal_child_takes_the_oldest_of_its_name,
    a_signal_outlives_the_life_it_came_in,
    a_wait_ends_with_the_interest_in_its_group,
    a_repeat_under_an_id_is_kept_once,
    a_signal_nobody_can_take_is_refused,
)
