"""Tokens come back as they were, and whatever is none is refused by name."""

from __future__ import annotations

import base64
import json
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trouper.errors import TokenForeign, TokenGarbled, TokenRefused
from trouper.testing.schedules import (
    Constraint,
    Event,
    Token,
    decode_token,
    encode_token,
    model_digest,
)

names = st.text(max_size=12)
events = st.builds(
    Event,
    kind=st.sampled_from(["deliver", "reply", "commit", "timer", "crash"]),
    target=names,
    sender=names,
    what=names,
    sequence=st.integers(1, 10**6),
    life=st.integers(0, 5),
)
tokens = st.builds(
    Token,
    model=names.map(model_digest),
    constraints=st.lists(st.builds(Constraint, events, events), max_size=4).map(tuple),
    tape=st.lists(events, max_size=8).map(tuple),
    delivery=st.sampled_from(["causal", "pairwise"]),
    time=st.sampled_from(["idle", "anytime"]),
)
D1 = Event("deliver", "store", "d1", "Put")
TOKEN = Token(model_digest("m"), (Constraint(D1, Event("crash", "journal")),))


@given(tokens)
def test_a_token_comes_back_as_it_was(token: Token) -> None:
    text = encode_token(token)
    assert decode_token(f"  {text}\n", model=token.model) == token
    assert text.isascii()
    assert " " not in text


@given(st.text() | st.text().map("T1.{}".format))
@example("")
@example("T1.")
@example("T1.====")
@example("T1.é")
@example("T9" * 40_000)
def test_garbage_is_refused_by_name(text: str) -> None:
    with pytest.raises(TokenRefused, match="token"):
        decode_token(text)


@given(st.data())
def test_a_damaged_token_is_refused(data: st.DataObject) -> None:
    text = encode_token(TOKEN)
    at = data.draw(st.integers(3, len(text) - 1))
    damaged = data.draw(
        st.sampled_from([text[:at], text[:at] + "~" + text[at + 1 :], text + "AAAA"])
    )
    with pytest.raises(TokenGarbled, match="Copy the whole line"):
        decode_token(damaged)


def packed(fields: object) -> str:
    data = zlib.compress(json.dumps(fields).encode())
    return "T1." + base64.urlsafe_b64encode(data).rstrip(b"=").decode()


ROW = [0, "a", "b", "c", 1, 0]


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        ["m", "causal", "idle", []],
        [1, "causal", "idle", [], []],
        ["m", "no", "idle", [], []],
        ["m", "causal", "no", [], []],
        ["m", "causal", "idle", [[ROW]], []],
        ["m", "causal", "idle", [], [[5, *ROW[1:]]]],
        ["m", "causal", "idle", [], [[-1, *ROW[1:]]]],
        ["m", "causal", "idle", [], [[True, *ROW[1:]]]],
        ["m", "causal", "idle", [], [[*ROW[:4], 0, 0]]],
        ["m", "causal", "idle", [], [[*ROW[:4], 1, -1]]],
        ["m", "causal", "idle", [], [[0, 1, "b", "c", 1, 0]]],
        ["m", "causal", "idle", [], [[*ROW, 1]]],
        ["m", "causal", "idle", 7, []],
    ],
)
def test_well_packed_nonsense_is_refused(fields: object) -> None:
    with pytest.raises(TokenGarbled):
        decode_token(packed(fields))


def test_nesting_and_size_are_bounded() -> None:
    deep = zlib.compress(b"[" * 900_000)
    with pytest.raises(TokenGarbled):
        decode_token("T1." + base64.urlsafe_b64encode(deep).decode())
    bomb = zlib.compress(b" " * 50_000_000)
    with pytest.raises(TokenGarbled):
        decode_token("T1." + base64.urlsafe_b64encode(bomb).decode())


def test_a_token_of_another_version_or_scenario_is_foreign() -> None:
    text = encode_token(TOKEN)
    with pytest.raises(TokenForeign, match="version 2"):
        decode_token("T2." + text[3:])
    with pytest.raises(TokenForeign, match="another scenario"):
        decode_token(text, model=model_digest("other"))
    assert decode_token(text, model=model_digest("m")) == TOKEN


def test_a_schedule_too_long_for_a_token_is_refused() -> None:
    tape = tuple(Event("deliver", f"actor {n}", f"{n * 7919}", "X") for n in range(20_000))
    with pytest.raises(ValueError, match="at most 65536"):
        encode_token(Token("m", (), tape))
