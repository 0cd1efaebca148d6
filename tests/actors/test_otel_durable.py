"""OpenTelemetry and durable actors: a turn is a decision, and what it tells is sent in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from trouper import Actor, Decision, DurableActor, Reject, Request, Tell, applies, decides, handles
from trouper.actors import OpenTelemetry, Ref, open_system
from trouper.errors import ActorCrashed
from trouper.store import record

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

pytestmark = pytest.mark.proves("Interop: OpenTelemetry")


@record("test.otel.sum", version=1)
@dataclass(frozen=True, slots=True)
class Sum:
    n: int


@record("test.otel.added", version=1)
@dataclass(frozen=True, slots=True)
class Added:
    n: int


@dataclass(frozen=True, slots=True)
class Add(Request[int]):
    n: int
    to: Ref[Any] | None = None


class Till(DurableActor[Sum], name="test.otel.till"):
    initial = Sum(0)

    @decides(Add)
    def add(self, state: Sum, message: Add) -> Decision[Added, int] | Reject:
        if message.n < 0:
            return Reject("not less than nothing")
        if message.n == 0:
            raise ValueError("a bug")
        tells = [] if message.to is None else [Tell(message.to, message.n)]
        return Decision([Added(message.n)], reply=state.n + message.n, tells=tells)

    @applies(Added)
    def added(self, state: Sum, record: Added) -> Sum:
        return Sum(state.n + record.n)


class Printer(Actor[int]):
    @handles(int)
    def show(self, message: int) -> None: ...


async def test_a_decision_is_a_turn_and_its_tells_are_sent_inside_it() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    async with open_system("s", instruments=[OpenTelemetry(provider)]) as system:
        till = await system.actor(Till, "a")
        printer = await system.spawn(Printer)
        for caller in ("one", "two"):
            with tracer.start_as_current_span(caller):
                till.tell(Add(1, printer))
        with tracer.start_as_current_span("three"):
            assert await till.ask(Add(1)) == 3
        for n in (-1, 0):
            with tracer.start_as_current_span(str(n)), pytest.raises((Reject, ActorCrashed)):
                await till.ask(Add(n))
        assert await till.ask(Add(1)) == 4
        await wait_all_tasks_blocked()
    spans = {span.context.span_id: span for span in exporter.get_finished_spans() if span.context}
    ways: list[list[str]] = []
    for span in spans.values():
        way = [span.name]
        while span.parent is not None:
            span = spans[span.parent.span_id]
            way.append(span.name)
        ways.append(way)
    for caller in ("one", "two"):
        printed = ["process Printer", "tell Printer", "process Till", "tell Till", caller]
        assert ways.count(printed) == 1
    turns = [span for span in spans.values() if span.name == "process Till"]
    facts = [span.attributes or {} for span in turns]
    outcomes = [fact["trouper.outcome"] for fact in facts]
    assert outcomes == ["done", "done", "done", "rejected", "failed", "done"]
    assert {fact["messaging.destination.name"] for fact in facts} == {"/s/Till#a"}
