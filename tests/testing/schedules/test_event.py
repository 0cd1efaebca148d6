"""Events have stable names, and two steps depend on each other for a reason or commute."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

from trouper.testing.schedules import Constraint, Event, Footprint, dependent

A = Event("deliver", "a", "x", "Put")
B = Event("deliver", "b", "x", "Put")
TIMER = Event("timer", "b", "b", "lease")
CRASH = Event("crash", "journal")
NOTHING = Footprint()
READS = Footprint(reads=frozenset("k"))
WRITES = Footprint(writes=frozenset("k"))
SHARES = Footprint(shares=frozenset(("mail of c",)))
ARMS = Footprint(arms=True)
SCANS = Footprint(scans=frozenset("r"))
FILLS = Footprint(fills=frozenset("r"))


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ((A, NOTHING), (Event("reply", "a", "y", "Get"), NOTHING), "the same actor"),
        ((A, READS), (B, WRITES), "a key that one writes"),
        ((A, WRITES), (B, WRITES), "a key that both write"),
        ((A, SCANS), (B, FILLS), "a scan against a write into its range"),
        ((A, SHARES), (B, SHARES), "an object in memory"),
        ((TIMER, NOTHING), (Event("timer", "a", "a", "t"), NOTHING), "timer against timer"),
        ((TIMER, NOTHING), (A, ARMS), "a timer against arming one"),
        ((CRASH, NOTHING), (A, WRITES), "a crash against a write"),
        ((CRASH, NOTHING), (TIMER, NOTHING), "a crash against the clock, which outlives it"),
        ((CRASH, NOTHING), (CRASH, NOTHING), "a crash against a crash"),
        ((A, Footprint(withdraws=(B,))), (B, NOTHING), "an event against taking it back"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_order_matters(
    one: tuple[Event, Footprint], other: tuple[Event, Footprint], why: str
) -> None:
    assert dependent(one, other)
    assert dependent(other, one)


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ((A, NOTHING), (B, NOTHING), "different actors"),
        ((A, READS), (B, READS), "two reads of a key"),
        ((A, WRITES), (B, Footprint(writes=frozenset("l"))), "different keys"),
        ((A, FILLS), (B, FILLS), "two writes into a range"),
        ((A, ARMS), (B, ARMS), "two armings"),
        ((CRASH, NOTHING), (A, READS), "a crash against a read"),
        ((CRASH, NOTHING), (A, ARMS), "a crash against arming"),
        ((A, NOTHING), (Event("deliver", "a", "x", "Put", life=1), NOTHING), "another life"),
        ((A, SHARES), (Event("deliver", "b", life=1), SHARES), "an object of another life"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_two_steps_commute(
    one: tuple[Event, Footprint], other: tuple[Event, Footprint], why: str
) -> None:
    assert not dependent(one, other)
    assert not dependent(other, one)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (Event("deliver", "store", "d1", "Put"), "`store` gets d1's Put"),
        (Event("deliver", "store", "d1", "Put", 3), "`store` gets d1's Put#3"),
        (Event("deliver", "group g", "", "pass", 2), "`group g` gets pass#2"),
        (Event("reply", "d1", "store", "Get"), "`d1` gets store's reply to Get"),
        (Event("commit", "a", "journal", "rows", 1, 1), "`a`: the commit rows (after crash 1)"),
        (Event("timer", "a", "a", "lease"), "`a`: the timer lease"),
        (Event("crash", "journal"), "the crash"),
        (Event("crash", "journal", sequence=2, life=1), "crash 2"),
        (Event("crash", "journal", what="losing a commit"), "the crash (losing a commit)"),
        (Event("rest", ""), "rest"),
    ],
)
def test_an_event_reads_like_what_happens(event: Event, says: str) -> None:
    assert str(event) == says


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        (A, Event("deliver", "a", "y", "Get"), "at `a`: x's Put before y's Get"),
        (A, B, "`a` gets x's Put before `b` gets x's Put"),
        (A, CRASH, "the crash right after `a` gets x's Put"),
        (CRASH, B, "the crash before `b` gets x's Put"),
    ],
)
def test_a_constraint_is_a_sentence(first: Event, then: Event, says: str) -> None:
    assert str(Constraint(first, then)) == says


def test_an_event_is_itself_in_another_process() -> None:
    code = "import pickle, sys; from trouper.testing.schedules import Event; "
    code += "e = pickle.load(sys.stdin.buffer); assert e in {Event('deliver', 'a', 'x', 'Put'): 1}"
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(A), env=env, check=True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("reply?", "a"), "kind is one of"),
        (("deliver", "a", "b", "c", 0), "counts from 1"),
        (("deliver", "a", "b", "c", 1, -1), "life from 0"),
    ],
)
def test_what_is_no_event_is_refused(arguments: tuple[object, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Event(*arguments)  # type: ignore[arg-type]
