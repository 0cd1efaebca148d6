"""Envelopes: bytes and fingerprints that never change, and a decoder that refuses by name."""

from __future__ import annotations

import hashlib
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.actors.groups import (
    Disposition,
    EffectEnvelope,
    EffectGroup,
    GroupHandle,
    GroupMembership,
    WakePolicy,
    require_same,
)
from trouper.errors import CursorOutOfRange, GroupShapeError, ReplayMismatch, ValueRefused
from trouper.store import encode

# Pinned for ever: journals hold them. A change here means a new fingerprint version, never an edit.
UNGROUPED = (
    "a569617267756d656e74735082830cf938006178a26161f661628101646b696e6466656666656374646e616d656b"
    "73686f702e6368617267656a7265706c61795f6b6579696f726465722d372f336573636f7065676f726465722d37"
)
UNGROUPED_PRINT = "0c352f8392962baeadc34e46329f1ab2ec67990011b7949096c271170947f05d"
GROUPED_PRINT = "1c842d04b854d81ea294db3b8ed6690de54a59134021330a8cb2efab8ad7b896"

CHARGE = EffectEnvelope.make(
    "effect", "shop.charge", [12, 0.5, "x"], {"b": [1], "a": None}, "order-7", "order-7/3"
)
MEMBERSHIP = GroupMembership("order-7:group:0", 0, WakePolicy.FIRST_SUCCESS, Disposition.CANCEL)
GROUPED = CHARGE.in_group(MEMBERSHIP)


def test_the_fingerprint_of_an_ungrouped_envelope_is_pinned() -> None:
    assert CHARGE.encoded().hex() == UNGROUPED
    assert CHARGE.fingerprint().hex() == UNGROUPED_PRINT


def test_absent_membership_is_absent_from_the_encoding() -> None:
    assert "membership" not in CHARGE.to_dict()
    assert GROUPED.encoded() != CHARGE.encoded()


def test_the_fingerprint_of_a_grouped_envelope_is_pinned() -> None:
    assert GROUPED.fingerprint().hex() == GROUPED_PRINT


@pytest.mark.parametrize(
    ("envelope", "pinned"), [(CHARGE, UNGROUPED_PRINT), (GROUPED, GROUPED_PRINT)]
)
def test_a_fingerprint_covers_a_versioned_domain_and_the_whole_envelope(
    envelope: EffectEnvelope, pinned: str
) -> None:
    body = cbor2.dumps(envelope.to_dict(), canonical=True)
    assert hashlib.sha256(DOMAIN + body).hexdigest() == pinned


DOMAIN = b"trouper/envelope/1\0"

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=8,
)
names = st.text("abc/.: ", min_size=1, max_size=8).filter(str.strip)
memberships = st.none() | st.builds(
    GroupMembership,
    names,
    st.integers(0, 10**4),
    st.sampled_from(list(WakePolicy)),
    st.sampled_from(list(Disposition)),
)


@given(
    st.lists(values, max_size=3),
    st.dictionaries(st.text("ab", max_size=2), values, max_size=2),
    names,
    names,
    memberships,
)
def test_an_envelope_comes_back_equal_with_its_arguments(
    args: list[Any], kwargs: dict[str, Any], name: str, key: str, member: GroupMembership | None
) -> None:
    made = EffectEnvelope.make("effect", name, args, kwargs, "s", key)
    made = made if member is None else made.in_group(member)
    again = EffectEnvelope.decoded(made.encoded())
    assert again == made
    assert again.fingerprint() == made.fingerprint()
    assert again.call() == (args, kwargs)
    assert again.call()[0] is not again.call()[0], "each runner gets a copy of its own"


@pytest.mark.parametrize("field", ["kind", "name", "arguments", "scope", "replay_key"])
@pytest.mark.parametrize("value", [None, 7, True, [], ...])
def test_a_field_that_is_missing_or_of_another_type_is_refused_by_name(
    field: str, value: Any
) -> None:
    data = GROUPED.to_dict()
    if value is ...:
        del data[field]
    else:
        data[field] = value
    with pytest.raises(ValueRefused, match=repr(field)):
        EffectEnvelope.from_dict(data)


@pytest.mark.parametrize("field", ["kind", "name", "scope", "replay_key"])
@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_field_is_refused_by_name(field: str, blank: str) -> None:
    with pytest.raises(ValueRefused, match=field):
        EffectEnvelope.from_dict(CHARGE.to_dict() | {field: blank})


@pytest.mark.parametrize("field", ["kind", "name", "scope", "replay_key"])
def test_a_field_that_is_no_text_is_refused_by_name(field: str) -> None:
    fields: dict[str, Any] = {"kind": "effect", "name": "n", "scope": "s", "replay_key": "k"}
    with pytest.raises(ValueRefused, match=f"not blank as its {field}, it has None"):
        EffectEnvelope(arguments=b"", **(fields | {field: None}))


