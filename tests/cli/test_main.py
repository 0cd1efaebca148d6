from __future__ import annotations

import subprocess
import sys

import pytest

import trouper
from trouper.cli import _app, _main, main
from trouper.errors import InvariantError, StoreOwned

Capture = pytest.CaptureFixture[str]


def test_version_is_told(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"trouper {trouper.__version__}\n"


@pytest.mark.parametrize("arguments", [["--nope"], ["nope"]])
def test_wrong_use_exits_2_and_points_at_the_help(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "trouper -h" in told.err


def test_without_its_extra_the_command_says_what_to_install() -> None:
    # An interpreter of its own, in which typer cannot be found.
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'typer' else find(name, *a)\n"
        "from trouper.cli import main; sys.exit(main(['--version']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == ("trouper: the command line is an extra: pip install 'trouper[cli]'\n")


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_app(arguments: object) -> int:
        raise error

    monkeypatch.setattr(_app, "run_app", run_app)


def test_a_mistake_of_the_user_s_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    failing(StoreOwned("jobs.db is open in process 7: stop it, or wait"), monkeypatch)
    assert main([]) == 2
    assert capsys.readouterr().err == "trouper: jobs.db is open in process 7: stop it, or wait\n"


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(InvariantError("unreachable"), monkeypatch)
    with pytest.raises(InvariantError):
        main([])


def test_the_installed_command_is_main() -> None:
    from importlib.metadata import entry_points

    (command,) = entry_points(group="console_scripts", name="trouper")
    assert command.load() is _main.main
