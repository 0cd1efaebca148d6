"""Sets of nodes as whole numbers: a bit each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def mask_of(nodes: Iterable[int]) -> int:
    """Return the set of these nodes."""
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask


def bits(mask: int) -> Iterator[int]:
    """Yield the nodes of a set, in order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
