"""Who is cancelled with whom: the nodes of one tree of work, as pure rules on plain data.

A tree follows its root's journal: a method decides a fact, `CancellationTree.apply` makes the next
tree of it. It knows no tasks. Who is told, stops; who has stopped, retires; and a cancel that was
accepted proves neither. A node is there until it retires, so nothing in a tree is ever detached,
and there is no shield in it: what a node does to clean up is its own, and is bounded by its budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NoReturn, TypeAlias

from ..errors import BudgetExhausted, OwnershipError
from ._budget import CAPS


@dataclass(frozen=True, slots=True)
class CancelNode:
    """One node: an activation, or a guest.

    Attributes:
        key: Its durable identity.
        parent: Its parent's key, empty for the root.
        entry: Its number in the tree: it tells a node from a later one with the same key.
        reason: Why it was cancelled; None while it is not.
        origin: The key of the node whose cancel reached it, empty while none did.
        is_closed: It takes no more children: its code has returned.
    """

    key: str
    parent: str
    entry: int
    reason: str | None = None
    origin: str = ""
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A child was admitted, or the root. Under a cancelled parent it is cancelled at once."""

    key: str
    parent: str
    entry: int


@dataclass(frozen=True, slots=True)
class NodeCancelled:
    """A node was cancelled, and everything below it."""

    key: str
    entry: int
    reason: str


@dataclass(frozen=True, slots=True)
class NodeClosed:
    """A node takes no more children."""

    key: str
    entry: int


@dataclass(frozen=True, slots=True)
class NodeRetired:
    """A node is gone for good, after everything below it."""

    key: str
    entry: int


CancelFact: TypeAlias = NodeAdded | NodeCancelled | NodeClosed | NodeRetired

