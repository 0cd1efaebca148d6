"""The base class of actors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic

from ._handlers import Behaviour, behaviour_of
from ._messages import M

if TYPE_CHECKING:
    from ..supervision import Exit
    from ._context import Context


class Actor(Generic[M]):
    """Single writer of its own state: handles one message at a time, also across awaits.

    ``class Counter(Actor[Add | Total])`` declares what it handles; a bare ``Actor`` is
    ``Actor[Any]``. The constructor runs again at every restart, so that the state is fresh.
    Handlers are marked with `handles`. Cleanup belongs into `stopping`.

    Raises:
        TypeError: At class creation, when the declared union and the handlers disagree.
    """

    __slots__ = ()  # subclasses may have some, for less memory; by default they have none

    __behaviour__: ClassVar[Behaviour]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__behaviour__ = behaviour_of(cls, Actor)

    async def started(self, ctx: Context[Any]) -> None:
        """Run before the first message. ``spawn`` awaits it, and raises what it raises."""

    async def stopping(self, ctx: Context[Any], why: Exit) -> None:
        """Run once for every instance when it ends, shielded, within the shutdown budget.

        It runs before a restart too; ``why.kind`` is *crashed* then, or *shutdown* when a sibling's
        failure took this actor along. It does not run when `started` fails at the spawn: there is
        no actor then, and `started` cleans up behind itself.
        """


Actor.__behaviour__ = behaviour_of(Actor, Actor)
