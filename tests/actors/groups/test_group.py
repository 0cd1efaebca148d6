"""The one constructor of groups, and the words it stamps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trouper.actors.groups import (
    Disposition,
    EffectEnvelope,
    EffectGroup,
    GroupMembership,
    WakePolicy,
)
from trouper.actors.groups._policy import narrow, read_word
from trouper.errors import EmptyGroup, GroupShapeError

WAKE, LOSERS = WakePolicy.FIRST, Disposition.CANCEL


def child(position: int, scope: str = "s") -> EffectEnvelope:
    return EffectEnvelope.make("effect", "part", [position], {}, scope, f"g/{position}")


def group(*children: EffectEnvelope, key: str = "g") -> EffectGroup:
    return EffectGroup.of(key, children, wake=WAKE, disposition=LOSERS)


def test_unstamped_children_are_stamped_from_their_index() -> None:
    made = group(child(0), child(1))
    assert made.scope == "s"
    assert [each.membership for each in made.children] == [
        GroupMembership("g", position, WAKE, LOSERS) for position in (0, 1)
    ]
    assert group(*made.children) == made, "stamped children that agree are taken as they are"


STAMP = GroupMembership("g", 1, WAKE, LOSERS)


@pytest.mark.parametrize(
    ("field", "drifted"),
    [
        ("group", replace(STAMP, group="another")),
        ("position", replace(STAMP, position=0)),
        ("position", replace(STAMP, position=2)),
        ("wake", replace(STAMP, wake=WakePolicy.ALL)),
        ("disposition", replace(STAMP, disposition=Disposition.RUN_TO_COMPLETION)),
    ],
)
def test_a_child_that_disagrees_with_its_group_is_refused(
    field: str, drifted: GroupMembership
) -> None:
    with pytest.raises(GroupShapeError) as caught:
        group(child(0), child(1).in_group(drifted))
    facts = caught.value.facts
    assert (facts["field"], facts["position"], facts["replay_key"]) == (field, 1, "g/1")
    assert field in str(caught.value)


def test_a_child_of_another_scope_is_refused() -> None:
    with pytest.raises(GroupShapeError) as caught:
        group(child(0), child(1, scope="another"))
    assert caught.value.facts["field"] == "scope"


@pytest.mark.parametrize("key", ["", " ", "\t\n", None, 7])
def test_a_blank_key_or_no_text_is_refused(key: Any) -> None:
    with pytest.raises(GroupShapeError, match="not blank"):
        group(child(0), key=key)


def test_two_children_with_one_replay_key_are_refused() -> None:
    with pytest.raises(GroupShapeError, match="children 0 and 2") as caught:
        group(child(0), child(1), child(0))
    assert caught.value.facts["replay_key"] == "g/0"


def test_a_group_without_children_is_refused() -> None:
    with pytest.raises(EmptyGroup):
        group()


@pytest.mark.parametrize("kind", [WakePolicy, Disposition])
@pytest.mark.parametrize("word", ["", "First", "any", "cancelled"])
def test_an_unknown_word_is_refused_by_name(
    kind: type[WakePolicy] | type[Disposition], word: str
) -> None:
    with pytest.raises(GroupShapeError, match=f"{word!r} is no {kind.__name__}"):
        read_word(kind, word)


def test_the_persisted_words_are_these_and_no_others() -> None:
    assert [str(word) for word in WakePolicy] == ["first", "first_success", "all"]
    assert [str(word) for word in Disposition] == ["run_to_completion", "cancel"]


def test_a_disposition_only_narrows() -> None:
    run_on, cancel = Disposition.RUN_TO_COMPLETION, Disposition.CANCEL
    assert narrow(run_on, run_on, "g") is run_on
    assert narrow(run_on, cancel, "g") is cancel
    assert narrow(cancel, cancel, "g") is cancel
    with pytest.raises(GroupShapeError, match="cannot be widened"):
        narrow(cancel, run_on, "g")
