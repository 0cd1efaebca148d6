"""docs/concepts/settlement.md names laws that exist, and every law of operations."""

from __future__ import annotations

import re
from pathlib import Path

from trouper.testing.conformance import host, operations

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "settlement.md"
LAW = re.compile(r"`([a-z]+(?:_[a-z]+){3,})`")
OPERATIONS = {law.__name__ for law in operations.LAWS}


def test_every_law_that_is_named_exists() -> None:
    named = set(LAW.findall(PAGE.read_text()))
    assert len(named) > 30
    assert named <= OPERATIONS | {law.__name__ for law in host.LAWS}


def test_every_law_of_operations_is_named_or_follows_from_one() -> None:
    named = set(LAW.findall(PAGE.read_text()))
    assert OPERATIONS - named <= {
        "a_timeout_without_an_answer_is_recorded",
        "what_was_not_durable_was_never_told",
    }
