"""The description of a guest: what is run, under which name, with which imports and limits."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, MappingProxyType
from typing import Any, ClassVar, Final, NoReturn, final

from ..actors.groups import Activity, source_of
from ..errors import GuestRefused
from ._limits import GuestLimits

NAME_BYTES: Final = 64
"""The longest name an import can have: the guest passes it with every call."""


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """What a provider may know about the call it serves.

    Attributes:
        key: The key of the run, as given to ``pool.run``. A run that is repeated has it again.
        guest: The durable name of the guest.
        ordinal: How many provider calls this run had made before, so that ``f"{key}/{ordinal}"``
            names this call in every repetition of the run.
    """

    key: str
    guest: str
    ordinal: int


Provider = (
    Callable[[bytes], bytes]
    | Callable[[bytes], Awaitable[bytes]]
    | Callable[[bytes, ProviderContext], bytes]
    | Callable[[bytes, ProviderContext], Awaitable[bytes]]
)
"""Takes the request, and optionally a `ProviderContext`; returns the response.

An ``async def`` runs on the event loop in a nursery of the pool. A plain ``def`` runs in a worker
thread, since it may block.
"""


@dataclass(frozen=True, slots=True)
class Import:
    """One provider with what its signature says, looked at once."""

    call: Callable[..., Any]
    is_async: bool
    wants_context: bool


def _import(name: str, provider: Callable[..., Any]) -> Import:
    encoded = name.encode()
    if not name or len(encoded) > NAME_BYTES or not name.isprintable():
        raise ValueError(f"import name {name!r} must be 1 to {NAME_BYTES} printable bytes")
    if not callable(provider):
        raise TypeError(f"import {name!r} must be a function, not {type(provider).__name__}")
    is_async = inspect.iscoroutinefunction(provider) or inspect.iscoroutinefunction(
        getattr(provider, "__call__", None)  # noqa: B004 - an object whose __call__ is async
    )
    positional = [
        parameter
        for parameter in inspect.signature(provider).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    if len(positional) not in (1, 2):
        raise TypeError(
            f"import {name!r} must take the request bytes, and optionally a ProviderContext; "
            f"it takes {len(positional)} arguments"
        )
    return Import(provider, is_async, len(positional) == 2)


@final
class Guest(Activity[[bytes], bytes]):
    """A WebAssembly module described as something that can be run. Made by `guest`.

    It takes one ``bytes`` and returns ``bytes``. Describing costs nothing: no cell, thread, Store
    or file is touched before the first run, and what was read then is what the name means for
    the life of the process.
    """

    kind: ClassVar[str] = "guest"
    parameters: ClassVar[tuple[type, ...]] = (bytes,)
    returns: ClassVar[type] = bytes
    _signature = inspect.Signature([inspect.Parameter("data", inspect.Parameter.POSITIONAL_ONLY)])

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes,
        export: str,
        imports: Mapping[str, Import],
        limits: GuestLimits,
        name: str,
        deadline: float | None,
        is_local: bool,
    ) -> None:
        self._binary = source if isinstance(source, bytes) else None
        self.path = None if isinstance(source, bytes) else Path(source)
        self.export = export
        self.imports = MappingProxyType(dict(imports))
        self.limits = limits
        self.name = name
        if not is_local:
            self._become_known()
        self.deadline = deadline
        self.digest = b""

    def source(self) -> object:
        """Return what it is made of: module, export, providers, limits. Reads no file."""
        if self.path is not None:
            module: object = os.path.abspath(self.path)
        else:
            assert self._binary is not None
            module = hashlib.sha256(self._binary).digest()
        providers = tuple(sorted((name, source_of(i.call)) for name, i in self.imports.items()))
        return module, self.export, providers, self.limits, self.deadline

    def __repr__(self) -> str:
        return f"<guest {self.name}>"

    async def __call__(self, data: bytes, /) -> bytes:
        """Refuse: a guest runs where a cell is, not where it is called.

        The signature is here so that a guest type-checks wherever an activity is taken.
        """
        self._not_callable()

    def _not_callable(self) -> NoReturn:
        raise TypeError(
            f"guest {self.name!r} does not run by being called: "
            "use `await pool.run(guest, data)` or give it to a system"
        )

    def binary(self, most: int) -> bytes:
        """Read the module, once. Blocks on the disk: not for the event loop.

        Raises:
            GuestRefused: The file cannot be read, or is larger than ``most`` bytes.
        """
        if self._binary is None:
            assert self.path is not None
            try:
                with self.path.open("rb") as file:
                    # One byte more than allowed is enough to know, and bounds what is read.
                    self._binary = file.read(most + 1)
            except OSError as error:
                reason = error.strerror or type(error).__name__
                raise GuestRefused(
                    f"guest {self.name!r}: cannot read {self.path}: {reason}",
                    rule="readable",
                    where=str(self.path),
                ) from error
        if not self.digest:
            self.digest = hashlib.sha256(self._binary).digest()
        return self._binary


def guest(
    source: str | os.PathLike[str] | bytes | bytearray,
    *,
    export: str = "run",
    imports: Mapping[str, Provider] | None = None,
    limits: GuestLimits | None = None,
    name: str | None = None,
    deadline: float | None = None,
) -> Guest:
    """Describe a guest: a core WebAssembly module that follows ``docs/guest-abi.md``.

    Like functions, guests described at the top of a module are known to every system by being
    imported, and those described inside a function only to systems that list them.

    Args:
        source: The path of a ``.wasm`` file, or the module itself as bytes.
        export: The function to run.
        imports: The providers it may call, by name. See `Provider`.
        limits: What one run may use.
        name: Its durable name. The stem of the file unless given; bytes have no stem, so they
            need one.
        deadline: Seconds one run may take once it has a cell, or None. Running past it raises
            `GuestDeadline`.

    Raises:
        TypeError: A provider is not a function of one or two arguments.
        ValueError: A name or a limit is outside its range, or a module in bytes has no name.
    """
    if isinstance(source, bytearray):  # what wasmtime.wat2wasm gives
        source = bytes(source)
    if name is None:
        if isinstance(source, bytes):
            raise ValueError("a guest given as bytes needs name=: it is how a journal knows it")
        name = Path(source).stem
    if not name or not name.isprintable():
        raise ValueError(f"guest name {name!r} must be printable and not empty")
    if deadline is not None and not deadline > 0:
        raise ValueError(f"guest {name!r}: deadline must be more than 0 seconds, not {deadline!r}")
    known = {key: _import(key, provider) for key, provider in (imports or {}).items()}
    here = inspect.currentframe()
    is_local = here is None or here.f_back is None or _is_in_function(here.f_back.f_code)
    return Guest(source, export, known, limits or GuestLimits(), name, deadline, is_local)


def _is_in_function(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_OPTIMIZED) or "<locals>" in code.co_qualname
