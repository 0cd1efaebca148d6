"""The names of errors: in journals for good, in tracebacks to read."""

from __future__ import annotations

import pickle

import pytest

import trouper.errors
from trouper.errors import MailboxFull, TrouperError

ERRORS = [
    error
    for error in (getattr(trouper.errors, name) for name in trouper.errors.__all__)
    if isinstance(error, type) and issubclass(error, TrouperError)
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_a_journal_knows_an_error_by_its_public_name(error: type[TrouperError]) -> None:
    assert error.record_name == f"trouper.errors.{error.__name__}"
    assert error.__module__ == "trouper.errors"
    assert TrouperError.named(error.record_name) is error


def test_an_error_survives_pickle_with_its_facts() -> None:
    error = pickle.loads(pickle.dumps(MailboxFull("full", target="/s/a", capacity=3)))
    assert (type(error), str(error), error.facts["capacity"]) == (MailboxFull, "full", 3)
