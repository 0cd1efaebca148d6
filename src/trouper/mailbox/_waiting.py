"""Waiting in a line of tasks: the one who has news reschedules them and clears the line."""

from __future__ import annotations

from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, wait_task_rescheduled


async def wait_in(waiters: dict[Task, None]) -> None:
    """Stand in ``waiters`` until somebody reschedules this task; leave it when cancelled."""
    task = current_task()
    waiters[task] = None  # a dict: a crowd that is cancelled leaves it in any order

    def abort(_: RaiseCancelT) -> Abort:
        del waiters[task]
        return Abort.SUCCEEDED

    await wait_task_rescheduled(abort)
