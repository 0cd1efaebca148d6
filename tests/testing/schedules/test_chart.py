"""The chart of a failing schedule shows what led to it, as characters and as SVG."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

from _models.planted import PLANTED, go, noise, plain
from _models.toy import Scene, Tell, Toy, Turn, play_of
from trouper.testing.schedules import Failure, search, svg_chart, text_chart

SVG = "{http://www.w3.org/2000/svg}"


def found(name: str) -> Failure:
    make, rules = PLANTED[name]
    report = search(play_of(noise(make(fixed=False))), rules=rules, budget=100)
    assert report.first_failure is not None
    return report.first_failure


def right_end(node: ElementTree.Element) -> float:
    """Where a text ends, if its letters are as wide as these fonts have them on the average."""
    anchor = node.attrib.get("text-anchor", "start")
    if node.attrib["class"] in ("name", "badge-text"):
        anchor = "middle"
    share = {"start": 1.0, "middle": 0.5, "end": 0.0}[anchor]
    letter = 8.7 if node.attrib["class"] == "title" else 6.5
    return float(node.attrib["x"]) + share * letter * len(node.text or "")


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_chart_in_characters_can_be_read() -> None:
    make, rules = PLANTED["bump before fence"]
    report = search(play_of(make(fixed=False)), strategy="dfs", rules=rules)
    assert report.first_failure is not None
    drawn = text_chart(report.first_failure)
    assert drawn.splitlines() == [
        "AssertionError: the row was written by [1, 2]",
        "",
        "       supervisor        old         timer of supervisor  new",
        "   1   ● Go from main.0  │           │                    │",
        "   2   ├────── Work ────▶│           │                    │",
        "   3   │                 │           ◷ Lease              │",
        "   4   │◀─────────── Lease ──────────┤                    │",
        "   5   ├───────────────────── Work (1) ──────────────────▶│",
        "   6   │                 ■ rows (1)  │                    │",
        "   8   │                 │           │                    ■ rows",
        "",
        f"(1) {report.first_failure.constraints[0]}",
        "3 steps that have no part in it left out",
    ]


@pytest.mark.parametrize("name", PLANTED)
def test_what_has_no_part_in_it_is_left_out(name: str) -> None:
    drawn = text_chart(found(name))
    assert "noise" not in drawn
    assert "Noise" not in drawn
    assert "left out" in drawn


@pytest.mark.parametrize("name", PLANTED)
def test_the_svg_shows_every_actor_every_label_and_every_reason(name: str) -> None:
    failure = found(name)
    shown = texts(svg_chart(failure))
    for constraint in failure.constraints:
        assert str(constraint) in shown
        for event in (constraint.first, constraint.then):
            assert event.kind == "crash" or event.target in shown
            assert event.kind == "crash" or event.label in shown
    assert str(failure.error).splitlines()[0] in shown[0]


@pytest.mark.parametrize("name", PLANTED)
def test_nothing_is_drawn_outside_of_the_picture(name: str) -> None:
    root = ElementTree.fromstring(svg_chart(found(name)))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for node in root.iter():
        for x in ("x", "x1", "x2", "cx"):
            assert 0 <= float(node.attrib.get(x, "0").rstrip("%")) <= width
        for y in ("y", "y1", "y2", "cy"):
            assert 0 <= float(node.attrib.get(y, "0").rstrip("%")) <= height
        if node.tag == f"{SVG}text":
            assert right_end(node) <= width


def test_a_crash_goes_right_through() -> None:
    failure = found("two-transaction finalise")
    assert "══ the crash (1) ══" in text_chart(failure)
    assert "THE CRASH" in texts(svg_chart(failure))


def hostile(name: str) -> Failure:
    def actors() -> dict[str, Any]:
        def first(toy: Toy, what: str, payload: Any) -> Turn:
            yield Tell(name, what)
            yield Tell("first", "Again")

        def second(toy: Toy, what: str, payload: Any) -> Turn:
            raise ValueError(name)
            yield

        return {"first": first, name: second, "idle": plain(lambda what, payload: None)}

    report = search(play_of(Scene(actors, go("first"))), strategy="fifo")
    assert report.first_failure is not None
    return report.first_failure


@pytest.mark.parametrize(
    "name", ["<script>&\"'", "a\x00b\x1b[31m", "\ud800", "long " * 40, "", "line\nbreak"]
)
def test_no_name_breaks_a_chart(name: str) -> None:
    failure = hostile(name)
    assert "ValueError" in texts(svg_chart(failure))[0]
    drawn = text_chart(failure)
    assert not {"\x00", "\x1b"} & set(drawn)
    assert max(map(len, drawn.splitlines()[2:])) < 200


def test_a_schedule_that_fails_in_the_ordinary_order_is_shown_whole() -> None:
    failure = hostile("second")
    drawn = text_chart(failure)
    assert "left out" not in drawn
    assert drawn.count("\n") >= len(failure.steps) + 3


def chain(names: list[str]) -> Failure:
    """Each passes a message on to the next; the last one fails."""

    def actors() -> dict[str, Any]:
        def relay(onward: str) -> Any:
            def handler(toy: Toy, what: str, payload: Any) -> Turn:
                yield Tell(onward, "Hop")

            return handler

        def last(toy: Toy, what: str, payload: Any) -> Turn:
            raise ValueError("so it goes " * 20)
            yield

        return {n: relay(o) for n, o in pairwise(names)} | {names[-1]: last}

    report = search(play_of(Scene(actors, go(names[0]))), strategy="fifo")
    assert report.first_failure is not None
    return report.first_failure


def test_many_actors_take_no_more_room_than_they_need() -> None:
    drawn = text_chart(chain([f"node{n}" for n in range(14)]))
    assert max(map(len, drawn.splitlines())) < 140
    assert drawn.count("── Hop ") == 13


def test_a_long_name_loses_its_middle_and_a_long_title_is_broken() -> None:
    paths = [f"shop/orders/order-2026-11-30-000017/worker-of-{n}" for n in ("tea", "cups")]
    failure = chain(paths)
    head = text_chart(failure)
    shown = texts(svg_chart(failure))
    for end in ("worker-of-tea", "worker-of-cups"):
        assert end in head
        assert any("…" in text and text.endswith(end) for text in shown)
    assert all(len(line) <= 100 for line in head.splitlines()[:3])
    assert all(f"<title>{path}</title>" in svg_chart(failure) for path in paths)


def test_who_waits_for_ever_is_said_at_the_foot() -> None:
    failure = found("ancestor pool")
    for who in ("c0", "c1"):
        assert f"{who} waits for pool (Acquire)" in text_chart(failure)
        assert f"{who} waits for pool (Acquire)" in texts(svg_chart(failure))


def test_a_picture_is_dark_for_who_prefers_it() -> None:
    assert "@media (prefers-color-scheme: dark)" in svg_chart(found("read-then-max"))
