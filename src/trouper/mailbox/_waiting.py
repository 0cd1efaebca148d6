"""Waiting in a list of tasks: the one who has news reschedules them and clears the list."""

from __future__ import annotations

from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, wait_task_rescheduled


async def wait_in(waiters: list[Task]) -> None:
    """Stand in ``waiters`` until somebody reschedules this task; leave it when cancelled."""
    task = current_task()
    waiters.append(task)

    def abort(_: RaiseCancelT) -> Abort:
        waiters.remove(task)
        return Abort.SUCCEEDED

    await wait_task_rescheduled(abort)
