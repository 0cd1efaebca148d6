"""The pytest plugin: its options, what a failure prints, and what it costs who does not use it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from contextvars import Context
from pathlib import Path

import pytest

import trouper.testing._plugin  # what nested runs load stays loaded
import trouper.testing.hypothesis  # noqa: F401

pytest_plugins = ["pytester"]

RACE = Path(__file__).with_name("race.py").read_text()
NODE = "test_race.py::test_orders_come_before_closing_time"

# What test files below have in common: two tells that race, and one check of it.
HEAD = """
import pytest
from trouper import Actor, handles
from trouper.testing import Rules, replay, schedule_test


class Door(Actor[str]):
    def __init__(self, onward):
        self.onward = onward

    @handles(str)
    def on(self, word):
        self.onward(word)


async def two(sim, heard):
    shop = await sim.system.spawn(Door, heard.append, name="shop")
    door = await sim.system.spawn(Door, shop.tell, name="door")
    door.tell("close")
    shop.tell("order")
"""
OK = "async def scenario(sim):\n    heard = []\n    await two(sim, heard)\n    yield\n"


def run(pytester: pytest.Pytester, *options: str, code: str | None = None) -> pytest.RunResult:
    """Run a test file in this process; by default the race of thirty lines."""
    pytester.makepyfile(test_race=RACE if code is None else HEAD + code)
    return nested(pytester, *options)


def nested(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run pytest in this process, but apart from the run around."""
    return Context().run(pytester.runpytest_inprocess, "-p", "no:cacheprovider", *options)


def section(result: pytest.RunResult) -> list[str]:
    """Return the lines between the title of the story and the next title."""
    lines = result.outlines
    start = next(n for n, line in enumerate(lines) if re.fullmatch("-+ schedule -+", line))
    ends = (n for n, line in enumerate(lines) if n > start and re.match("[=_-]{4,} ", line))
    return lines[start + 1 : next(ends)]


# --- what a failure prints ------------------------------------------------------------------------


@pytest.mark.proves("Schedules: the text of a failure")
def test_a_failure_prints_reasons_orders_token_command_and_progress_in_this_order(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, "--schedules", "200")
    result.assert_outcomes(failed=1)
    reason, nothing, order, nothing2, token, command, progress = section(result)
    assert nothing == nothing2 == ""
    assert re.fullmatch("at `.*shop`: .*door1's str before .*desk's str", reason)
    assert re.fullmatch(r"  \S*shop  \S*door1's str, \S*desk's str", order)
    assert re.fullmatch(r"T1\.[\w-]+", token)
    assert command == f"pytest {NODE} --schedule-replay {token}"
    assert re.fullmatch(r"schedule \d+ of 200", progress)


@pytest.mark.proves("Schedules: the text of a failure")
def test_a_failure_shows_the_line_of_the_test_and_no_frame_of_the_framework(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester)
    lines = result.outlines
    assert '>       assert heard == ["order", "close"]' in lines
    assert "E       AssertionError: assert ['close', 'order'] == ['order', 'close']" in lines
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*_conduct*")
    result.stdout.no_fnmatch_line("*trio/*")


@pytest.mark.proves("Schedules: the printed line replays")
def test_the_printed_line_replays_the_failure(pytester: pytest.Pytester) -> None:
    first = section(run(pytester))
    name, *arguments = shlex.split(first[-2])
    assert name == "pytest"
    again = run(pytester, *arguments)
    again.assert_outcomes(failed=1)
    assert section(again) == [*first[:-1], "replayed its token"]


@pytest.mark.proves("Schedules: the printed line replays")
def test_a_parametrised_test_in_a_class_is_replayed_by_its_quoted_name(
    pytester: pytest.Pytester,
) -> None:
    code = """
class TestAll:
    @pytest.mark.parametrize("wanted", ["a b", "order"])
    @schedule_test(schedules=9)
    async def test_first(self, sim, wanted, tmp_path):
        heard = []
        await two(sim, heard)
        yield
        assert tmp_path.is_dir()
        assert heard[0] == wanted or wanted == "a b" and heard[0] != "close"
"""
    result = run(pytester, code=code)
    result.assert_outcomes(failed=2)
    (line,) = {line for line in result.outlines if line.startswith("pytest '") and "a b" in line}
    again = run(pytester, *shlex.split(line)[1:], code=code)
    again.assert_outcomes(failed=1)


