"""A fixed number of cells, a fair queue for them, and nothing that outlives the block.

``free + leased + quarantined == N`` holds at every await. A cell is granted in the order of
asking; whoever may not wait is refused at once. Leaving the block ends what still runs, waits for
the evidence up to the cleanup cap, and never for a thread that is stuck.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, final

import outcome
import trio

from .._holds import run_in_thread
from ..actors.groups import Activity, EffectEnvelope
from ..errors import CellsExhausted, GuestDeadline, GuestRefused, LeaseError, ShuttingDown
from ..supervision import TreeNode
from ._activation import Activation
from ._admission import Admission
from ._cell import CellState
from ._guest import Guest
from ._limits import MAX_MEMORY, PAGE, AdmissionLimits
from ._quarantine import CellView, PoolStatistics, Quarantine
from ._runner import GuestRunner
from ._slot import Slot
from ._transport import TRANSPORTS, TransportName

if TYPE_CHECKING:
    from ._wasm import Compiler, Frame, Runtime

MAX_CELLS: Final = 256


@final
class CellPool:
    """N execution cells. Use it in ``async with``, alone or inside a system.

    Args:
        n: How many cells; each is one engine and one thread, made when the block is entered.
        queue: How many callers may wait for a cell. One more is refused with `CellsExhausted`.
        cleanup: Seconds, on trio's clock, until a cell that is not proven clean is quarantined.
        memory: The largest ``GuestLimits.memory`` that these cells carry; so much address space
            is reserved for each run.
        admission: What a module may declare.
        transport: ``"thread"`` lets the loop go on while guest code runs. ``"lock-step"`` is for
            deterministic tests: the loop stands still until the guest asks for something or
            ends, plain providers and small compilations run on the loop, so nothing ever runs
            beside it. A guest ends there by its fuel; its deadline counts only while it waits,
            and ten real seconds without a word are `GuestDeadline`.

    A virtual clock with autojump stands still while guest code runs.
    """

    def __init__(
        self,
        n: int,
        *,
        queue: int = 1024,
        cleanup: float = 5.0,
        memory: int = 64 << 20,
        admission: AdmissionLimits | None = None,
        transport: TransportName = "thread",
    ) -> None:
        if type(n) is not int or not 1 <= n <= MAX_CELLS:
            raise ValueError(f"a pool has 1 to {MAX_CELLS} cells, not {n!r}")
        if queue < 0:
            raise ValueError(f"queue must be 0 or more, not {queue!r}")
        if not cleanup > 0:
            raise ValueError(f"cleanup must be more than 0 seconds, not {cleanup!r}")
        if memory % PAGE or not 0 < memory <= MAX_MEMORY:
            raise ValueError(f"memory must be a multiple of {PAGE} up to {MAX_MEMORY}")
        if transport not in TRANSPORTS:
            raise ValueError(f"transport is one of {', '.join(TRANSPORTS)}, not {transport!r}")
        self.kind = "guest"
        self.n = n
        self.queue = queue
        self.cleanup = cleanup
        self.memory = memory
        self.transport: TransportName = transport
        self._manager: AbstractAsyncContextManager[trio.Nursery]
        self.nursery: trio.Nursery
        self.token: trio.lowlevel.TrioToken
        self._limits = admission or AdmissionLimits()
        self._admission: Admission | None = None
        self._slots: list[Slot] = []
        self._free: deque[Slot] = deque()
        self._waiting: OrderedDict[Activation, None] = OrderedDict()  # any may give up
        self._running: dict[Activation, Slot] = {}
        self._changed = trio.lowlevel.ParkingLot()  # where the end of the block waits
        self._is_open = False
        self._runs = self._kills = self._refused = self._fuel = self._calls = 0

    # --- the block

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> Self:
        if self._slots:
            raise ShuttingDown("this pool was used before: make a new CellPool")
        if self.transport == "lock-step":
            compiler, runtimes = _load(self.n, self.memory)
        else:
            compiler, runtimes = await run_in_thread(_load, self.n, self.memory)
        self._admission = Admission(compiler, self._limits, self.memory, self.transport)
        self.token = trio.lowlevel.current_trio_token()
        self._manager = trio.open_nursery()
        self.nursery = await self._manager.__aenter__()
        self._slots = [Slot(index, self, runtime) for index, runtime in enumerate(runtimes)]
        for slot in self._slots:
            slot.transport.open()
        self._free.extend(self._slots)
        self._is_open = True
        return self

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        closed = ShuttingDown("the pool closed before a cell was free")
        while self._waiting:
            self._turn_away(self._waiting.popitem(last=False)[0], closed)
        for slot in self._slots:
            slot.close()
        interrupts: list[KeyboardInterrupt | None] = []
        with trio.CancelScope(shield=True):
            interrupts.append(await _to_the_end(self._all_ended))  # by evidence, or by the cap
        for slot in self._slots:
            slot.transport.retire()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + self.cleanup):
            interrupts.append(await _to_the_end(self._threads_ended))
        # What is left are providers of quarantined cells. The body's error is not theirs, so it
        # is not handed to the nursery, which would wrap it in a group.
        self.nursery.cancel_scope.shield = True
        self.nursery.cancel_scope.cancel()
        await self._manager.__aexit__(None, None, None)
        for interrupt in filter(None, interrupts):
            raise interrupt

    async def _all_ended(self) -> None:
        while self._running:
            await self._changed.park()

    async def _threads_ended(self) -> None:
        for slot in self._slots:
            if slot.cell.returned:
                await slot.transport.ended.wait()

    # --- running

    @trio.lowlevel.enable_ki_protection
    async def run(
        self, guest: Guest, data: bytes, *, key: str = "", may_queue: bool = True
    ) -> bytes:
        """Run a guest once in a fresh instance, and return what it returns.

        Waits its turn for a cell. Cancelling ends the run, and returns once its cell is proven
        clean, or quarantined. The first decision stands: a result that was there before the
        cancel is returned.

        Args:
            guest: What to run.
            data: The request; opaque to everything but the guest.
            key: Names this run for its providers, see `ProviderContext`.
            may_queue: False refuses instead of waiting; for callers below a run that holds a
                cell, who would otherwise wait for themselves.

        Raises:
            GuestRefused: The module, or the input, is not admitted.
            CellsExhausted: No cell, and no place to wait for one.
            GuestTrapped: The guest trapped or broke a limit; `OutOfFuel` if it was that.
            GuestDeadline: It ran past the guest's ``deadline``.
            ShuttingDown: The pool is not open, or closed meanwhile.
            BaseException: What a provider raised, as itself.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        _require_bytes(guest, data)
        if len(data) > guest.limits.staged_bytes:
            raise GuestRefused(
                f"guest {guest.name!r}: the input has {len(data)} bytes, more than "
                f"{guest.limits.staged_bytes}: raise GuestLimits(staged_bytes=)",
                rule="staged_bytes",
                where="input",
            )
        self._require_open()
        assert self._admission is not None
        image = self._admission.known(guest)
        if image is None:
            image = await self._admission.admit(guest)
            self._require_open()
        activation = Activation(guest, image, bytes(data), key)
        self._enter(activation, may_queue)
        with activation.scope:
            return await activation.wait(lambda: self._cancel(activation))
        raise GuestDeadline(
            f"guest {guest.name!r} ran past its deadline of {guest.deadline} s and was stopped"
        )

    def _require_open(self) -> None:
        if not self._is_open:
            raise ShuttingDown("the pool is not open: use it inside `async with CellPool(n)`")

    def _enter(self, activation: Activation, may_queue: bool) -> None:
        if self._free:
            self._lease(self._free.popleft(), activation)
            return
        reason = None
        if not self._in_service():
            reason = "every cell is quarantined: look at pool.quarantined() and reconcile"
        elif not may_queue:
            reason = "no cell is free, and this call may not wait for one"
        elif len(self._waiting) >= self.queue:
            reason = f"no cell is free and {len(self._waiting)} callers wait already (queue=)"
        if reason is not None:
            self._refused += 1
            raise CellsExhausted(f"guest {activation.guest.name!r}: {reason}")
        self._waiting[activation] = None

    def _lease(self, slot: Slot, activation: Activation) -> None:
        self._runs += 1
        self._running[activation] = slot
        slot.lease(activation)

    def _cancel(self, activation: Activation) -> bool:
        slot = self._running.get(activation)
        if slot is None:
            del self._waiting[activation]
            return True
        slot.kill()
        return False

    def _turn_away(self, activation: Activation, error: Exception) -> None:
        activation.decide(outcome.Error(error))
        activation.finish()

    def _in_service(self) -> bool:
        return any(slot.cell.state is not CellState.QUARANTINED for slot in self._slots)

    # --- what slots tell

    def account(self, frame: Frame) -> None:
        """Add what a frame used to the totals. For slots."""
        self._fuel += frame.fuel
        self._calls += frame.calls

    def ended(self, slot: Slot) -> None:
        """Pass a cell on, or take it out of service. For slots."""
        for activation, holder in list(self._running.items()):
            if holder is slot:
                del self._running[activation]
        self._kills += slot.cell.killed
        if slot.cell.state is CellState.FREE:
            if self._waiting:
                self._lease(slot, self._waiting.popitem(last=False)[0])
            else:
                self._free.append(slot)
        elif not self._in_service():
            lost = CellsExhausted("the last cell in service was quarantined")
            while self._waiting:
                self._refused += 1
                self._turn_away(self._waiting.popitem(last=False)[0], lost)
        self._changed.unpark_all()

    # --- as a runner kind of a system

    def resolve(self, activity: Activity[..., Any], envelope: EffectEnvelope) -> GuestRunner | None:
        """Return a runner for one call of a guest; None for anything else, a routing fact."""
        return GuestRunner(self, activity, envelope) if isinstance(activity, Guest) else None

    def tree(self) -> TreeNode:
        """Return the cells as a part of the supervision tree."""
        counts = self.statistics()
        cells = tuple(
            TreeNode(
                f"cell {view.cell}",
                "cell",
                str(view.state),
                {"guest": view.guest} if view.guest else {},
            )
            for view in self.cells()
        )
        details = {"runs": counts.runs, "free": counts.free, "waiting": counts.waiting}
        return TreeNode("cells", "pool", "running" if self._is_open else "closed", details, cells)

    # --- looking, and mending

    def statistics(self) -> PoolStatistics:
        """Return the counts of this moment."""
        cells = [slot.cell for slot in self._slots]
        quarantined = sum(cell.state is CellState.QUARANTINED for cell in cells)
        admission = self._admission
        return PoolStatistics(
            cells=self.n,
            free=len(self._free) if self._slots else self.n,
            leased=len(self._running),
            quarantined=quarantined,
            waiting=len(self._waiting),
            operations=sum(cell.operations for cell in cells),
            staged_bytes=sum(cell.staged for cell in cells),
            compiled=admission.compiled if admission else 0,
            compiled_bytes=admission.compiled_bytes if admission else 0,
            runs=self._runs,
            kills=self._kills,
            refused=self._refused,
            stale=sum(cell.stale for cell in cells),
            fuel=self._fuel,
            calls=self._calls,
        )

    def cells(self) -> tuple[CellView, ...]:
        """Return every cell as it is now."""
        return tuple(slot.view() for slot in self._slots)

    def quarantined(self) -> tuple[Quarantine, ...]:
        """Return the cells out of service, and why."""
        found = (slot.quarantine() for slot in self._slots)
        return tuple(each for each in found if each is not None)

    async def reconcile(self, cell: int) -> tuple[str, ...]:
        """Return a quarantined cell to service if all five proofs are there by now.

        Returns:
            What is still missing; empty means the cell is back.

        Raises:
            LeaseError: That cell is not quarantined (kind ``not_quarantined``).
        """
        await trio.lowlevel.checkpoint()
        slot = self._slots[cell] if 0 <= cell < len(self._slots) else None
        if slot is None or slot.cell.state is not CellState.QUARANTINED:
            raise LeaseError(f"cell {cell} is not quarantined", kind="not_quarantined")
        missing = slot.cell.missing()
        slot.reconcile()
        return missing


async def _to_the_end(wait: Callable[[], Awaitable[None]]) -> KeyboardInterrupt | None:
    """Wait, whatever Ctrl-C says meanwhile: raised here, it would leave the nursery open."""
    seen: KeyboardInterrupt | None = None
    while True:
        try:
            await wait()
        except KeyboardInterrupt as interrupt:
            seen = interrupt
        else:
            return seen


def _load(n: int, memory: int) -> tuple[Compiler, list[Runtime]]:
    # Importing wasmtime and making engines takes a tenth of a second: not on the loop.
    from ._wasm import Compiler, Runtime

    return Compiler(memory), [Runtime(memory) for _ in range(n)]


def _require_bytes(guest: Guest, data: object) -> None:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(
            f"guest {guest.name!r} takes bytes, not {type(data).__name__}; encode it first"
        )
