"""Names for actors within one system, apart from where they stand in the tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..errors import ActorStopped, NameTaken
from ..mailbox import STOPPED
from ._callables import local

if TYPE_CHECKING:
    from ._local import LocalRef
    from ._ref import Ref


class Registry:
    """Maps a name to a living actor. A restart keeps the name, a stop frees it."""

    def __init__(self) -> None:
        self._refs: dict[str, LocalRef] = {}

    def __len__(self) -> int:
        return len(self._refs)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._refs))

    def register(self, name: str, ref: Ref[Any]) -> None:
        """Give an actor this name as well; naming it so again changes nothing.

        Raises:
            NameTaken: Another living actor has it.
            ActorStopped: This one has ended.
            ValueError: The name is empty, or the actor lives in another system.
        """
        actor = local(ref)
        if not name:
            raise ValueError("a name in the registry is not empty")
        if actor.state == STOPPED:
            raise ActorStopped(f"{actor.path} has ended, it gets no name", target=actor.path)
        if actor.system.registry is not self:  # its end would not free the name
            raise ValueError(f"{actor.path} lives in another system; register it there")
        holder = self._refs.get(name)
        if holder is actor:
            return
        if holder is not None:
            raise NameTaken(
                f"{name!r} is {holder.path}; unregister it first or choose another name",
                target=holder.path,
            )
        self._refs[name] = actor
        actor.need_belongings().names[name] = None

    def whereis(self, name: str) -> Ref[Any] | None:
        """Return the actor of this name, or None."""
        return self._refs.get(name)

    def unregister(self, name: str) -> bool:
        """Free a name; return whether it was taken."""
        actor = self._refs.pop(name, None)
        if actor is None:
            return False
        del actor.need_belongings().names[name]
        return True

    def release(self, names: Iterable[str]) -> None:
        """Free the names of an actor that has ended; called by the runtime."""
        for name in names:
            del self._refs[name]
