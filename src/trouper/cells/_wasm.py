"""The only module that imports wasmtime, and itself imported only when a pool opens.

What wasmtime-py does to a process that misuses it is measured in the research (section 5): a
Store closed or used by two threads, a FuncType shared by two engines, a memory read through a
guest's pointer, an unclosed Store with closures. So here: one engine, linker and set of types per
cell; a Store is made, used and closed in one frame of that cell's thread; pointers never arrive
unchecked (`_shim`); and nothing leaves but bytes, numbers and text.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import wasmtime
from wasmtime import FuncType, Store, Val, ValType

from ..errors import GuestRefused
from ._limits import PAGE, GuestLimits
from ._shim import Halt, Shim, checked_range, printable

WASM_STACK: Final = 256 << 10
"""A quarter of what a thread's stack holds: guest recursion must trap, not fault."""

PRE_CACHE: Final = 16
"""Instantiable modules kept per cell."""

TEXT: Final = 400
"""Characters of wasmtime's text that are kept: it carries names the guest chose."""

IMPORTS: Final = {
    "provider_call": (("i32",) * 6, ("i64",)),
    "provider_take": (("i32",) * 2, ("i64",)),
    "log": (("i32",) * 2, ()),
}
ENTRY: Final = (("i32", "i32"), ("i64",))
ALLOC: Final = (("i32",), ("i32",))


@dataclass(frozen=True, slots=True)
class Image:
    """An admitted module as compiled for the engines of this process. Never leaves it."""

    digest: bytes
    native: bytes


@dataclass(frozen=True, slots=True)
class Job:
    """One run, as the cell's thread gets it."""

    generation: int
    image: Image
    export: str
    data: bytes
    limits: GuestLimits
    shim: Shim


@dataclass(frozen=True, slots=True)
class Frame:
    """What is left of a run when its frame has returned: bytes, numbers and text."""

    output: bytes | None
    trap: tuple[str, str] | None  # its kind, or that of the rule the shim saw broken; details
    fuel: int
    calls: int
    logs: tuple[str, ...]
    store_dead: bool
    unexpected: str | None


def make_engine(memory: int) -> wasmtime.Engine:
    """Make an engine with everything off that a guest does not need."""
    config = wasmtime.Config()
    config.consume_fuel = True
    config.epoch_interruption = True
    config.max_wasm_stack = WASM_STACK
    config.memory_reservation = memory
    config.parallel_compilation = False
    config.cranelift_nan_canonicalization = True  # a repeated run must not differ by a NaN's bits
    config.gc_support = False
    config.shared_memory = False
    config.wasm_threads = False
    config.wasm_memory64 = False
    config.wasm_multi_memory = False
    config.wasm_gc = False
    config.wasm_function_references = False
    config.wasm_exceptions = False
    config.wasm_tail_call = False
    config.wasm_relaxed_simd = False
    config.wasm_stack_switching = False
    config.wasm_component_model = False
    config.wasm_custom_page_sizes = False
    config.wasm_wide_arithmetic = False
    return wasmtime.Engine(config)


class Compiler:
    """Validates, compiles and checks modules, on whatever one thread calls it at a time."""

    def __init__(self, memory: int) -> None:
        self._engine = make_engine(memory)

    def compile(self, digest: bytes, binary: bytes) -> tuple[Image, Shape]:
        """Compile a module whose sizes were checked.

        Raises:
            GuestRefused: It is not valid here, or imports something that a guest cannot have.
        """
        try:
            wasmtime.Module.validate(self._engine, binary)
            module = wasmtime.Module(self._engine, binary)
        except wasmtime.WasmtimeError as error:
            text = printable(str(error), TEXT)
            raise GuestRefused(
                f"the module is not valid: {text}", rule="valid", where=text
            ) from None
        try:
            _check_imports(module)
            return Image(digest, bytes(module.serialize())), _shape(module)
        finally:
            module.close()


