"""Whom a failure concerns besides the child that failed: pure rules on plain data.

The words are OTP's. A supervisor of tasks and the actors' life-cycle both apply what stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from ._rules import AutoShutdown, Restart, Strategy

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Plan(Generic[K]):
    """What a restart does, in order: end these lives, then begin those.

    The child that failed stands in ``stop`` at its place in the order, although its code has ended:
    what is left of its old life ends there. Who is in ``stop`` but not in ``start`` ends for good.
    """

    stop: tuple[K, ...]
    start: tuple[K, ...]


def plan_restart(strategy: Strategy, children: Mapping[K, Restart], failed: K) -> Plan[K]:
    """Return who stops, last started first, and who starts again, in the order of the start.

    A sibling whose policy is *never* is stopped with the others and does not come back.

    Args:
        strategy: The parent's.
        children: The policies of the living children, in start order; ``failed`` is one of them.
        failed: Who failed, or ended although it must not.

    Raises:
        KeyError: ``failed`` is none of the children.
    """
    if failed not in children:
        raise KeyError(failed)
    order = list(children)
    first, end = 0, len(order)
    if strategy.kind != "one_for_all":
        first = order.index(failed)
    if strategy.kind == "one_for_one":
        end = first + 1
    concerned = order[first:end]
    back = (child for child in concerned if child == failed or children[child] != "never")
    return Plan(tuple(reversed(concerned)), tuple(back))


def ends_parent(auto_shutdown: AutoShutdown, significant_left: int) -> bool:
    """Tell whether the parent ends too, now that a significant child ended by itself.

    Args:
        auto_shutdown: The parent's: *never*, with *any* such end, or once *all* have ended.
        significant_left: Significant children that live, the one that ended not counted.
    """
    return auto_shutdown == "any" or (auto_shutdown == "all" and significant_left == 0)


def check_significant(strategy: Strategy, restart: Restart) -> None:
    """Refuse a significant child that could never end its parent.

    Raises:
        ValueError: The parent's ``auto_shutdown`` is *never*, or the child is *permanent*.
    """
    if strategy.auto_shutdown == "never":
        raise ValueError(
            "significant=True needs a parent that heeds it: give its strategy "
            'auto_shutdown="any" or "all"'
        )
    if restart == "permanent":
        raise ValueError(
            "significant=True does not go with restart='permanent': such a child never ends by "
            "itself; use 'transient' or 'never'"
        )
