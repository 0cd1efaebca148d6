"""Compile a large module in a process of its own, which can be killed.

A compilation cannot be interrupted, and a module within every size cap can still take it half a
minute (measured: 90 kB, 2,000 locals, 5,000 loops: 14 s, where validating takes a millisecond).
Small modules are not worth a process; what bounds those is their size.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import trio

from ..errors import GuestRefused
from ._limits import AdmissionLimits
from ._sections import refuse

if TYPE_CHECKING:
    from ._wasm import Image, Shape

IN_THREAD_BYTES: Final = 16 << 10
"""Up to this size the worst module found compiles in half a second, in a worker thread."""

_BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from trouper.cells._compile import main; main()"
)


async def compile_apart(
    digest: bytes, binary: bytes, memory: int, limits: AdmissionLimits
) -> tuple[Image, Shape]:
    """Compile in a process. Cancelling kills it.

    Raises:
        GuestRefused: As from `Compiler.compile`; or the process died (rule ``compile_memory``).
    """
    from ._wasm import Image, Shape

    settings = {
        "memory": memory,
        "compile_memory": limits.compile_memory,
        "cpu": int(limits.compile_seconds) + 1,
        "digest": digest.hex(),
    }
    done = await trio.run_process(
        [sys.executable, "-c", _BOOT, json.dumps(sys.path), json.dumps(settings)],
        stdin=binary,
        capture_stdout=True,
        stderr=subprocess.DEVNULL,
        check=False,
        deliver_cancel=_kill,
    )
    if done.returncode != 0:
        refuse(
            "compile_memory",
            "module",
            f"the compiler died of it (status {done.returncode}), most likely by needing more "
            f"than {limits.compile_memory} bytes (compile_memory)",
        )
    head, _, native = done.stdout.partition(b"\n")
    told = json.loads(head)
    if "refused" in told:
        raise GuestRefused(told["refused"], rule=told["rule"], where=told["where"])
    functions = {
        name: (tuple(params), tuple(results))
        for name, (params, results) in told["functions"].items()
    }
    # Native code is loaded only from this process and from the one it started just now.
    return Image(digest, native), Shape(functions, told["memory"])


async def _kill(process: trio.Process) -> None:
    process.kill()


def main() -> None:
    """Be the process: read a module, write one line of JSON and the compiled code."""
    settings = json.loads(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (settings["cpu"], settings["cpu"]))
    resource.setrlimit(resource.RLIMIT_DATA, (settings["compile_memory"],) * 2)
    from ._wasm import Compiler

    binary = sys.stdin.buffer.read()
    native = b""
    try:
        compiler = Compiler(settings["memory"])
        image, shape = compiler.compile(bytes.fromhex(settings["digest"]), binary)
        native = image.native
        told: dict[str, Any] = {"functions": shape.functions, "memory": shape.memory}
    except GuestRefused as refused:
        told = {"refused": str(refused), "rule": refused.rule, "where": refused.where}
    sys.stdout.buffer.write(json.dumps(told).encode() + b"\n" + native)
