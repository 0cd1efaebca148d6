"""What the pytest plugin does once it is needed; its options are in ``_trouper_pytest``."""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from collections.abc import Generator, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from _trouper_pytest import OPTIONS

from ..errors import TokenRefused, UnknownStrategy
from ._setting import SETTING, Setting
from .schedules import decode_token
from .schedules._strategies import depth_of

_SETTING: Final = pytest.StashKey[Setting]()
_LONGEST: Final = 120  # letters of the name of a drawing
_REMARKS: Final = "schedules"  # the property of a report under which remarks travel


def check(config: pytest.Config) -> None:
    """Refuse what cannot be meant by an option.

    Raises:
        pytest.UsageError: An option has a value that means nothing.
    """
    schedules: int | None = config.getoption("schedules")
    if schedules is not None and schedules < 1:
        raise pytest.UsageError(f"--schedules: explore 1 schedule or more, not {schedules}")
    strategy: str | None = config.getoption("schedule_strategy")
    token: str | None = config.getoption("schedule_replay")
    try:
        if strategy is not None:
            depth_of(strategy)
        if token is not None:
            decode_token(token)
    except UnknownStrategy as exc:
        raise pytest.UsageError(f"--schedule-strategy: {exc}") from None
    except TokenRefused as exc:
        raise pytest.UsageError(f"--schedule-replay: {exc}") from None
    charts: str | None = config.getoption("schedule_chart")
    if charts is not None and Path(charts).exists() and not Path(charts).is_dir():
        raise pytest.UsageError(f"--schedule-chart: {charts} is a file, not a folder")


def setting_of(item: pytest.Item) -> Setting:
    """Return what the command line asks of a test."""
    option = item.config.getoption
    charts: str | None = option("schedule_chart")
    job: str | None = option("schedule_job")
    return Setting(
        schedules=option("schedules"),
        seed=option("schedule_seed"),
        strategy=option("schedule_strategy"),
        token=option("schedule_replay"),
        rerun=f"pytest {shlex.quote(_node(item))} --schedule-replay {{token}}",
        child=_child(item),
        chart=None if charts is None else _chart(item, charts),
        checks_determinism=bool(option("schedule_check_determinism")),
        confirms_crash=bool(option("schedule_real_crash")),
        job=None if job is None else Path(job),
        forget=partial(_forget, item.config),
    )


def _forget(config: pytest.Config) -> None:
    manager, logs = map(config.pluginmanager.get_plugin, ("capturemanager", "logging-plugin"))
    if manager is not None:
        manager.read_global_capture()
    if logs is not None:
        logs.report_handler.reset()


def _node(item: pytest.Item) -> str:
    """Return the id of a test as it is typed where pytest was started."""
    _, colons, name = item.nodeid.partition("::")
    here = item.config.invocation_params.dir
    path = item.path
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}{colons}{name}"


def _chart(item: pytest.Item, charts: str) -> Path:
    """Return the file for a drawing: named like the test, however that is called."""
    called = f"{item.path.stem}-{item.nodeid.partition('::')[2]}"
    name = re.sub(r"[^\w.\-]+", "_", called).strip("_")
    if len(name) > _LONGEST:
        digest = hashlib.blake2b(item.nodeid.encode(), digest_size=4).hexdigest()
        name = f"{name[:_LONGEST]}-{digest}"
    return item.config.invocation_params.dir / charts / name


def _child(item: pytest.Item) -> tuple[str, ...]:
    """Return the command that runs this one test in another process, configured like this run."""
    config = item.config
    node = f"{item.path}::{item.nodeid.partition('::')[2]}"
    options = ["-q", f"--rootdir={config.rootpath}", f"--import-mode={config.option.importmode}"]
    for plugin in ("no:cacheprovider", *config.option.plugins):
        options += ["-p", plugin]
    for value in config.option.override_ini or ():
        options += ["-o", value]
    if config.inipath is not None:
        options += ["-c", str(config.inipath)]
    return (sys.executable, "-m", "pytest", *options, node)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Tell the test how it was called."""
    __tracebackhide__ = True
    item.stash[_SETTING] = setting = setting_of(item)
    before = SETTING.set(setting)
    try:
        return (yield)
    finally:
        SETTING.reset(before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the story of a failing schedule below what the test raised."""
    report = yield
    setting = item.stash.get(_SETTING, None)
    if setting is None or call.when != "call":
        return report
    findings = setting.findings
    report.user_properties += [(_REMARKS, remark) for remark in findings.remarks]
    if report.failed and call.excinfo is not None:
        if findings.is_bare:
            report.longrepr = call.excinfo.getrepr(style="value")
        for failure in findings.failures:
            _below(report, failure.story())
    return report


def _below(report: pytest.TestReport, story: str) -> None:
    told: Any = report.longrepr
    if hasattr(told, "addsection"):  # shown also with --show-capture=no
        told.addsection("schedule", story, "-")
    else:
        report.sections.append(("schedule", story))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how far exploration got, if it was asked for on the command line."""
    if not any(config.getoption(name) not in (None, False) for name in OPTIONS):
        return
    told = [
        (report.nodeid, remark)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
        for remark in _remarks(report.user_properties)
    ]
    if told:
        terminalreporter.section("schedules")
    for node, remark in told:
        terminalreporter.write_line(f"{node}: {remark}")


def _remarks(properties: Iterable[tuple[str, object]]) -> Iterable[str]:
    return [str(value) for name, value in properties if name == _REMARKS]