def test_a_deadlock_is_told_by_its_text_alone(pytester: pytest.Pytester) -> None:
    code = """
import trio
from trouper import Request

class Never(Request[int]): ...

class Asker(Actor[str]):
    def __init__(self, other):
        self.other = other

    @handles(str)
    async def ask(self, word):
        await self.other.ask(Never())

class Silent(Actor[Never]):
    @handles(Never)
    async def never(self, message):
        await trio.sleep_forever()

@schedule_test()
async def test_silence(sim):
    silent = await sim.system.spawn(Silent, name="silent")
    (await sim.system.spawn(Asker, silent, name="asker")).tell("go")
    yield
"""
    result = run(pytester, code=code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["everything waits, for what will never come", "*asker waits for *silent (Never)*"]
    )
    assert not any(re.match(r"\S+\.py:\d", line) for line in result.outlines)


def test_a_failing_handler_is_shown_where_it_failed(pytester: pytest.Pytester) -> None:
    code = """
@schedule_test()
async def test_crash(sim):
    heard = []

    def hear(word):
        heard.append(word)
        assert heard != ["close"], "closed first"

    await two(sim, type("Ears", (), {"append": staticmethod(hear)}))
    yield
"""
    result = run(pytester, code=code)
    result.assert_outcomes(failed=1)
    assert '>       assert heard != ["close"], "closed first"' in result.outlines
    result.stdout.no_fnmatch_line("*During handling of*")
    assert any(line.startswith("at `") for line in section(result))


def test_what_is_printed_and_logged_is_that_of_the_failing_schedule(
    pytester: pytest.Pytester,
) -> None:
    code = """
import logging

@schedule_test()
async def test_output(sim):
    heard = []
    await two(sim, heard)
    yield
    print("heard", *heard)
    logging.warning("heard %s", heard)
    assert heard == ["order", "close"]
"""
    lines = run(pytester, code=code).outlines
    assert [line for line in lines if line.startswith("heard ")] == ["heard close order"]
    assert len([line for line in lines if line.startswith("WARNING ")]) == 1


def test_a_test_of_hypothesis_is_replayed_as_printed(pytester: pytest.Pytester) -> None:
    code = """
from hypothesis import HealthCheck, given, settings, strategies as st
from trouper.testing.hypothesis import schedules

@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schedules(), st.integers())
def test_drawn(schedule, number):
    async def scenario(sim):
        heard = []
        await two(sim, heard)
        yield
        assert heard == ["order", "close"]

    schedule.check(scenario)
"""
    first = run(pytester, code=code)
    first.assert_outcomes(failed=1)
    story = section(first)
    assert story[0] == "at `shop`: door's str before scenario's str"
    assert story[-1].startswith("drawn by Hypothesis as Schedule('")
    again = run(pytester, *shlex.split(story[-2])[1:], code=code)
    again.assert_outcomes(failed=1)
    assert section(again)[0] == story[0]


def test_a_schedule_driven_by_hand_tells_its_story_too(pytester: pytest.Pytester) -> None:
    code = """
from trouper.testing import simulate

def test_by_hand():
    heard = []

    async def scenario(sim):
        heard.clear()
        await two(sim, heard)
        yield
        assert heard == ["order", "close"]

    with simulate(scenario) as sim:
        sim.deliver("door")
        sim.deliver("shop", sender="door")
"""
    result = run(pytester, code=code)
    result.assert_outcomes(failed=1)
    assert section(result)[0] == "at `shop`: door's str before scenario's str"


