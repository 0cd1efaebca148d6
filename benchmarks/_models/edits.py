"""Edits of a model that have nothing to do with its bug: tokens must survive them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed
from typing import Any, Final

from .planted import go, hops, noise, plain
from .toy import Commit, Scene, Tell, Toy, Turn


def with_an_actor(scene: Scene) -> Scene:
    def actors() -> dict[str, Any]:
        return {"extra": plain(lambda what, payload: None)} | scene.actors()

    return changed(scene, actors=actors, mail=[*go("extra"), *scene.mail])


def with_a_message(scene: Scene) -> Scene:
    """Every actor that a message starts also tells another one something, first."""

    def actors() -> dict[str, Any]:
        def chatty(handler: Any) -> Any:
            def run(toy: Toy, what: str, payload: Any) -> Turn:
                yield Tell("listener", "Hello")
                yield Commit({"unrelated": 1}, "unrelated")
                return (yield from handler(toy, what, payload))

            return run

        started = {target for _, target, _, _ in scene.mail}
        made = {n: chatty(h) if n in started else h for n, h in scene.actors().items()}
        return made | {"listener": plain(lambda what, payload: None)}

    return changed(scene, actors=actors)


def with_a_longer_chain(scene: Scene) -> Scene:
    chains = [hops(f"more{n}", 3, mail[1]) for n, mail in enumerate(scene.mail)]

    def actors() -> dict[str, Any]:
        made = scene.actors()
        for chain, _ in chains:
            made |= chain
        return made

    mail = [(m[0], first, *m[2:]) for m, (_, first) in zip(scene.mail, chains, strict=True)]
    return changed(scene, actors=actors, mail=mail)


EDITS: Final[tuple[Callable[[Scene], Scene], ...]] = (
    with_an_actor,
    with_a_message,
    with_a_longer_chain,
    noise,
)
