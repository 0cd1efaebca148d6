"""The documents name laws that exist, and docs/concepts/settlement.md every law of operations."""

from __future__ import annotations

import re
from pathlib import Path

from trouper.testing.conformance import drain, host, operations

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "concepts" / "settlement.md"
FAULTS = DOCS / "how-to" / "conformance.md"
LAW = re.compile(r"`([a-z]+(?:_[a-z]+){3,})`")
HOSTS = {law.__name__ for law in (*host.LAWS, *drain.LAWS)}
OPERATIONS = {law.__name__ for law in operations.LAWS}


def test_every_law_that_is_named_exists() -> None:
    named = set(LAW.findall(PAGE.read_text()))
    assert len(named) > 30
    assert named <= OPERATIONS | HOSTS | {host.a_history_is_that_of_the_model.__name__}


def test_every_law_that_a_fault_is_said_to_fail_exists() -> None:
    told = FAULTS.read_text().partition("| break this |")[2]
    named = set(LAW.findall(told))
    assert len(named) > 6
    assert named <= HOSTS


def test_every_law_of_operations_is_named_or_follows_from_one() -> None:
    named = set(LAW.findall(PAGE.read_text()))
    assert OPERATIONS - named <= {
        "a_timeout_without_an_answer_is_recorded",
        "what_was_not_durable_was_never_told",
    }
