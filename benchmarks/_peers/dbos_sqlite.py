"""DBOS on SQLite: workflows, async steps, and the handle that settles first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dbos import DBOS, DBOSConfig

from .disk import Marked, Sample, place

POLL = 0.002  # seconds between looks of `wait_first`; the default is a second


@DBOS.step()
async def step(number: int) -> int:
    return number


@DBOS.workflow()
async def in_a_row(steps: int) -> int:
    total = 0
    for number in range(steps):
        total += await step(number)
    return total


@DBOS.workflow()
async def together(steps: int) -> int:
    values: list[int] = await asyncio.gather(*[step(number) for number in range(steps)])
    return sum(values)


@DBOS.workflow()
async def child(number: int) -> int:
    return int(await step(number))


@DBOS.workflow()
async def first(steps: int) -> int:
    handles = [await DBOS.start_workflow_async(child, number) for number in range(steps)]
    winner = await DBOS.wait_first_async(handles, polling_interval_sec=POLL)
    return int(await winner.get_result())


@DBOS.workflow()
async def in_order(steps: int) -> int:
    """Consume children as they settle: what a ranked group does."""
    total = 0
    handles = [await DBOS.start_workflow_async(child, number) for number in range(steps)]
    while handles:
        winner = await DBOS.wait_first_async(handles, polling_interval_sec=POLL)
        total += await winner.get_result()
        handles = [handle for handle in handles if handle.workflow_id != winner.workflow_id]
    return total


def bench(
    flow: Callable[[int], Awaitable[int]], *, is_one: bool = False
) -> Callable[[int, int], Sample]:
    """Time so many runs of a workflow, or the steps of a single one."""

    async def measure(ops: int, steps: int) -> Sample:
        await flow(5)
        with Marked() as watch:
            if is_one:
                await flow(ops)
            else:
                for _ in range(ops):
                    await flow(steps)
        return watch.sample(ops)

    def run(ops: int, steps: int) -> Sample:
        with place() as where:
            config: DBOSConfig = {
                "name": "bench",
                "system_database_url": f"sqlite:///{where / 'dbos.sqlite'}",
                "run_admin_server": False,
                "log_level": "ERROR",
            }
            DBOS(config=config)
            DBOS.launch()
            try:
                return asyncio.run(measure(ops, steps))
            finally:
                DBOS.destroy()

    return run


BENCHES: dict[str, Any] = {
    "steps": bench(in_a_row, is_one=True),
    "together": bench(together),
    "first": bench(first),
    "in-order": bench(in_order),
}
