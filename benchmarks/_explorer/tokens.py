"""What becomes of a token when code changes that has nothing to do with the bug."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Final

from _kit.rows import Grid
from _models.edits import EDITS
from _models.planted import PLANTED
from _models.toy import Scene, play_of
from trouper.errors import ScheduleDiverged, TokenStale
from trouper.testing.schedules import (
    Course,
    Failure,
    Play,
    Rules,
    Token,
    encode_token,
    model_digest,
    replay,
    search,
)

TITLES: Final = {
    "with_an_actor": "an actor more",
    "with_a_message": "messages more",
    "with_a_longer_chain": "longer chains",
    "noise": "16 messages more",
}


def robustness(seeds: int) -> tuple[Grid, list[str]]:
    """Return how many tokens replayed after each edit, and those that did not."""
    lines: list[tuple[str, ...]] = []
    lost: list[str] = []
    for name, (make, rules) in PLANTED.items():
        failures, replays = _failures(make(fixed=False), rules, seeds)
        cells: list[str] = []
        for edit in EDITS:
            edited = play_of(edit(make(fixed=False)))
            kept = sum(_is_hit(edited, failure.token, failure) for failure in failures)
            taped = sum(_is_hit(edited, _tape(f, rules), f) for f in failures)
            cells.append(f"{kept}, {taped} of {len(failures)}")
            if kept < len(failures):
                lost.append(f"{name}, {TITLES[edit.__name__]}: {kept} of {len(failures)}")
        orders = [len(failure.constraints) for failure in failures]
        lines.append((name, *cells, f"{max(orders)}", f"{statistics.median(replays):g}"))
    headings = (
        "tokens, then tapes, that replay after",
        *(TITLES[edit.__name__] for edit in EDITS),
        "orders in a token",
        "replays to shrink",
    )
    note = "A tape is the whole schedule, event by event. Orders: at most; replays: the median."
    return Grid("replay after unrelated edits", headings, tuple(lines), note), lost


def _failures(scene: Scene, rules: Rules, seeds: int) -> tuple[list[Failure], list[int]]:
    found: list[Failure] = []
    replays: list[int] = []
    for seed in range(seeds):
        play, played = _counted(play_of(scene))
        report = search(play, rules=rules, budget=200, seed=seed)
        if report.first_failure is not None:
            found.append(report.first_failure)
            replays.append(played() - report.schedules)
    return found, replays


def _counted(play: Play) -> tuple[Play, Callable[[], int]]:
    played = 0

    def counting(course: Course) -> None:
        nonlocal played
        played += 1
        play(course)

    return counting, lambda: played


def _tape(failure: Failure, rules: Rules) -> str:
    tape = tuple(step.event for step in failure.steps)
    return encode_token(Token(model_digest("scenario"), (), tape, rules.delivery, rules.time))


def _is_hit(play: Play, token: str, failure: Failure) -> bool:
    try:
        again = replay(play, token)
    except (ScheduleDiverged, TokenStale):
        return False
    return again is not None and type(again.error) is type(failure.error)
