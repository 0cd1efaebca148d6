"""Reads a data file of LMDB 0.9 page by page, without LMDB and without mapping it.

A mapped damaged file kills the process; bytes that were read cannot. So this is what looks at a
file that nobody vouches for: it says which rows are there, and which pages are not what they should
be, and goes on with the others.

    page    u64 number, u16 pad, u16 flags, u16 lower, u16 upper, then u16 offsets of its nodes;
            of an overflow page the last two are one u32, how many pages it takes
    node    u32 size of the data, u16 flags, u16 size of the key, key, data;
            in a branch the first six bytes are the page below
    meta    pages 0 and 1: header, u32 magic, u32 version, u64 address, u64 map size, the trees of
            free pages and of tables, u64 last page, u64 transaction; the higher transaction counts
    tree    u32 pad, u16 flags, u16 depth, u64 branch, leaf and overflow pages, u64 entries and root
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self, final

MAGIC: Final = 0xBEEFC0DE
DATA_VERSION: Final = 1
PAGE_SIZES: Final = frozenset(1 << power for power in range(9, 16))

_HEADER: Final = struct.Struct("=QHHHH")
_META: Final = struct.Struct("=IIQQ48s48sQQ")
_TREE: Final = struct.Struct("=IHHQQQQQ")
_NODE: Final = struct.Struct("=IHH")
_HEAD: Final = _HEADER.size
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 0x01, 0x02, 0x04, 0x08
_BIG, _SUBTREE = 0x01, 0x02
_NO_PAGE: Final = (1 << 64) - 1


class Broken(Exception):
    """A page that is not what it should be; says which and how."""


class Tree(NamedTuple):
    """One B-tree: a table, or the table of tables."""

    root: int | None
    entries: int


class _Node(NamedTuple):
    flags: int
    key: bytes
    data: bytes
    size: int  # of the data; what is in `data` may be where it is


@final
class Pages:
    """An open data file, as its last commit left it.

    Args:
        data: The data file. Whoever calls makes sure that nobody writes it meanwhile.
        broken: Told of each page that cannot be read as what it should be.

    Raises:
        Broken: Neither meta page can be read.
    """

    def __init__(self, data: Path, broken: Callable[[str], None]) -> None:
        self._fd = os.open(data, os.O_RDONLY | os.O_CLOEXEC)
        self._broken = broken
        self._seen: set[int] = set()  # a page belongs to one tree, once: so every walk ends
        try:
            self._size = os.fstat(self._fd).st_size
            self.page_size, self.pages, self._main = self._newest()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    @property
    def seen(self) -> int:
        """How many pages were read so far, overflow pages included."""
        return len(self._seen)

    def tables(self) -> dict[str, Tree]:
        """Return the tables by name; to be called once."""
        found: dict[str, Tree] = {}
        for node in self._leaves(self._main):
            if node.flags != _SUBTREE or len(node.data) != _TREE.size:
                self._broken(f"entry {node.key!r} of the table of tables is not a table")
                continue
            found[os.fsdecode(node.key)] = _tree(node.data)
        return found

    def rows(self, tree: Tree) -> Iterator[tuple[bytes, bytes]]:
        """Give out keys and values in key order, without those on broken pages; once per table."""
        for node in self._leaves(tree):
            try:
                if node.flags & ~_BIG:
                    raise Broken(f"row {node.key.hex()} has node flags {node.flags:#x}")
                yield node.key, self._long(node) if node.flags else node.data
            except Broken as error:
                self._broken(str(error))

    def _leaves(self, tree: Tree) -> Iterator[_Node]:
        pending = [] if tree.root is None else [tree.root]
        while pending:
            number = pending.pop()
            try:
                flags, page = self._page(number, _BRANCH | _LEAF)
                nodes = list(self._nodes(number, page, leaf=flags == _LEAF))
            except Broken as error:
                self._broken(str(error))
                continue
            if flags == _LEAF:
                yield from nodes
            else:
                pending += [node.size for node in reversed(nodes)]

    def _nodes(self, number: int, page: bytes, *, leaf: bool) -> Iterator[_Node]:
        lower, upper = _HEADER.unpack_from(page)[3:]
        if not _HEAD <= lower <= upper <= self.page_size or lower % 2:
            raise Broken(f"page {number} has its nodes outside of itself")
        for at in range(_HEAD, lower, 2):
            (start,) = struct.unpack_from("=H", page, at)
            if not upper <= start <= self.page_size - _NODE.size:
                raise Broken(f"page {number} has a node outside of itself")
            size, flags, key_size = _NODE.unpack_from(page, start)
            start += _NODE.size
            middle = start + key_size
            if not leaf:
                size, flags, end = size | flags << 32, 0, middle
            else:
                end = middle + (8 if flags & _BIG else size)
            if end > self.page_size:
                raise Broken(f"page {number} has a node that does not fit into it")
            yield _Node(flags, page[start:middle], page[middle:end], size)

    def _long(self, node: _Node) -> bytes:
        """Return a value that has pages of its own."""
        (number,) = struct.unpack("=Q", node.data)
        count = (_HEAD - 1 + node.size) // self.page_size + 1
        _, first = self._page(number, _OVERFLOW)
        if int.from_bytes(first[12:16], _ORDER) != count:
            raise Broken(f"page {number} does not take the {count} pages of its value")
        self._take(range(number + 1, number + count))
        whole = first + self._read((number + 1) * self.page_size, (count - 1) * self.page_size)
        return whole[_HEAD : _HEAD + node.size]

    def _page(self, number: int, kinds: int) -> tuple[int, bytes]:
        self._take(range(number, number + 1))
        page = self._read(number * self.page_size, self.page_size)
        stored, _, flags, _, _ = _HEADER.unpack_from(page)
        if stored != number:
            raise Broken(f"page {number} says that it is page {stored}")
        if flags not in (_BRANCH, _LEAF, _OVERFLOW) or not flags & kinds:
            raise Broken(f"page {number} is of another kind ({flags:#x}) than it should be")
        return flags, page

    def _take(self, numbers: range) -> None:
        if numbers and not (numbers[0] > 1 and numbers[-1] < self.pages):
            raise Broken(f"page {numbers[-1]} is outside of the file's {self.pages} pages")
        if not self._seen.isdisjoint(numbers):
            raise Broken(f"page {numbers[0]} is used twice")
        self._seen.update(numbers)

    def _read(self, at: int, size: int) -> bytes:
        if at + size > self._size:
            raise Broken(f"the file ends at byte {self._size}, inside a page that is in use")
        try:
            return os.pread(self._fd, size, at)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise Broken(f"the disk cannot read {size} bytes at {at}") from error

    def _newest(self) -> tuple[int, int, Tree]:
        """Return page size, number of pages and the table of tables of the last commit."""
        first = self._meta(0)
        sizes = sorted(PAGE_SIZES) if first is None else [first[1]]
        found = [meta for meta in (first, *(self._meta(size) for size in sizes)) if meta]
        if not found:
            raise Broken("neither of its meta pages can be read")
        _, page_size, last, main = max(found, key=lambda meta: meta[0])
        return page_size, min(last + 1, -(-self._size // page_size)), main

    def _meta(self, at: int) -> tuple[int, int, int, Tree] | None:
        """Return transaction, page size, last page and tree of a meta page, None if it is none."""
        page = os.pread(self._fd, _HEAD + _META.size, at)
        if len(page) < _HEAD + _META.size:
            return None
        _, _, flags, _, _ = _HEADER.unpack_from(page)
        magic, version, _, _, free, main, last, txn = _META.unpack_from(page, _HEAD)
        size = _TREE.unpack(free)[0]
        if (magic, version) != (MAGIC, DATA_VERSION) or not flags & _META_PAGE:
            return None
        return (txn, size, last, _tree(main)) if size in PAGE_SIZES and at in (0, size) else None


_ORDER: Final = "little" if struct.pack("=H", 1)[0] else "big"


def _tree(data: bytes) -> Tree:
    fields = _TREE.unpack(data)
    return Tree(None if fields[7] == _NO_PAGE else fields[7], fields[6])
