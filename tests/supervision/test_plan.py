"""Who stops and who starts, as properties of pure functions."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.supervision import (
    AutoShutdown,
    Escalate,
    History,
    Intensity,
    Plan,
    Restart,
    RestartAfter,
    Strategy,
    check_significant,
    decide,
    ends_parent,
    one_for_all,
    one_for_one,
    plan_restart,
    rest_for_one,
)

policies: st.SearchStrategy[Restart] = st.sampled_from(["permanent", "transient", "never"])
families = st.lists(policies, min_size=1, max_size=7).map(lambda ps: dict(zip("abcdefg", ps)))  # noqa: B905
strategies = st.sampled_from([one_for_one(), one_for_all(), rest_for_one()])
ABCD: dict[str, Restart] = dict.fromkeys("abcd", "permanent")


@pytest.mark.proves("Supervision: rest_for_one")
def test_rest_for_one_stops_d_then_c_and_starts_c_then_d() -> None:
    assert plan_restart(rest_for_one(), ABCD, "c") == Plan(("d", "c"), ("c", "d"))


@pytest.mark.proves("Supervision: one_for_all")
def test_one_for_all_stops_all_in_reverse_and_starts_all_in_order() -> None:
    assert plan_restart(one_for_all(), ABCD, "b") == Plan(tuple("dcba"), tuple("abcd"))


@pytest.mark.proves("Supervision: one_for_one")
def test_one_for_one_concerns_only_the_child_that_failed() -> None:
    assert plan_restart(one_for_one(), ABCD, "c") == Plan(("c",), ("c",))


def test_a_sibling_that_must_not_be_restarted_stops_with_the_others_for_good() -> None:
    children: dict[str, Restart] = {"a": "transient", "b": "never", "c": "permanent"}
    assert plan_restart(one_for_all(), children, "a") == Plan(("c", "b", "a"), ("a", "c"))


def test_a_stranger_has_no_plan() -> None:
    with pytest.raises(KeyError, match="x"):
        plan_restart(one_for_all(), ABCD, "x")


@given(strategy=strategies, children=families, data=st.data())
def test_a_plan_stops_in_reverse_start_order_and_starts_in_start_order(
    strategy: Strategy, children: dict[str, Restart], data: st.DataObject
) -> None:
    failed = data.draw(st.sampled_from(sorted(children)))
    plan = plan_restart(strategy, children, failed)
    assert list(plan.stop) == sorted(plan.stop, reverse=True)
    assert list(plan.start) == sorted(plan.start)
    assert failed in plan.start
    assert set(plan.start) <= set(plan.stop) <= set(children)
    assert {name for name in plan.stop if name not in plan.start} == {
        name for name in plan.stop if name != failed and children[name] == "never"
    }


class Troupe:
    """The model: a row of children, told by hand what OTP's manual says of each strategy."""

    def __init__(self, names: str) -> None:
        self.row = list(names)
        self.log: list[str] = []

    def fails(self, kind: str, name: str) -> None:
        at = self.row.index(name)
        low, high = {
            "one_for_one": (at, at),
            "one_for_all": (0, len(self.row) - 1),
            "rest_for_one": (at, len(self.row) - 1),
        }[kind]
        for index in range(high, low - 1, -1):
            self.log.append(f"-{self.row[index]}")
        for index in range(low, high + 1):
            self.log.append(f"+{self.row[index]}")


@given(
    strategy=strategies,
    failures=st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0.0, 3.0)), max_size=20),
    limit=st.integers(0, 4),
)
@pytest.mark.proves(
    "Supervision: one_for_one", "Supervision: one_for_all", "Supervision: rest_for_one"
)
def test_a_row_of_failures_stops_and_starts_as_the_model_does_until_it_is_too_many(
    strategy: Strategy, failures: list[tuple[str, float]], limit: int
) -> None:
    strategy = Strategy(strategy.kind, Intensity(limit, 5.0), None)
    troupe, log, now = Troupe("abcde"), list[str](), 0.0
    children: dict[str, Restart] = dict.fromkeys("abcde", "transient")
    shared, own = History(), dict.fromkeys("abcde", History())
    restarted: list[tuple[str, float]] = []
    for name, gap in failures:
        now += gap
        history = shared if strategy.is_shared else own[name]
        verdict = decide(strategy, children[name], history, failed=True, now=now)
        counted = [n for n, t in restarted if now - t < 5.0 and (strategy.is_shared or n == name)]
        if len(counted) >= limit:
            assert verdict == Escalate(is_limit=True)
            break
        assert isinstance(verdict, RestartAfter)
        shared = own[name] = verdict.history
        restarted.append((name, now))
        plan = plan_restart(strategy, children, name)
        log += [f"-{n}" for n in plan.stop] + [f"+{n}" for n in plan.start]
        troupe.fails(strategy.kind, name)
    assert log == troupe.log


@given(how=st.sampled_from(get_args(AutoShutdown)), ends=st.integers(1, 9))
@pytest.mark.proves("Supervision: significant children")
def test_any_ends_the_parent_at_the_first_end_all_at_the_last_never_not(
    how: AutoShutdown, ends: int
) -> None:
    verdicts = [ends_parent(how, left) for left in range(ends - 1, -1, -1)]
    expected = {"never": None, "any": 0, "all": ends - 1}[how]
    assert (verdicts.index(True) if True in verdicts else None) == expected


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: check_significant(one_for_one(), "transient"), "auto_shutdown"),
        (lambda: check_significant(one_for_all(auto_shutdown="any"), "permanent"), "permanent"),
        (lambda: one_for_one(auto_shutdown="some"), "never, any, all, not 'some'"),  # type: ignore[arg-type]
    ],
)
def test_a_significant_child_that_could_never_end_its_parent_is_refused(
    make: Any, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        make()
    check_significant(rest_for_one(auto_shutdown="all"), "never")
