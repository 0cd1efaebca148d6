"""``trouper run`` and ``trouper inspect``, as a shell sees them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SHOP = """
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from trouper import Activation, Reject, durable, effect
import trio

@effect
def add(a: int, b: int) -> int:
    return a + b

@effect
async def hold() -> None:
    print("holding", flush=True)
    await trio.sleep_forever()

@durable
async def total(act: Activation, n: int, what: str = "x") -> dict:
    return {"n": await act.call(add, n, 1), "what": what}

@durable
async def both(act: Activation, n: int) -> list:
    return await act.all_of(act.call(add, n, 1), act.call(add, n, 2))

@durable
async def holds(act: Activation) -> None:
    await act.call(hold)

@durable
async def refuses(act: Activation) -> None:
    raise Reject("no such order")

@dataclass
class Parcel:
    weight: Decimal
    due: date

@durable
async def sends(act: Activation, parcel: Parcel) -> tuple[Parcel, str]:
    return parcel, type(parcel).__name__

plain = 5
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def trouper(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from trouper.cli import main; sys.exit(main())"]
    return subprocess.run(
        [*command, *arguments], cwd=where, capture_output=True, text=True, timeout=60
    )


def run(where: Path, *arguments: str, key: str = "k") -> subprocess.CompletedProcess[str]:
    return trouper(where, "run", *arguments, "--store", "state", "--key", key)


def test_run_prints_the_result_and_a_second_time_the_stored_one(shop: Path) -> None:
    first = run(shop, "shop:total", "4", "hello")
    assert (first.returncode, json.loads(first.stdout)) == (0, {"n": 5, "what": "hello"})
    again = run(shop, "shop:total", "4", "hello")
    assert again.stdout == first.stdout
    inspected = trouper(shop, "inspect", "state", "effects", "--json")
    (effect,) = map(json.loads, inspected.stdout.splitlines())
    assert (effect["name"], effect["state"], effect["attempts"]) == ("shop.add", "completed", 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere:total"], "no module 'nowhere'"),
        (["shop:nothing"], "has no 'nothing'"),
        (["shop:plain"], "not durable"),
        (["shop"], "MODULE:ACTIVITY"),
    ],
)
def test_a_wrong_activity_is_wrong_use(shop: Path, arguments: list[str], says: str) -> None:
    wrong = run(shop, *arguments)
    assert wrong.returncode == 2
    assert says in wrong.stderr
    assert "Traceback" not in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [([], "missing a required argument"), (["1", "2", "3"], "too many positional")],
)
def test_arguments_that_do_not_fit_are_wrong_use(
    shop: Path, arguments: list[str], says: str
) -> None:
    done = run(shop, "shop:total", *arguments)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.replace("\u2502", " ").split())
    assert "Traceback" not in done.stderr


def test_arguments_and_result_in_json_are_what_the_annotations_say(shop: Path) -> None:
    sent = '{"weight": "1.50", "due": "2026-11-30"}'
    first = run(shop, "shop:sends", sent)
    assert json.loads(first.stdout) == [json.loads(sent), "Parcel"], first.stderr
    assert run(shop, "shop:sends", sent).stdout == first.stdout
    wrong = run(shop, "shop:sends", '{"weight": "heavy"}', key="other")
    assert wrong.returncode == 2
    assert "args[0].weight" in wrong.stderr


def test_a_failed_job_names_the_line_that_raised(shop: Path) -> None:
    done = run(shop, "shop:total", '{"a": 1}')
    assert done.returncode == 1
    assert "(raised at shop.py:10 in add)" in done.stderr


def test_a_key_with_other_arguments_is_refused_in_one_line(shop: Path) -> None:
    run(shop, "shop:total", "4")
    other = run(shop, "shop:total", "5")
    assert other.returncode == 2
    assert other.stderr.count("\n") == 1
    assert "arguments [4], not [5]" in other.stderr


def test_a_failed_job_is_status_1_in_one_line(shop: Path) -> None:
    failed = run(shop, "shop:refuses")
    assert (failed.returncode, failed.stderr) == (1, "trouper: no such order\n")


def test_an_interrupt_says_how_to_go_on_and_loses_nothing(shop: Path) -> None:
    command = [sys.executable, "-c", "import sys; from trouper.cli import main; sys.exit(main())"]
    arguments = ["run", "shop:holds", "--store", "state", "--key", "k"]
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=shop,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "holding\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "goes on from state" in said
    assert "Traceback" not in said
    inspected = trouper(shop, "inspect", "state", "--json")
    assert json.loads(inspected.stdout)["state"] == "running"


@pytest.mark.parametrize("kind", ["activations", "effects", "groups", "operations"])
def test_inspect_shows_each_kind_as_a_table(shop: Path, kind: str) -> None:
    run(shop, "shop:total", "4")
    shown = trouper(shop, "inspect", "state", kind)
    assert shown.returncode == 0
    wanted = "holds no" if kind in ("groups", "operations") else "k"
    assert wanted in shown.stdout
    if wanted == "holds no":
        assert "; ask for its activations, actors, effects, " in shown.stdout


def test_inspect_of_groups_lists_those_that_are_left_and_counts_the_others(shop: Path) -> None:
    for number, key in enumerate(("a", "b")):
        trouper(shop, "run", "shop:both", "1", "--key", key, "--store", "state")
        shown = trouper(shop, "inspect", "state", "groups")
        assert shown.stdout == f"0 open, 0 closed, {number + 1} retired\n"
    lines = trouper(shop, "inspect", "state", "groups", "--json").stdout.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["retired", "retired"]


def test_inspect_of_no_store_is_refused_and_makes_none(shop: Path) -> None:
    refused = trouper(shop, "inspect", "nowhere")
    assert refused.returncode == 2
    assert "nowhere" in refused.stderr
    assert not (shop / "nowhere").exists()