@dataclass(frozen=True, slots=True)
class Shape:
    """The exports of a module as plain data, and the pages its memory starts with."""

    functions: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
    memory: int | None

    def check(self, export: str, limits: GuestLimits) -> None:
        """Refuse a module that lacks what the ABI asks of it, or cannot fit its limits.

        Raises:
            GuestRefused: Naming the export and what it should be.
        """
        if self.memory is None:
            raise _refused("export", "memory", "does not export a memory named 'memory'")
        for name, signature in ((export, ENTRY), ("alloc", ALLOC)):
            if self.functions.get(name) != signature:
                raise _refused(
                    "export", name, f"must export a function {name!r} {_arrow(signature)}"
                )
        if self.memory * PAGE > limits.memory:
            raise _refused(
                "memory",
                "memory",
                f"starts with {self.memory * PAGE} bytes of memory where its limit is "
                f"{limits.memory}; raise GuestLimits(memory=) or build it smaller",
            )


def _refused(rule: str, where: str, text: str) -> GuestRefused:
    return GuestRefused(f"the module {text}", rule=rule, where=printable(where, TEXT))


def _arrow(signature: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
    params, results = signature
    return f"({', '.join(params)}) -> ({', '.join(results)})"


def _signature(kind: FuncType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(str(each) for each in kind.params), tuple(str(each) for each in kind.results)


def _check_imports(module: wasmtime.Module) -> None:
    for wanted in module.imports:
        label = f"{wanted.module}.{wanted.name}"
        expected = IMPORTS.get(wanted.name or "") if wanted.module == "trouper" else None
        kind = wanted.type
        if expected is None:
            shown = printable(label, TEXT)
            raise _refused("import", label, f"imports {shown}, which no guest is given")
        if not isinstance(kind, FuncType) or _signature(kind) != expected:
            raise _refused("import", label, f"must import {label} as {_arrow(expected)}")


def _shape(module: wasmtime.Module) -> Shape:
    functions: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    memory: int | None = None
    for export in module.exports:
        kind = export.type
        if isinstance(kind, FuncType):
            functions[export.name] = _signature(kind)
        elif isinstance(kind, wasmtime.MemoryType) and export.name == "memory":
            memory = kind.limits.min
    return Shape(functions, memory)


class Witness:
    """Lives in a Store; dead is the proof that wasmtime dropped that Store."""

    __slots__ = ("__weakref__",)


class Port:
    """`_shim.GuestPort` over one Store and its memory.

    Reads and writes go to the bare pointer, so only ranges from `checked_range` may come here.
    ``Memory.read`` and ``write`` would take Python slices, and copy everything twice.
    """

    __slots__ = ("_memory", "_store")

    def __init__(self, store: Store, memory: wasmtime.Memory) -> None:
        self._store = store
        self._memory = memory

    def size(self) -> int:
        return self._memory.data_len(self._store)

    def _base(self) -> int:
        return ctypes.addressof(self._memory.data_ptr(self._store).contents)

    def read(self, start: int, length: int) -> bytes:
        return ctypes.string_at(self._base() + start, length) if length else b""

    def write(self, start: int, data: bytes) -> None:
        if data:
            ctypes.memmove(self._base() + start, data, len(data))

    def fuel(self) -> int:
        return self._store.get_fuel()

    def set_fuel(self, fuel: int) -> None:
        self._store.set_fuel(fuel)


class Runtime:
    """The engine of one cell and all that belongs to it. Everything but `bump` is its thread's."""

    def __init__(self, memory: int) -> None:
        self._engine = make_engine(memory)
        self._linker = wasmtime.Linker(self._engine)
        self._pres: OrderedDict[bytes, wasmtime.InstancePre] = OrderedDict()
        self._shim: Shim | None = None
        self._define("provider_call", self._host(Shim.provider_call))
        self._define("provider_take", self._host(Shim.provider_take))
        self._define("log", self._host(Shim.log))

    def _define(self, name: str, function: Callable[..., Any]) -> None:
        # A FuncType that meets a second engine aborts the process, so each cell makes its own.
        make = {"i32": ValType.i32, "i64": ValType.i64}
        params, results = IMPORTS[name]
        kind = FuncType([make[each]() for each in params], [make[each]() for each in results])
        self._linker.define_func("trouper", name, kind, function)

    def _host(self, method: Callable[..., int | None]) -> Callable[..., Val | None]:
        failed = None if method is Shim.log else Val.i64(-1)

        def call(*numbers: int) -> Val | None:
            shim = self._shim
            assert shim is not None
            try:
                result = method(shim, *numbers)
                # As a Val: to find out what a bare int should become takes wasmtime-py 15 us.
                return None if result is None else Val.i64(result)
            except Halt as stop:
                shim.halt(stop.kind, stop.detail)
            except BaseException as error:
                shim.fail(error)
            return failed

        return call

    def bump(self) -> None:
        """End what runs in this engine, from any thread."""
        self._engine.increment_epoch()

    def close(self) -> None:
        """Free everything, on the cell's thread, with no Store alive."""
        for pre in self._pres.values():
            pre.close()
        self._pres.clear()
        self._linker.close()

    def _pre(self, image: Image) -> wasmtime.InstancePre:
        pre = self._pres.get(image.digest)
        if pre is None:
            # Only ever bytes that this process compiled: deserialising is loading native code.
            with wasmtime.Module.deserialize(self._engine, image.native) as module:
                pre = self._linker.instantiate_pre(module)
            self._pres[image.digest] = pre
            if len(self._pres) > PRE_CACHE:
                self._pres.popitem(last=False)[1].close()
        else:
            self._pres.move_to_end(image.digest)
        return pre

    def run(self, job: Job) -> Frame:
        """Run one job from Store to no Store. Never raises."""
        shim = job.shim
        output: bytes | None = None
        trap: tuple[str, str] | None = None
        fuel = 0
        witness = Witness()
        dead = weakref.ref(witness)
        store = Store(self._engine, witness)
        del witness
        self._shim = shim
        try:
            try:
                output = self._enter(store, job)
            finally:
                left = store.get_fuel() if shim.fuel_left is None else shim.fuel_left
                fuel = job.limits.fuel - left
        except Halt as stop:
            shim.halt(stop.kind, stop.detail)
        except wasmtime.Trap as error:
            code = error.trap_code
            kind = code.name.lower() if code is not None else "trap"
            trap = kind, printable(error.message, TEXT)
        except wasmtime.WasmtimeError as error:
            trap = "instantiate", printable(str(error), TEXT)
        except BaseException as error:
            shim.fail(error)
        finally:
            shim.port = None
            self._shim = None
            try:
                store.close()
            except BaseException as error:
                shim.fail(error)
        if shim.kind is not None:
            # The record decides: a guest that was halted may still have returned, or trapped.
            output, trap = None, (shim.kind, shim.detail)
        return Frame(
            output=output,
            trap=trap,
            fuel=fuel,
            calls=shim.calls,
            logs=tuple(shim.logs),
            store_dead=dead() is None,
            unexpected=shim.unexpected,
        )

    def _enter(self, store: Store, job: Job) -> bytes:
        limits, shim = job.limits, job.shim
        store.set_limits(
            memory_size=limits.memory,
            table_elements=limits.table_elements,
            instances=1,
            tables=1,
            memories=1,
        )
        store.set_fuel(limits.fuel)
        # Before instantiating, since a start function runs there; and before the flag is read,
        # since who kills sets the flag and bumps then: one of the two is always seen.
        store.set_epoch_deadline(1)
        if shim.bridge.dying:
            raise Halt("killed")
        exports = self._pre(job.image).instantiate(store).exports(store)
        memory, alloc, entry = exports["memory"], exports["alloc"], exports[job.export]
        assert isinstance(memory, wasmtime.Memory)
        assert isinstance(alloc, wasmtime.Func)
        assert isinstance(entry, wasmtime.Func)
        port = shim.port = Port(store, memory)
        length = len(job.data)
        start = 0
        if length:
            pointer: int = alloc(store, Val.i32(length))
            start, _ = checked_range(pointer, length, port.size(), limits.staged_bytes)
            port.write(start, job.data)
        packed: int = entry(store, Val.i32(_signed(start)), Val.i32(length))
        start, length = checked_range(packed >> 32, packed, port.size(), limits.staged_bytes)
        return port.read(start, length)


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number