def test_what_pytest_itself_raises_in_a_scenario_counts(pytester: pytest.Pytester) -> None:
    code = """
@pytest.mark.parametrize("what", ["skip", "fail", "raises"])
@schedule_test()
async def test_it(sim, what):
    heard = []
    await two(sim, heard)
    yield
    if heard == ["order", "close"]:
        return
    if what == "raises":
        with pytest.raises(ValueError):
            pass
    getattr(pytest, what)("closed early")
"""
    result = run(pytester, code=code)
    result.assert_outcomes(failed=2, skipped=1)
    result.stdout.fnmatch_lines(["*DID NOT RAISE*ValueError*"])
    assert sum("at `shop`: " in line for line in result.outlines) == 2


def test_an_error_in_the_set_up_is_shown_at_its_line(pytester: pytest.Pytester) -> None:
    code = """
@schedule_test()
async def test_it(sim):
    await sim.system.spawn(Door)
    yield
"""
    result = run(pytester, code=code)
    result.assert_outcomes(failed=1)
    assert ">       await sim.system.spawn(Door)" in [line[:36] for line in result.outlines]
    assert section(result)[0] == "It fails in the ordinary order, too."


def test_a_failure_that_does_not_come_again_is_said_not_to(pytester: pytest.Pytester) -> None:
    code = """
turns = []

@schedule_test(tries=1)
async def test_once(sim):
    turns.append(len(turns))
    await two(sim, [])
    yield
    assert len(turns) != 2
"""
    result = run(pytester, code=code)
    result.assert_outcomes(failed=1)
    assert section(result)[-1].startswith("Replayed at once it did not fail: something that no")


def test_a_scenario_that_yields_twice_is_told_so(pytester: pytest.Pytester) -> None:
    code = """
@schedule_test()
async def test_twice(sim):
    yield
    yield
"""
    result = run(pytester, code=code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*yield once*"])
    assert not any(re.match(r"\S+\.py:\d", line) for line in result.outlines)


def test_a_scenario_that_never_rests_is_told_by_its_text_alone(
    pytester: pytest.Pytester,
) -> None:
    code = """
class Restless(Actor[str]):
    @handles(str)
    def on(self, word, ctx):
        ctx.self_ref.tell(word)

@schedule_test(rules=Rules(fair_after=20, max_steps=50))
async def test_restless(sim):
    (await sim.system.spawn(Restless, name="restless")).tell("again")
    yield
"""
    result = run(pytester, code=code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["not at rest after 50 steps, next would be: `restless` gets *"])
    assert not any(re.match(r"\S+\.py:\d", line) for line in result.outlines)


def test_a_decorated_coroutine_fails_collection_at_its_line(pytester: pytest.Pytester) -> None:
    code = """
@schedule_test(schedules=3)
async def test_without_a_yield(sim):
    await two(sim, [])
"""
    result = run(pytester, code=code)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*test_without_a_yield has no `yield`: write *"])
    result.stdout.no_fnmatch_line("*_schedule_test.py*")


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--schedules", "0"), "--schedules: explore 1 schedule or more, not 0"),
        (("--schedules", "many"), "invalid int value: 'many'"),
        (("--schedule-seed", "x"), "invalid int value: 'x'"),
        (("--schedule-strategy", "best"), "no strategy is called 'best'; there are portfolio, dfs"),
        (("--schedule-strategy", "pct:0"), "no strategy is called 'pct:0'"),
        (("--schedule-replay", "T1.x"), "no token of a schedule: *Copy the whole line"),
        (("--schedule-replay", "T9.xxxx"), "the token is of version 9"),
        (("--schedule-chart", "test_race.py"), "test_race.py is a file, not a folder"),
    ],
)
@pytest.mark.proves("Schedules: bad input")
def test_an_option_that_means_nothing_is_a_usage_error(
    pytester: pytest.Pytester, options: tuple[str, str], text: str
) -> None:
    result = run(pytester, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{text}*"])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_options_go_before_what_the_test_says(pytester: pytest.Pytester) -> None:
    options = ("--schedules", "3", "--schedule-seed", "5", "--schedule-strategy", "fifo")
    result = run(pytester, *options)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"{NODE}: 1 explored, not exhausted; *; no failure"])