@pytest.mark.parametrize("field", ["group", "position", "wake", "disposition"])
def test_a_membership_without_a_field_is_refused_by_name(field: str) -> None:
    data = MEMBERSHIP.to_dict()
    del data[field]
    with pytest.raises(ValueRefused, match=repr(field)):
        EffectEnvelope.from_dict(CHARGE.to_dict() | {"membership": data})


@pytest.mark.parametrize(
    ("field", "name"), [("wake", "WakePolicy"), ("disposition", "Disposition")]
)
def test_an_unknown_word_is_refused_by_name(field: str, name: str) -> None:
    data = MEMBERSHIP.to_dict() | {field: "sometimes"}
    with pytest.raises(GroupShapeError, match=f"'sometimes' is no {name}"):
        EffectEnvelope.from_dict(CHARGE.to_dict() | {"membership": data})


@pytest.mark.parametrize("change", [{"position": -1}, {"group": " "}])
def test_a_membership_out_of_range_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueRefused, match="membership"):
        GroupMembership.from_dict(MEMBERSHIP.to_dict() | change)


@pytest.mark.parametrize("data", [encode([1]), encode("x"), encode(None), b"\xff", b""])
def test_bytes_that_hold_no_envelope_are_refused(data: bytes) -> None:
    with pytest.raises(ValueRefused):
        EffectEnvelope.decoded(data)


@pytest.mark.parametrize("member", ["x", [1], 3])
def test_a_membership_that_is_no_map_is_refused(member: Any) -> None:
    with pytest.raises(ValueRefused, match="map"):
        EffectEnvelope.from_dict(CHARGE.to_dict() | {"membership": member})


@pytest.mark.parametrize(
    ("args", "path"), [([(1,)], "args[0]"), ([1, {"k": {2}}], "args[1]['k']"), ([2**64], "args[0]")]
)
def test_arguments_outside_the_profile_are_refused_with_their_place(
    args: list[Any], path: str
) -> None:
    with pytest.raises(ValueRefused) as caught:
        EffectEnvelope.make("effect", "n", args, {}, "s", "k")
    assert caught.value.path == path


def test_the_same_envelope_passes_whatever_the_order_of_keyword_arguments() -> None:
    one = EffectEnvelope.make("effect", "n", [], {"a": 1, "b": 2}, "s", "k")
    two = EffectEnvelope.make("effect", "n", [], {"b": 2, "a": 1}, "s", "k")
    assert one.fingerprint() == two.fingerprint()
    require_same(one, two, "here")


@pytest.mark.parametrize(
    ("field", "offered"),
    [
        ("name", EffectEnvelope.from_dict(GROUPED.to_dict() | {"name": "shop.refund"})),
        ("kind", EffectEnvelope.from_dict(GROUPED.to_dict() | {"kind": "guest"})),
        ("arguments", EffectEnvelope.make("effect", "shop.charge", [], {}, "order-7", "order-7/3")
            .in_group(MEMBERSHIP)),
        ("membership.disposition", CHARGE),
    ],
)  # fmt: skip
def test_a_mismatch_names_the_differing_field_and_both_values(
    field: str, offered: EffectEnvelope
) -> None:
    with pytest.raises(ReplayMismatch, match="the journal holds") as caught:
        require_same(GROUPED, offered, "step 3")
    assert caught.value.field == field
    assert "step 3" in str(caught.value)
    assert caught.value.facts["recorded"] != caught.value.facts["offered"]


def test_a_group_fingerprints_its_position_and_words() -> None:
    children = [EffectEnvelope.make("effect", "n", [], {}, "s", f"k/{p}") for p in range(2)]
    prints = {
        EffectGroup.of(key, children, wake=wake, disposition=losers).children[0].fingerprint()
        for key in ("g", "h")
        for wake in WakePolicy
        for losers in Disposition
    }
    assert len(prints) == 12


@given(st.integers(1, 50), st.data())
def test_a_handle_comes_back_equal(children: int, data: st.DataObject) -> None:
    handle = GroupHandle("g", children, data.draw(st.integers(0, children)), 3)
    assert GroupHandle.from_dict(handle.to_dict()) == handle
    assert handle.exhausted is (handle.consumed == children)


@pytest.mark.parametrize("field", ["key", "children", "consumed", "closes"])
@pytest.mark.parametrize("value", [None, True, 1.0, ...])
def test_a_handle_without_a_field_is_refused_by_name(field: str, value: Any) -> None:
    data: dict[str, Any] = GroupHandle("g", 3).to_dict() | {field: value}
    if value is ...:
        del data[field]
    with pytest.raises(ValueRefused, match=repr(field)):
        GroupHandle.from_dict(data)


def test_a_handle_out_of_range_is_refused() -> None:
    for consumed in (-1, 4):
        with pytest.raises(CursorOutOfRange):
            GroupHandle("g", 3, consumed)
    for children, closes in ((0, 0), (3, -1)):
        with pytest.raises(ValueRefused):
            GroupHandle("g", children, 0, closes)
