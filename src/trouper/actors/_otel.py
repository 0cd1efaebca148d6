"""OpenTelemetry spans for messages: the door to that API, which is an extra.

Names follow OpenTelemetry's conventions for messaging: a *producer* span for the call of the
sender, a *consumer* span for each turn. The turn's span is a child of the sender's, and linked to
it: one turn has one message, for which the conventions allow the parent and always want the link.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, final

import trio

from .._version import __version__
from ..errors import ExtraMissing, Reject
from ._instruments import How, Outcome

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from ._local import LocalRef
    from ._ref import Ref

SYSTEM: Final = "trouper"


class TracerSource(Protocol):
    """What makes tracers: an OpenTelemetry ``TracerProvider``."""

    def get_tracer(self, name: str, version: str | None = None, /) -> Any:
        """Return the tracer of a library."""
        ...


@final
class OpenTelemetry:
    """An instrument that makes a span of every call that sends a message, and of every turn.

    ``open_system("shop", instruments=[OpenTelemetry()])``. What a handler does is done inside the
    span of its turn, so what it sends and what other libraries trace there are in one trace with
    whoever sent the message; baggage travels along. Messages themselves are never recorded, only
    their types.

    Args:
        provider: Makes the tracer; OpenTelemetry's global provider by default.

    Raises:
        ExtraMissing: The ``otel`` extra is not installed.
    """

    def __init__(self, provider: TracerSource | None = None) -> None:
        try:
            self._trace = importlib.import_module("opentelemetry.trace")
            self._context = importlib.import_module("opentelemetry.context")
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != "opentelemetry":
                raise
            raise ExtraMissing(
                "OpenTelemetry() needs its API: pip install 'trouper[otel]'",
                name="opentelemetry",
                extra="otel",
            ) from None
        source = provider if provider is not None else cast(TracerSource, self._trace)
        self._tracer: Tracer = source.get_tracer(SYSTEM, __version__)

    def sending(self, how: How, target: Ref[Any], message: object) -> SpanJourney:
        """Begin the span of the sender's call."""
        return SpanJourney(self, how, target, message)

    def begin(
        self, name: str, kind: str, attributes: dict[str, Any], context: Context | None, link: Any
    ) -> Span:
        """Begin a span; called by the journeys."""
        api = self._trace
        links = None if link is None else [api.Link(link)]
        span: Span = self._tracer.start_span(
            name, context, kind=api.SpanKind[kind], attributes=attributes, links=links
        )
        return span

    def within(self, span: Span | None, context: Context | None = None) -> Context:
        """Return the present context, or that one, with another current span, or with none."""
        api = self._trace
        inside: Context = api.set_span_in_context(span or api.INVALID_SPAN, context)
        return inside

    def enter(self, context: Context) -> Token[Context]:
        """Make a context the present one of this task."""
        token: Token[Context] = self._context.attach(context)
        return token

    def leave(self, token: Token[Context]) -> None:
        """Take the context back that was there before."""
        self._context.detach(token)

    def close(self, span: Span, outcome: str, error: BaseException | None, text: str = "") -> None:
        """End a span, saying how it went."""
        span.set_attribute("trouper.outcome", outcome)
        if error is not None:
            kind = type(error)
            span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}")
            span.record_exception(error)
        if outcome not in ("done", "stashed"):
            status = self._trace.Status(self._trace.StatusCode.ERROR, text or f"{outcome}: {error}")
            span.set_status(status)
        span.end()


@final
class SpanJourney:
    """A message and the span of the call that sent it."""

    __slots__ = ("_attributes", "_context", "_how", "_kind", "_otel", "_span", "_turns")

    def __init__(self, otel: OpenTelemetry, how: How, target: Ref[Any], message: object) -> None:
        self._otel = otel
        self._how = how
        self._kind = _kind(target)
        self._turns = 0
        self._attributes = {
            "messaging.system": SYSTEM,
            "messaging.destination.name": target.path,
            "messaging.destination.template": self._kind,
            "trouper.message.type": type(message).__qualname__,
        }
        attributes = self._attributes | {
            "messaging.operation.name": how,
            "messaging.operation.type": "send",
        }
        self._span = otel.begin(f"{how} {self._kind}", "PRODUCER", attributes, None, None)
        self._context = otel.within(self._span)

    def sent(self, error: BaseException | None) -> None:
        """End the span of the call."""
        self._otel.close(self._span, _how_sent(error), error)

    def turn(self, target: Ref[Any]) -> SpanTurn:
        """Begin the span of a turn, and make it the current one of this task."""
        self._turns += 1
        otel, context = self._otel, self._context
        if self._how == "every":  # each tick has a trace of its own, or one would never end
            context = otel.within(None, context)
        attributes = self._attributes | {
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "trouper.actor.incarnation": target.incarnation,
            "trouper.delivery": self._turns,
        }
        name, link = f"process {self._kind}", self._span.get_span_context()
        span = otel.begin(name, "CONSUMER", attributes, context, link)
        return SpanTurn(otel, span, otel.enter(otel.within(span, context)))

    def lost(self, reason: str) -> None:
        """Leave a span that says where the message ended."""
        attributes = self._attributes | {
            "messaging.operation.name": "drop",
            "trouper.reason": reason,
        }
        link = self._span.get_span_context()
        span = self._otel.begin(f"drop {self._kind}", "CONSUMER", attributes, self._context, link)
        self._otel.close(span, "lost", None, f"dead letter: {reason}")


@final
class SpanTurn:
    """A turn and its span."""

    __slots__ = ("_otel", "_span", "_token")

    def __init__(self, otel: OpenTelemetry, span: Span, token: Token[Context]) -> None:
        self._otel = otel
        self._span = span
        self._token = token

    def leave(self) -> None:
        """Take back what was the current span of this task before."""
        self._otel.leave(self._token)

    def over(self, outcome: Outcome, error: BaseException | None) -> None:
        """End the span."""
        self._otel.close(self._span, outcome, error)


def _how_sent(error: BaseException | None) -> str:
    if error is None:
        return "done"
    if isinstance(error, trio.Cancelled):
        return "cancelled"
    return "rejected" if isinstance(error, Reject) else "failed"


def _kind(target: Ref[Any]) -> str:
    """Return what a target is, in few different words: its class, not its name."""
    make = getattr(target, "home_class", cast("LocalRef", target).make)  # of a durable actor
    while isinstance(make, partial):
        make = make.func
    name = getattr(make, "__name__", "actor")
    return name if name.isidentifier() else "actor"
