"""The rules on rows: claims, renewals, terminals, closes and rank order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper._ids import Incarnation
from trouper.actors.groups import (
    ChildRow,
    Completed,
    Disposition,
    EffectEnvelope,
    EffectGroup,
    GroupRow,
    encode_outcome,
    group_key,
)
from trouper.actors.groups._ledger import Arrival, finalise_all, held, open_group
from trouper.actors.groups._rows import GROUP_TABLE, _before_attempts
from trouper.actors.groups._rules import (
    Claim,
    Lease,
    begin,
    claim,
    close,
    finalise,
    in_rank_order,
    is_free,
    new_rows,
    postpone,
    renew,
    require_same_child,
    require_shape,
)
from trouper.errors import CorruptGroup, FenceMoved, GroupShapeError, ReplayMismatch
from trouper.testing.conformance._journal_machine import Model

OWNERS = [Incarnation(epoch, number) for epoch in (1, 2) for number in (1, 2, 3)]
DONE = encode_outcome(Completed(1))

owners = st.sampled_from(OWNERS)
times = st.integers(0, 20).map(float)


def rows(size: int = 3, losers: Disposition = Disposition.RUN_TO_COMPLETION) -> EffectGroup:
    children = [
        EffectEnvelope.make("effect", "part", [position], {}, "s", f"k/{position}")
        for position in range(size)
    ]
    return EffectGroup.of("g", children, disposition=losers)


def fresh(size: int = 3) -> tuple[GroupRow, list[ChildRow]]:
    return new_rows(rows(size), 100.0, [0.0] * size)


def lease(owner: Incarnation, now: float = 0.0, dead: Sequence[Incarnation] = ()) -> Lease:
    return Lease(owner, now, now + 10.0, lambda asked: asked in dead)


def test_a_first_open_leaves_every_child_free_and_unsettled() -> None:
    row, children = fresh()
    assert (row.counter, row.closes, row.closed) == (0, 0, False)
    assert row.effective == row.declared == "run_to_completion"
    for child in children:
        assert not child.settled
        assert child.outcome == b""
        assert all(is_free(child, lease(owner)) for owner in OWNERS)


@given(owners, owners, times, times, st.booleans(), st.booleans())
def test_a_claim_is_free_when_its_owner_is_dead_or_its_time_is_up(
    holder: Incarnation, asker: Incarnation, start: float, now: float, dead: bool, over: bool
) -> None:
    held = claim(fresh()[1][0], lease(holder, start))
    assert held is not None
    asks = lease(asker, now, [holder] if dead else [])
    if over:
        asks = replace(asks, given_up=frozenset({(held.position, held.token)}))
    after = claim(held, asks)
    # Time proves nothing about an attempt of our own: we know when it is over.
    free = over if holder == asker else dead or held.expires <= now
    assert (after is not None) is free is is_free(held, asks)
    if after is not None:
        assert (after.owner, after.token, after.expires) == (asker, held.token + 1, now + 10)
        begun = replace(held, attempt=held.attempt + 1)
        assert replace(after, **_fence(held)) == begun, "a claim changes fence and attempt only"


def _fence(row: ChildRow) -> dict[str, Any]:
    return {
        "owner_epoch": row.owner_epoch,
        "owner_number": row.owner_number,
        "token": row.token,
        "expires": row.expires,
    }


@given(st.lists(st.sampled_from(["dies", "fails", "dies waiting", "is due"]), max_size=20))
def test_failures_and_due_outlive_every_owner_and_only_starts_count_as_attempts(
    story: list[str],
) -> None:
    child = claim(fresh()[1][0], lease(OWNERS[0]))
    assert child is not None
    running, attempts, failures, due = True, 1, 0, 0.0
    for event in story:
        held = Claim(child.owner, child.token)
        if event == "fails" and running:
            failures, due, running = failures + 1, due + 7.0, False
            child = postpone(child, held, due)
        elif event == "is due" and not running:
            attempts, running = attempts + 1, True
            child = begin(child, held)
        elif event == ("dies" if running else "dies waiting"):
            heir = OWNERS[child.token % 2]
            again = claim(child, lease(heir, dead=[child.owner]))
            assert again is not None
            child = again
            running = failures == 0
            attempts += running
            with pytest.raises(FenceMoved, match="owned by"):
                begin(child, held)
            with pytest.raises(FenceMoved, match="owned by"):
                postpone(child, held, 1.0)
        assert (child.attempt, child.failures, child.due) == (attempts, failures, due)


@given(owners)
def test_a_settled_child_neither_begins_nor_fails(owner: Incarnation) -> None:
    row, children = fresh()
    mine = claim(children[0], lease(owner))
    assert mine is not None
    held = Claim(mine.owner, mine.token)
    _, settled = finalise(row, mine, held, DONE, 1.0)
    with pytest.raises(FenceMoved, match="settled"):
        begin(settled, held)
    with pytest.raises(FenceMoved, match="settled"):
        postpone(settled, held, 1.0)


def test_a_claim_that_will_not_run_the_child_starts_no_attempt() -> None:
    claimed = claim(fresh()[1][0], lease(OWNERS[0]), starts=False)
    assert claimed is not None
    assert (claimed.token, claimed.attempt) == (1, 0)


def test_rows_from_before_retries_counted_each_claim_as_an_attempt() -> None:
    child = claim(fresh()[1][0], lease(OWNERS[0]))
    assert child is not None
    fields = [getattr(child, field) for field in ChildRow.__slots__]
    old = _before_attempts(*fields[:-2])
    assert ChildRow(*old) == child


@given(owners)
def test_a_settled_child_is_never_claimed(owner: Incarnation) -> None:
    row, children = fresh()
    mine = claim(children[0], lease(owner))
    assert mine is not None
    _, settled = finalise(row, mine, Claim(mine.owner, mine.token), DONE, 1.0)
    for asker in OWNERS:
        late = Lease(asker, 1e9, 2e9, lambda _: True, frozenset({(0, settled.token)}))
        assert claim(settled, late) is None


@given(owners, owners, st.integers(-1, 1), times)
def test_only_the_claim_that_stands_is_renewed(
    holder: Incarnation, asker: Incarnation, drift: int, until: float
) -> None:
    row, children = fresh()
    child = claim(children[0], lease(holder))
    assert child is not None
    after = renew(child, Claim(asker, child.token + drift), until)
    if asker == holder and drift == 0:
        assert after == replace(child, expires=until)
        _, settled = finalise(row, child, Claim(holder, child.token), DONE, 1.0)
        assert renew(settled, Claim(holder, child.token), until) is None
    else:
        assert after is None


@given(st.data())
def test_a_terminal_takes_one_rank_and_a_moved_fence_none(data: st.DataObject) -> None:
    """Against a model: the list of positions in the order in which their owners finalised."""
    size = data.draw(st.integers(1, 5))
    row, children = fresh(size)
    ranks: list[int] = []
    for _ in range(data.draw(st.integers(0, 25))):
        position = data.draw(st.integers(0, size - 1))
        child = children[position]
        if data.draw(st.booleans()):
            taken = claim(child, lease(data.draw(owners), now=data.draw(times), dead=OWNERS))
            if taken is not None:
                children[position] = taken
            continue
        held = Claim(data.draw(owners), data.draw(st.integers(0, 3)))
        stands = held == Claim(child.owner, child.token) and not child.settled
        if stands:
            row, children[position] = finalise(row, child, held, DONE, 5.0)
            ranks.append(position)
            assert children[position].sequence == row.counter == len(ranks)
        else:
            with pytest.raises(FenceMoved) as moved:
                finalise(row, child, held, DONE, 5.0)
            assert moved.value.facts["position"] == position
        assert [c.position for c in in_rank_order(row, children)] == ranks


words = st.sampled_from(list(Disposition))


@given(words, st.lists(st.tuples(words, st.integers(0, 4)), max_size=8))
def test_a_close_only_narrows_and_counts_once_per_handle(
    declared: Disposition, asked: list[tuple[Disposition, int]]
) -> None:
    row, _ = new_rows(rows(1, declared), 0.0, [0.0])
    for word, seen in asked:
        widens = row.effective == "cancel" and word == "run_to_completion"
        if widens:
            with pytest.raises(GroupShapeError, match="cannot be widened"):
                close(row, seen, word)
            continue
        after = close(row, seen, word)
        assert after.effective == str(word)
        assert after.declared == str(declared), "identity stays what was declared"
        assert after.closes == row.closes + (seen == row.closes)
        assert close(after, seen, word) == after or seen == after.closes, "a replay changes nothing"
        assert after.progress >= row.progress
        row = after


@given(st.permutations(range(4)), st.integers(0, 4), st.lists(st.integers(1, 5), min_size=4))
def test_rank_counts_recorded_sequences_and_does_not_mind_gaps(
    arrival: list[int], settled: int, steps: list[int]
) -> None:
    row, children = fresh(4)
    for position, step in list(zip(arrival, steps, strict=False))[:settled]:
        row = replace(row, counter=row.counter + step)
        children[position] = replace(
            children[position], sequence=row.counter, outcome=DONE, settled_at=1.0
        )
    assert [c.position for c in in_rank_order(row, children)] == arrival[:settled]


@pytest.mark.parametrize(
    ("change", "counter", "says"),
    [
        ({"sequence": 1}, 1, "rank without a terminal"),
        ({"outcome": DONE}, 0, "terminal without a rank"),
        ({"sequence": 2, "outcome": DONE}, 1, "counts 1 ranks"),
    ],
)
def test_a_rank_and_a_terminal_come_together_or_the_group_is_corrupt(
    change: dict[str, Any], counter: int, says: str
) -> None:
    row, children = fresh()
    children[1] = replace(children[1], **change)
    with pytest.raises(CorruptGroup, match=says):
        in_rank_order(replace(row, counter=counter), children)


def test_one_sequence_given_twice_is_corrupt() -> None:
    row, children = fresh(2)
    twice = [replace(child, sequence=1, outcome=DONE) for child in children]
    with pytest.raises(CorruptGroup, match=r"carry \[1, 1\]"):
        in_rank_order(replace(row, counter=2), twice)


def test_the_same_offer_passes_the_shape_fence() -> None:
    row, children = fresh()
    require_shape(row, children, rows())


def test_a_row_that_does_not_match_its_own_fingerprint_is_corrupt() -> None:
    child = replace(fresh()[1][0], fingerprint=b"\0" * 32)
    with pytest.raises(CorruptGroup, match="does not match its own fingerprint"):
        require_same_child(child, rows().children[0])


@given(st.sampled_from([1, 1.0, True, "1", [1], None]), st.sampled_from([1, 1.0, True, "1"]))
def test_arguments_that_python_calls_equal_are_told_apart(old: object, new: object) -> None:
    def child(value: object) -> EffectEnvelope:
        return EffectEnvelope.make("effect", "part", [value], {}, "s", "k/0")

    _, (recorded,) = new_rows(EffectGroup.of("g", [child(old)]), 0.0, [0.0])
    offered = EffectGroup.of("g", [child(new)]).children[0]
    if (type(old), old) == (type(new), new):
        require_same_child(recorded, offered)
    else:
        with pytest.raises(ReplayMismatch) as caught:
            require_same_child(recorded, offered)
        assert caught.value.field == "arguments"


def test_a_sequence_is_given_once_whoever_gives_it() -> None:
    """The backstop: an allocator that gave a number twice fails closed, and seats nobody."""
    tables: dict[str, dict[bytes, Any]] = {"record": {}, "group": {}, "settle": {}, "log": {}}
    tx: Any = Model(tables)
    offered = rows(2)
    opened = open_group(tx, offered, lease(OWNERS[0]), [0.0] * 2, 0.0, frozenset((0, 1)))
    ends = [Arrival(0, p, held(opened.children[p]), encode_outcome(Completed(p))) for p in (1, 0)]
    row, _ = finalise_all(tx, offered.key, ends[:1], 0.0)
    assert row is not None
    tx.put(GROUP_TABLE, group_key(offered.key), replace(row, counter=0))  # as if read before
    with pytest.raises(CorruptGroup, match=r"sequence 1 of group .* is taken"):
        finalise_all(tx, offered.key, ends[1:], 0.0)
