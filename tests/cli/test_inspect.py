"""``trouper inspect``: what it says of unfinished work, also beside whoever has it open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from trouper import (
    Activation,
    Backoff,
    LmdbStore,
    OutcomeUnknown,
    durable,
    effect,
    open_system,
)
from trouper.actors import inspect
from trouper.actors.groups import open_group, signal, timer
from trouper.cli import main
from trouper.store import read

COMMAND = [sys.executable, "-c", "import sys; from trouper.cli import main; sys.exit(main())"]


@effect(attempts=5, backoff=Backoff(first=1000, cap=1000, jitter=0))
async def flaky() -> None:
    raise ConnectionError("no route")


@effect
async def quick(n: int) -> int:
    return n


@durable
async def waits(act: Activation) -> Any:
    return await act.wait_signal("go")


@durable
async def races(act: Activation) -> Any:
    return (await act.race(act.call(quick, 1), act.call(flaky))).value


async def failed_twice(system: Any) -> None:
    """The loser of the race, and the child of the group that is kept."""
    while sum(view.failures for view in inspect.groups(system.store)) < 2:
        await wait_all_tasks_blocked(0.01)


async def make(path: Path) -> None:
    """Leave work of every kind behind."""
    async with open_system("shop", store=LmdbStore(path), shutdown=0) as system:
        system.start(waits, key="waits")
        await system.run(races, key="races")
        await system.signal("waits", "other", {"n": 1})
        async with open_group(system.host, "kept", [quick.call(1), timer(1000), flaky.call()]):
            await failed_twice(system)
            await (await system.operation("paid", 1)).run(paid)
            await system.operation("planned", 1)
            with pytest.raises(OutcomeUnknown, match="reset"):
                await (await system.operation("lost", 1)).run(lost)
    async with open_system("shop", store=LmdbStore(path), shutdown=0) as system:
        handle = open_group(system.host, "open", [signal("go"), quick.call(2)])
        await system.host.open_group(handle.group)


async def paid(key: str) -> str:
    return "paid"


async def lost(key: str) -> str:
    raise OSError("reset")


def lines(capsys: Any, *arguments: object) -> list[dict[str, Any]]:
    assert main(["inspect", *map(str, arguments), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def shown(capsys: Any, *arguments: object) -> str:
    assert main(["inspect", *map(str, arguments)]) == 0
    out: str = capsys.readouterr().out
    return out


async def test_unfinished_work_is_shown_with_counts_and_ages(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "s"
    await make(path)
    groups = {view["key"]: view for view in lines(capsys, path, "groups")}
    assert {key: view["state"] for key, view in groups.items() if "#" not in key} == {
        "kept": "closed",
        "open": "open",
    }
    kept = groups["kept"]
    assert (kept["children"], kept["settled"], kept["failures"]) == (3, 1, 1)
    assert kept["due"] > kept["opened_at"]
    assert kept["age"] >= 0
    assert kept["unroutable"] is None
    effects = lines(capsys, path, "effects")
    (failed,) = [view for view in effects if view["key"] == "kept/2"]
    assert (failed["failures"], failed["state"]) == (1, "open")
    assert failed["due"] > 0
    (activation, _) = sorted(lines(capsys, path), key=lambda view: view["key"], reverse=True)
    assert (activation["key"], activation["waits_for"]) == ("waits", "signal go")
    (waiting,) = lines(capsys, path, "signals")
    assert (waiting["key"], waiting["name"], waiting["payload"]) == ("waits", "other", {"n": 1})
    operations = {view["key"]: view["status"] for view in lines(capsys, path, "operations")}
    assert operations == {"paid": "completed", "planned": "pending", "lost": "unknown"}


async def test_the_tables_end_with_counts_by_state(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "s"
    await make(path)
    told = shown(capsys, path, "groups").splitlines()
    assert told[-1] == "1 open, 2 closed, 0 retired"
    assert not any("unroutable" in line for line in told)
    assert any("failures" in line for line in told)
    told = shown(capsys, path, "operations").splitlines()
    assert told[-1] == "1 pending, 0 running, 1 unknown, 0 failed, 1 completed"
    assert not any("conflicts" in line for line in told)
    assert shown(capsys, path).splitlines()[-1] == "1 running, 1 completed, 0 failed, 0 cancelled"


async def test_with_code_it_says_what_there_is_none_for(tmp_path: Path) -> None:
    path = tmp_path / "s"
    await make(path)
    (tmp_path / "other.py").write_text("")
    run = subprocess.run(  # noqa: ASYNC221 - beside nothing
        [*COMMAND, "inspect", "s", "groups", "--import", "other", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = {view["key"]: view for view in map(json.loads, run.stdout.splitlines())}
    assert found["kept"]["unroutable"] == 1  # its timer needs no code
    with read(path) as source:
        knows = {("effect", "x"): True}
        (waiting,) = [
            view
            for view in inspect.activations(source.rows, knows=lambda *what: what in knows)
            if view.key == "waits"
        ]
    assert waiting.routable is False


async def test_it_reads_beside_the_owner_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s"
    await make(path)
    async with LmdbStore(path) as store:
        epoch = store.epoch
        run = subprocess.run(  # noqa: ASYNC221 - the owner does nothing meanwhile
            [*COMMAND, "inspect", str(path), "groups"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert f"process {os.getpid()} has it open" in run.stderr
        assert "1 open, 2 closed, 0 retired" in run.stdout
    async with LmdbStore(path) as store:
        assert store.epoch == epoch + 1


async def test_a_row_that_cannot_be_read_is_left_out_and_said(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "s"
    await make(path)
    data = path / "data.mdb"
    content = data.read_bytes()
    assert content.count(b"planned") >= 1
    data.write_bytes(content.replace(b"planned", b"plannex"))
    assert main(["inspect", str(path), "operations"]) == 0
    told = capsys.readouterr()
    assert "left out" in told.err
    assert "0 pending" in told.out


async def test_a_journal_of_which_nothing_can_be_read_is_not_called_empty(
    tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "s"

    @durable(name="lonely")
    async def lonely(act: Activation) -> int:
        return 1

    async with open_system("t", store=path, activities=[lonely]) as system:
        await system.run(lonely, key="the-only-one")
    data = path / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"the-only-one", b"the-only-onf"))
    assert main(["inspect", str(path), "operations"]) == 0
    assert "holds no operations; ask" in capsys.readouterr().out
    assert main(["inspect", str(path)]) == 0
    assert "holds no activations that can be read; ask" in capsys.readouterr().out
