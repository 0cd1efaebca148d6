"""The ready queue of a schedule: what the gate lets through runs, if there is anybody to run it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trouper.testing.schedules._engine import GatedReady


def ready_of(**dispatcher: Any) -> tuple[GatedReady, SimpleNamespace, list[str]]:
    woken: list[str] = []
    gate = SimpleNamespace(is_served=False)
    ready = GatedReady(gate)  # type: ignore[arg-type]
    ready.dispatcher = SimpleNamespace(  # type: ignore[assignment]
        owned=False, wake=lambda: woken.append("worker"), **dispatcher
    )
    return ready, gate, woken


@pytest.mark.parametrize("parked", [True, False])
def test_what_is_let_through_is_for_a_worker(parked: bool) -> None:
    ready, gate, woken = ready_of(closed=False, parked=parked)
    ready.release("a pass")
    assert (len(ready), gate.is_served, woken) == (1, True, ["worker"] * parked)


def test_what_is_let_through_when_no_worker_is_left_holds_nothing_up() -> None:
    """A pass of a system that crashed while a job of it waits for another one's end.

    The driver stopped for it, and nobody took it: the exploration hung.
    """
    ready, gate, woken = ready_of(closed=True, parked=False)
    ready.release("a pass")
    assert (len(ready), gate.is_served, woken) == (0, False, [])
