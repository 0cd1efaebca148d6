from __future__ import annotations

import pytest

from trouper import errors
from trouper.cli._status import Failure, Status, read_failure

UNKNOWN_IS_NOT_FAILED = [errors.OutcomeUnknown, errors.AskUnknown, errors.StoreLost]
WRONG_USE_OR_REFUSED = [
    errors.StoreOwned,
    errors.StoreDamaged,
    errors.CorruptRecord,
    errors.FormatTooNew,
    errors.WrongEngine,
    errors.ValueRefused,
    errors.UnknownActivity,
    errors.ActivationMismatch,
    errors.OperationMismatch,
    errors.GuestRefused,
]
JOB_FAILED = [
    errors.Reject,
    errors.StoreFull,
    errors.EffectFailed,
    errors.OperationFailed,
    errors.ActivationCancelled,
    errors.OutOfFuel,
    errors.RestartLimitReached,
]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        *((kind, Status.UNKNOWN) for kind in UNKNOWN_IS_NOT_FAILED),
        *((kind, Status.REFUSED) for kind in WRONG_USE_OR_REFUSED),
        *((kind, Status.FAILED) for kind in JOB_FAILED),
    ],
)
def test_each_error_has_its_exit_status(kind: type[errors.TrouperError], status: Status) -> None:
    assert read_failure(kind("it went wrong")) == Failure(status, ("it went wrong",))


def test_a_bug_is_not_a_failure_of_the_user_s() -> None:
    assert read_failure(errors.InvariantError("unreachable")) is None
    assert read_failure(ZeroDivisionError()) is None
    assert read_failure(ExceptionGroup("", [errors.Reject("no"), ZeroDivisionError()])) is None


def test_a_path_that_is_not_there_is_wrong_use() -> None:
    error = FileNotFoundError(2, "No such file or directory", "/nowhere")
    assert read_failure(error) == Failure(Status.REFUSED, ("/nowhere: no such file or directory",))


def test_a_group_gives_each_line_once_and_the_gravest_status() -> None:
    nested = ExceptionGroup(
        "", [errors.StoreOwned("owned"), ExceptionGroup("", [errors.StoreLost("lost")])]
    )
    group = ExceptionGroup("", [nested, errors.StoreOwned("owned")])
    assert read_failure(group) == Failure(Status.UNKNOWN, ("owned", "lost"))


def test_a_line_is_one_line_and_names_the_cause() -> None:
    error = errors.StartFailed("worker did not\ncome up")
    error.__cause__ = ValueError("bad port")
    failure = read_failure(error)
    assert failure is not None
    assert failure.lines == ("worker did not come up (caused by ValueError: bad port)",)


def test_an_interrupt_exits_as_shells_expect() -> None:
    assert read_failure(KeyboardInterrupt()) == Failure(Status.INTERRUPTED, ("interrupted",))
