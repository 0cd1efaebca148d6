"""The root of all errors, and what is raised everywhere."""

from __future__ import annotations

from typing import Any, ClassVar, Self

_HOME = __name__.rpartition(".")[0]
_BY_NAME: dict[str, type[TrouperError]] = {}


def durable_name(thing: Any) -> str:
    """Return the name under which code is known across runs: ``module.qualname``.

    ``__main__`` counts as the module it was started as, so a program run as a file and imported
    as a module means the same thing.
    """
    module = thing.__module__
    if module == "__main__":
        import sys

        spec = getattr(sys.modules["__main__"], "__spec__", None)
        if spec is not None:
            module = spec.name.removesuffix(".__main__")
        else:
            path = getattr(sys.modules["__main__"], "__file__", None) or "__main__"
            module = path.rsplit("/", 1)[-1].removesuffix(".py")
    return f"{module}.{thing.__qualname__}"


class TrouperError(Exception):
    """Root of everything this library raises on purpose.

    A subclass registers itself by being defined; that is what lets it come back from a journal.
    Keyword arguments are kept as attributes.
    """

    record_name: ClassVar[str] = "trouper.errors.TrouperError"
    facts: dict[str, Any]

    def __init__(self, message: str = "", /, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith(f"{_HOME}._"):
            cls.__module__ = _HOME  # its public place, also in journals and tracebacks
        cls.record_name = durable_name(cls)
        _BY_NAME[cls.record_name] = cls

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    @classmethod
    def revive(cls, message: str, facts: dict[str, Any]) -> Self:
        """Rebuild an error from its journaled message and facts, whatever its constructor takes."""
        error = cls.__new__(cls)
        TrouperError.__init__(error, message, **facts)
        return error

    def again(self) -> Self:
        """Return an equal error for one more waiter.

        One instance raised in two tasks would collect the tracebacks of both.
        """
        error = type(self).revive(str(self), self.facts).with_traceback(self.__traceback__)
        error.__cause__ = self.__cause__
        return error

    @staticmethod
    def named(name: str) -> type[TrouperError] | None:
        """Return the registered error class of that journaled name, or None."""
        return _BY_NAME.get(name)


TrouperError.__module__ = _HOME
_BY_NAME[TrouperError.record_name] = TrouperError


class InvariantError(TrouperError):
    """A state that the rules make unreachable was reached: a bug in trouper. Never caught."""


class ExtraMissing(TrouperError, ModuleNotFoundError):
    """A part of trouper was used whose packages are not installed. ``extra`` is what to install."""

    extra: str


class Reject(TrouperError):
    """The one word for a definite refusal. Raised in handlers, effects and operations."""
