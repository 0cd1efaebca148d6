"""Admission: from bytes that somebody gave us to a module that a cell may run.

In this order: the magic number and the declared sizes, validation, compilation, imports and
exports. One module at a time is compiled, off the loop and under a time cap: a small one in a
worker thread, a large one in a process (`_compile`). Compiled code is kept in memory only, under
the hash of the module: bytes of native code from anywhere else are never loaded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import trio

from .._holds import clock_held, run_in_thread
from ..errors import GuestRefused
from ._compile import IN_THREAD_BYTES, compile_apart
from ._guest import Guest
from ._limits import AdmissionLimits
from ._sections import check_sections
from ._transport import TransportName

if TYPE_CHECKING:
    from ._wasm import Compiler, Image, Shape

KNOWN_GUESTS: Final = 256
"""Guest descriptions whose admission is remembered; older ones are looked at again."""


class Admission:
    """Admits modules for the engines of one pool. Used from the loop's thread.

    In lock-step a small module is compiled on the loop. A large one has its process all the same.
    """

    def __init__(
        self, compiler: Compiler, limits: AdmissionLimits, memory: int, transport: TransportName
    ) -> None:
        self._compiler = compiler
        self._is_inline = transport == "lock-step"
        self._limits = limits
        self._memory = memory
        # One compilation at a time: it takes a core, and memory in proportion to the module.
        self._worker = trio.CapacityLimiter(1)
        self._guests: OrderedDict[Guest, bytes] = OrderedDict()
        self._images: OrderedDict[bytes, tuple[Image, Shape]] = OrderedDict()
        self._bytes = 0

    @property
    def compiled(self) -> int:
        """Return how many modules are kept compiled."""
        return len(self._images)

    @property
    def compiled_bytes(self) -> int:
        """Return how many bytes of compiled code are kept."""
        return self._bytes

    def known(self, guest: Guest) -> Image | None:
        """Return the image of a guest that was admitted before, without waiting."""
        found = self._images.get(self._guests.get(guest, b""))
        if found is None:
            return None
        self._guests.move_to_end(guest)
        self._images.move_to_end(found[0].digest)
        return found[0]

    async def admit(self, guest: Guest) -> Image:
        """Admit a guest, off the loop.

        Raises:
            GuestRefused: ``rule`` says which rule the module breaks, ``where`` in which place.
        """
        if guest.limits.memory > self._memory:
            raise GuestRefused(
                f"guest {guest.name!r} may use {guest.limits.memory} bytes of memory, the cells "
                f"of this pool {self._memory}: lower GuestLimits(memory=) or raise "
                "CellPool(memory=)",
                rule="memory",
                where=guest.name,
            )
        cap = self._limits.compile_seconds
        try:
            with trio.move_on_after(cap) as scope:
                image, shape = await self._compiled(guest)
                shape.check(guest.export, guest.limits)
                self._remember(guest, image, shape)
                return image
        except GuestRefused as refused:
            raise GuestRefused(
                f"guest {guest.name!r}: {refused}", rule=refused.rule, where=refused.where
            ) from refused.__cause__
        assert scope.cancelled_caught
        raise GuestRefused(
            f"guest {guest.name!r}: compiling took longer than {cap} s (compile_seconds)",
            rule="compile_seconds",
            where=guest.name,
        )

    async def _compiled(self, guest: Guest) -> tuple[Image, Shape]:
        if self._is_inline:
            binary = self._read(guest)
        else:
            binary = await run_in_thread(self._read, guest, abandon_on_cancel=True)
        if len(binary) <= IN_THREAD_BYTES:
            if self._is_inline:
                return self._compile(guest.digest, binary)
            return await run_in_thread(
                self._compile, guest.digest, binary, abandon_on_cancel=True, limiter=self._worker
            )
        async with self._worker:
            found = self._images.get(guest.digest)
            if found is not None:
                return found
            with clock_held():
                return await compile_apart(guest.digest, binary, self._memory, self._limits)

    def _read(self, guest: Guest) -> bytes:
        binary = guest.binary(self._limits.module_bytes)
        if guest.digest not in self._images:
            check_sections(binary, self._limits)
        return binary

    def _compile(self, digest: bytes, binary: bytes) -> tuple[Image, Shape]:
        # Somebody may have compiled it while this one waited for its turn.
        return self._images.get(digest) or self._compiler.compile(digest, binary)

    def _remember(self, guest: Guest, image: Image, shape: Shape) -> None:
        if image.digest not in self._images:
            self._images[image.digest] = image, shape
            self._bytes += len(image.native)
        self._images.move_to_end(image.digest)
        while self._bytes > self._limits.cache_bytes and len(self._images) > 1:
            _, (old, _) = self._images.popitem(last=False)
            self._bytes -= len(old.native)
        self._guests[guest] = image.digest
        if len(self._guests) > KNOWN_GUESTS:
            self._guests.popitem(last=False)