_NOBODY: Final[Mapping[str, CancelNode]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CancellationTree:
    """The living nodes below one root.

    Attributes:
        nodes: By key, in the order in which they entered.
        entered: Nodes that entered so far; the number of the next one.
        limit: How many may live at a time: the root, and the cap on its descendants.
    """

    nodes: Mapping[str, CancelNode] = field(default_factory=lambda: _NOBODY)
    entered: int = 0
    limit: int = 1 + CAPS["live_descendants"]

    # --- reading ----------------------------------------------------------------------------------

    def delegates(self, key: str) -> bool:
        """Tell whether a node may still be given children: it lives, and is not ending."""
        node = self.nodes.get(key)
        return node is not None and node.reason is None and not node.is_closed

    def subtree(self, key: str) -> tuple[str, ...]:
        """Return a node and everything below it in the order of a cancel.

        Parents come before their children, siblings in the order in which they entered. Empty if
        there is no such node.
        """
        if key not in self.nodes:
            return ()
        below: dict[str, list[str]] = {}
        for node in self.nodes.values():
            below.setdefault(node.parent, []).append(node.key)
        found: list[str] = []
        todo = [key]
        while todo:  # no recursion: depth is somebody else's limit
            found.append(todo.pop())
            todo.extend(reversed(below.get(found[-1], ())))
        return tuple(found)

    def retirement(self, key: str) -> tuple[str, ...]:
        """Return the same nodes in an order in which they may retire: children before parents."""
        return self.subtree(key)[::-1]

    def reach(self, key: str) -> tuple[str, ...]:
        """Return whom a cancel of this node would reach, in order: each is reached only once."""
        return tuple(each for each in self.subtree(key) if self.nodes[each].reason is None)

    # --- deciding ---------------------------------------------------------------------------------

    def add(self, key: str, parent: str = "") -> NodeAdded:
        """Let a node in, below a parent; the root is the one without.

        Ask `delegates` before a child is admitted. One that was admitted is let in here even if its
        parent was cancelled meanwhile, and is cancelled at once.

        Raises:
            OwnershipError: (*taken*) The key is in the tree, or it has its root. (*unknown*) There
                is no such parent. (*closed*) The parent takes no more children.
            BudgetExhausted: The tree is full.
        """
        if not key or key in self.nodes:
            _refuse("taken", f"{key!r} is in the tree already, or is no key", key)
        if not parent and self.nodes:
            _refuse("taken", f"{key!r} needs a parent: the tree has its root already", key)
        if parent and self._known(parent).is_closed:
            _refuse("closed", f"{parent!r} has returned; {key!r} cannot begin below it", key)
        if len(self.nodes) >= self.limit:
            raise BudgetExhausted(
                f"{key!r} finds {self.limit} nodes in its tree; wait until one has retired",
                field="live_descendants",
                asked=1,
                left=0,
            )
        return NodeAdded(key, parent, self.entered)

    def cancel(self, key: str, reason: str, entry: int | None = None) -> NodeCancelled | None:
        """Cancel a node and everything below it; `reach` says whom that newly concerns.

        None if it changes nothing: the node is cancelled already and keeps its first reason, or it
        has retired. A cancel often comes late, so that is no error.

        Args:
            key: The node.
            reason: Kept with each node that is reached.
            entry: Its number, if only that very node is meant.
        """
        node = self.nodes.get(key)
        if node is None or node.reason is not None or entry not in (None, node.entry):
            return None
        return NodeCancelled(key, node.entry, reason)

    def close(self, key: str, entry: int | None = None) -> NodeClosed:
        """Let a node take no more children; those it has go on, and it stays until they retired.

        Raises:
            OwnershipError: (*unknown*, *stale*) There is no such node.
        """
        return NodeClosed(key, self._known(key, entry).entry)

    def retire(self, key: str, entry: int | None = None) -> NodeRetired:
        """Take out a node whose cell, providers and children have ended.

        Raises:
            OwnershipError: (*live*) It has children. (*unknown*, *stale*) There is no such node:
                it has retired, and does so once.
        """
        node = self._known(key, entry)
        children = [each.key for each in self.nodes.values() if each.parent == key]
        if children:
            _refuse("live", f"{key!r} cannot retire before its children {children}", key)
        return NodeRetired(key, node.entry)

    # --- applying ---------------------------------------------------------------------------------

    def apply(self, fact: CancelFact) -> CancellationTree:
        """Return the tree after a fact that it decided, or that its journal holds.

        Raises:
            OwnershipError: (*entry*) It contradicts the facts before it; nothing is repaired.
        """
        if isinstance(fact, NodeAdded):
            return self._with(fact)
        node = self.nodes.get(fact.key)
        if node is None or node.entry != fact.entry:
            _refuse("entry", f"the tree holds no such node: {fact}", fact.key)
        nodes = dict(self.nodes)
        if isinstance(fact, NodeRetired):
            if any(each.parent == fact.key for each in nodes.values()):
                _refuse("entry", f"a node with children does not retire: {fact}", fact.key)
            del nodes[fact.key]
        elif isinstance(fact, NodeClosed):
            nodes[fact.key] = replace(node, is_closed=True)
        else:
            for key in self.reach(fact.key):
                nodes[key] = replace(nodes[key], reason=fact.reason, origin=fact.key)
        return replace(self, nodes=MappingProxyType(nodes))

    def replay(self, facts: Iterable[CancelFact]) -> CancellationTree:
        """Apply facts in turn: recovery."""
        tree = self
        for fact in facts:
            tree = tree.apply(fact)
        return tree

    # --- inside -----------------------------------------------------------------------------------

    def _known(self, key: str, entry: int | None = None) -> CancelNode:
        node = self.nodes.get(key)
        if node is None:
            _refuse("unknown", f"{key!r} is not in the tree, or has retired", key)
        if entry not in (None, node.entry):
            _refuse("stale", f"{key!r} is entry {node.entry} by now, not {entry}", key)
        return node

    def _with(self, fact: NodeAdded) -> CancellationTree:
        above = self.nodes.get(fact.parent)
        is_placed = (above is not None and not above.is_closed) if fact.parent else not self.nodes
        if not is_placed or fact.key in self.nodes or fact.entry < self.entered:
            _refuse("entry", f"the tree has no place for it: {fact}", fact.key)
        node = CancelNode(fact.key, fact.parent, fact.entry)
        if above is not None and above.reason is not None:
            node = replace(node, reason=above.reason, origin=above.origin)
        nodes = MappingProxyType({**self.nodes, fact.key: node})
        return replace(self, nodes=nodes, entered=fact.entry + 1)


def _refuse(kind: str, what: str, key: str) -> NoReturn:
    raise OwnershipError(what, kind=kind, key=key)
