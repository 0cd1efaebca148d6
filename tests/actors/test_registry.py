"""Names for actors within one system."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from trouper.actors import Ref, open_system
from trouper.errors import ActorStopped, NameTaken


@pytest.mark.proves("Watch: a name registry")
async def test_a_name_is_found_anywhere_in_its_system_and_in_no_other(cast: Any) -> None:
    async with open_system("s") as system, open_system("t") as other:
        ref = await system.spawn(cast.Player)
        system.registry.register("till", ref)
        system.registry.register("till", ref)
        assert system.registry.whereis("till") is ref
        assert (list(system.registry), len(system.registry)) == (["till"], 1)
        assert other.registry.whereis("till") is None

        async def look(self: Any, ctx: Any) -> Any:
            return ctx.registry.whereis("till")

        assert await ref.ask(cast.Ask(look)) is ref


async def test_a_taken_name_is_refused_until_it_is_free(cast: Any) -> None:
    async with open_system("s") as system:
        a, b = [await system.spawn(cast.Player, n) for n in "ab"]
        system.registry.register("till", a)
        with pytest.raises(NameTaken, match="till"):
            system.registry.register("till", b)
        assert system.registry.unregister("till") is True
        assert system.registry.unregister("till") is False
        system.registry.register("till", b)
        assert system.registry.whereis("till") is b
        with pytest.raises(ValueError, match="not empty"):
            system.registry.register("", b)


async def test_a_restart_keeps_a_name_and_a_stop_frees_it(cast: Any) -> None:
    async with open_system("s") as system:
        ref: Ref[Any] = await system.spawn(cast.Player, restart="transient")
        system.registry.register("till", ref)
        system.registry.register("desk", ref)
        ref.tell(cast.Go(cast.boom))
        await wait_all_tasks_blocked()
        assert ref.incarnation == 2
        assert system.registry.whereis("till") is ref
        ref.stop()
        await ref.stopped()
        assert list(system.registry) == []
        with pytest.raises(ActorStopped):
            system.registry.register("till", ref)