@pytest.mark.proves("Schedules: a budget is a result")
def test_an_exhausted_search_says_so(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--schedule-strategy", "dfs", code=f"@schedule_test()\n{_named(OK)}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*explored, exhausted; * no failure"])


def test_a_chart_is_drawn_as_text_and_svg(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--schedule-chart", "charts/today")
    folder = pytester.path / "charts" / "today"
    name = "test_race-test_orders_come_before_closing_time"
    assert sorted(path.name for path in folder.iterdir()) == [f"{name}.svg", f"{name}.txt"]
    assert (folder / f"{name}.svg").read_text().startswith("<svg")
    result.stdout.fnmatch_lines([f"*drawn: {folder / name}.svg"])


def test_a_chart_of_a_test_with_a_long_name_has_a_file_all_the_same(
    pytester: pytest.Pytester,
) -> None:
    code = """
@pytest.mark.parametrize("name", ["x" * 300 + "1", "x" * 300 + "2/3"])
@schedule_test(schedules=9)
async def test_long(sim, name):
    heard = []
    await two(sim, heard)
    yield
    assert heard == ["order", "close"]
"""
    run(pytester, "--schedule-chart", "charts", code=code).assert_outcomes(failed=2)
    names = [path.name for path in (pytester.path / "charts").iterdir()]
    assert len(names) == 4
    assert max(map(len, names)) < 150


def test_a_token_that_no_longer_fails_is_said_to(pytester: pytest.Pytester) -> None:
    token = section(run(pytester))[-3]
    fixed = RACE.replace('heard == ["order", "close"]', 'sorted(heard) == ["close", "order"]')
    pytester.makepyfile(test_race=fixed)
    result = nested(pytester, "--schedule-replay", token)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*replayed; it does not fail any more"])


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("test_orders_come", "test_others_come", "the token was printed for another scenario*"),
        ('name="shop"', 'name="store"', "the scenario ended well, but what the token puts in *"),
    ],
)
@pytest.mark.proves("Schedules: tokens")
def test_a_token_of_other_code_is_refused_by_its_text_alone(
    pytester: pytest.Pytester, old: str, new: str, text: str
) -> None:
    token = section(run(pytester))[-3]
    pytester.makepyfile(test_race=RACE.replace(old, new))
    result = nested(pytester, "--schedule-replay", token)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([text])
    assert not any(re.match(r"\S+\.py:\d", line) for line in result.outlines)


# --- what it costs others -------------------------------------------------------------------------


@pytest.mark.proves("Schedules: beside other tests")
def test_who_does_not_use_it_loads_nothing(pytester: pytest.Pytester) -> None:
    code = """
    def test_plain(request):
        import sys
        assert request.config.pluginmanager.has_plugin("trouper")
        roots = {name.partition(".")[0] for name in sys.modules}
        assert not roots & {"trouper", "trio", "lmdb", "hypothesis"}
    """
    pytester.makepyfile(code)
    result = pytester.runpytest_subprocess("-p", "no:trio", "-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1)


def test_without_the_plugin_a_failure_carries_its_story_as_a_note(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, "-p", "no:trouper")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *at `*shop`: *", "E *T1.*", "E *schedule * of 200"])


def test_the_options_are_explained(pytester: pytest.Pytester) -> None:
    shown = pytester.runpytest_inprocess("--help").stdout.str()
    assert "--schedule-job" not in shown
    for option in ("schedules=N", "schedule-seed=S", "schedule-strategy=NAME", "replay=TOKEN"):
        assert option in shown


def test_the_options_module_imports_nothing_but_pytest() -> None:
    code = "import sys, pytest; had = set(sys.modules); import _trouper_pytest\n"
    code += "print(*set(sys.modules) - had)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "_trouper_pytest"


def _named(scenario: str) -> str:
    return scenario.replace("async def scenario", "async def test_it")
