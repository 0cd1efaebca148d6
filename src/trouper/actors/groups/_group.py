"""A group as its opener offers it: copies of its words agree by construction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from ...errors import EmptyGroup, GroupShapeError
from ._envelope import EffectEnvelope, GroupMembership
from ._policy import Disposition, WakePolicy

MAX_CHILDREN = 10_000


@dataclass(frozen=True, slots=True)
class EffectGroup:
    """Children that are opened together. Build it with `EffectGroup.of`, the only constructor."""

    key: str
    scope: str
    wake: WakePolicy
    disposition: Disposition
    children: tuple[EffectEnvelope, ...]

    @classmethod
    def of(
        cls,
        key: str,
        children: Sequence[EffectEnvelope],
        *,
        wake: WakePolicy = WakePolicy.ALL,
        disposition: Disposition = Disposition.RUN_TO_COMPLETION,
    ) -> EffectGroup:
        """Stamp unstamped children from their index and refuse any that disagrees with the group.

        Raises:
            EmptyGroup: no children.
            GroupShapeError: a blank key, a foreign group key, a permuted position, a drifted wake
                or disposition, a foreign scope, or two children with one replay key.
        """
        if not isinstance(cast("object", key), str) or not key.strip():
            raise GroupShapeError(
                f"a group needs a text as its key that is not blank, it got {key!r:.80}; give one "
                "under which it is found again",
                key=key,
                field="key",
            )
        if not children:
            raise EmptyGroup(f"group {key!r} has no children; nothing could ever settle", key=key)
        if len(children) > MAX_CHILDREN:
            raise GroupShapeError(
                f"group {key!r} has {len(children)} children, at most {MAX_CHILDREN} settle "
                "together; split it into child activations",
                key=key,
                field="children",
                recorded=MAX_CHILDREN,
                offered=len(children),
            )
        scope = children[0].scope
        stamped = tuple(
            _stamp(child, position, GroupMembership(key, position, wake, disposition), scope)
            for position, child in enumerate(children)
        )
        _require_distinct(key, stamped)
        return cls(key, scope, wake, disposition, stamped)


def _stamp(
    child: EffectEnvelope, position: int, membership: GroupMembership, scope: str
) -> EffectEnvelope:
    if child.scope != scope:
        raise _shape(membership, child, "scope", scope, child.scope)
    if child.membership is None:
        return child.in_group(membership)
    for field in ("group", "position", "wake", "disposition"):
        own, asked = getattr(child.membership, field), getattr(membership, field)
        if own != asked:
            raise _shape(membership, child, field, asked, own)
    return child


def _shape(
    membership: GroupMembership, child: EffectEnvelope, field: str, group: object, own: object
) -> GroupShapeError:
    return GroupShapeError(
        f"child {membership.position} ({child.replay_key!r}) of group {membership.group!r} says "
        f"{field} = {own!s}, the group says {group!s}",
        key=membership.group,
        position=membership.position,
        replay_key=child.replay_key,
        field=field,
        recorded=str(group),
        offered=str(own),
    )


def _require_distinct(key: str, children: tuple[EffectEnvelope, ...]) -> None:
    seen: dict[str, int] = {}
    for position, child in enumerate(children):
        first = seen.setdefault(child.replay_key, position)
        if first != position:
            raise GroupShapeError(
                f"children {first} and {position} of group {key!r} share the replay key "
                f"{child.replay_key!r}; each child needs its own",
                key=key,
                position=position,
                replay_key=child.replay_key,
                field="replay_key",
            )
