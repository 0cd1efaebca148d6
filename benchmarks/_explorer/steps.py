"""What a step of the explorer costs, without any actor behind it, and how that grows."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any, Final

from _kit.rows import Growth
from _kit.sample import Sample, Stopwatch
from _models.planted import Actors, finalise, noise
from _models.toy import Handler, Scene, Tell, Toy, Turn, play_of
from trouper.testing.schedules import Course, Play, Rules, search

STEPS: Final = 5_000


def chain(length: int) -> Scene:
    """One message that two actors pass on to each other."""

    def actors() -> Actors:
        def passing(onward: str) -> Handler:
            def handler(toy: Toy, what: str, left: Any) -> Turn:
                if left:
                    yield Tell(onward, "Hop", left - 1)

            return handler

        return {"a": passing("b"), "b": passing("a")}

    return Scene(actors, [("main", "a", "Hop", length)])


def growths(rounds: int, divide: int) -> list[Growth]:
    """Measure the cost model of a step, the toy actor's part in it included."""
    costs = [
        ("a step, by steps of a schedule", chain, "fifo", (30, 300, 900)),
        ("a step, by messages that wait", _waiting, "pos", (16, 64, 256)),
        ("a schedule of the reduced search, per step, by children", _children, "dfs", (2, 3, 4)),
    ]
    found: list[Growth] = []
    for what, make, strategy, sizes in costs:
        scenes = [partial(make, size) for size in sizes]
        rows = [
            [_cost(play_of(scene()), strategy, STEPS // divide) for scene in scenes]
            for _ in range(rounds)
        ]
        medians = tuple(statistics.median(column) for column in zip(*rows, strict=True))
        found.append(Growth(what, "ns", sizes, medians, "The toy actor's part is in it"))
    return found


def _waiting(messages: int) -> Scene:
    return noise(chain(3), messages)


def _children(count: int) -> Scene:
    return finalise(count, fixed=False)


def _cost(play: Play, strategy: str, steps: int) -> float:
    taken = 0

    def counted(course: Course) -> None:
        nonlocal taken
        play(course)
        taken += len(course.trace.steps)

    with Stopwatch() as watch:
        seed = 0
        while taken < steps:
            search(
                counted,
                strategy=strategy,
                rules=Rules(),
                budget=10,
                seed=seed,
                keep_going=True,
                tries=1,
            )
            seed += 1
    sample: Sample = watch.sample(taken)
    return sample.per_op("cpu")
