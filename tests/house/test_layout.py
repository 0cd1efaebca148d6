"""The shape of the source tree: sizes, public surfaces, and what importing it drags in."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
MODULES = sorted((SRC / "trouper").rglob("*.py"))
MODULE_LINES = 400
FUNCTION_LINES = 70
# Loaded when somebody uses them, never by `import trouper`: each costs start-up time or an extra.
LAZY = (
    "cattrs",
    "wasmtime",
    "rich",
    "typer",
    "hypothesis",
    "opentelemetry",
    "pytest",
    "trio.testing",
    "trio_asyncio",
    "restate",
    "temporalio",
)


def dotted(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PACKAGES = [dotted(path) for path in MODULES if path.name == "__init__.py"]
PUBLIC = [name for name in map(dotted, MODULES) if not any(p[0] == "_" for p in name.split("."))]
by_module = pytest.mark.parametrize("path", MODULES, ids=dotted)


@by_module
def test_a_module_stays_within_400_lines(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MODULE_LINES


@by_module
def test_a_function_fits_a_screen(path: Path) -> None:
    too_long = {
        f"{node.name}:{node.lineno}": size
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }
    assert too_long == {}


@by_module
def test_a_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@by_module
def test_a_module_is_named_for_a_noun(path: Path) -> None:
    assert path.stem.strip("_") not in {"util", "utils", "helper", "helpers", "common", "misc"}


def declared(module: str) -> list[str]:
    """The names a package hands out: what its ``__init__`` re-exports or defines itself."""
    tree = ast.parse((SRC.joinpath(*module.split(".")) / "__init__.py").read_text())
    names = [
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname is not None and alias.asname == alias.name
    ]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
    return sorted(name for name in names if name == "__version__" or not name.startswith("_"))


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_a_complete_tuple(package: str) -> None:
    exported: tuple[str, ...] = importlib.import_module(package).__all__
    assert isinstance(exported, tuple)  # its order is the linter's business (RUF022)
    # `<=`: a package may also hand out names that it loads lazily, through `__getattr__`.
    assert set(declared(package)) <= set(exported)
    for name in exported:
        assert getattr(importlib.import_module(package), name) is not None


@pytest.mark.parametrize("package", PACKAGES)
def test_no_submodule_hides_a_name_that_its_package_hands_out(package: str) -> None:
    # To a type checker `from package import name` may be the submodule of that name.
    home = importlib.import_module(package)
    folder = SRC.joinpath(*package.split("."))
    inside = {path.stem for path in folder.glob("*.py")}
    inside |= {path.parent.name for path in folder.glob("*/__init__.py")}
    handed: tuple[str, ...] = home.__all__
    hidden = [n for n in handed if n in inside and not inspect.ismodule(getattr(home, n))]
    assert hidden == []


def documented(thing: object) -> bool:
    doc = getattr(thing, "__doc__", None)
    # A dataclass without a docstring gets its signature for one.
    return bool(doc) and not str(doc).startswith(f"{getattr(thing, '__name__', '')}(")


def public_members(name: str, cls: type) -> Iterator[tuple[str, object]]:
    for member, value in vars(cls).items():
        plain = value.fget if isinstance(value, property) else inspect.unwrap(value)
        plain = getattr(plain, "__func__", plain)
        if not member.startswith("_") and inspect.isfunction(plain):
            yield f"{name}.{member}", plain


def surface(module: str) -> Iterator[tuple[str, object]]:
    """Every public class and function of a module, and their public methods."""
    home = importlib.import_module(module)
    names = getattr(home, "__all__", None) or [n for n in vars(home) if not n.startswith("_")]
    for name in names:
        thing = getattr(home, name)
        if getattr(thing, "__module__", "").partition(".")[0] != "trouper":
            continue
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            yield name, thing
            if not getattr(thing, "_is_protocol", False):  # its docstring is the contract
                yield from public_members(name, thing)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_has_a_docstring(module: str) -> None:
    assert [name for name, thing in surface(module) if not documented(thing)] == []


def fresh(code: str) -> str:
    """Run code in an interpreter of its own; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_import_trouper_loads_no_engine_and_no_extra() -> None:
    loaded = fresh("import sys, trouper; print(*sys.modules)").split()
    assert "trouper" in loaded
    assert [name for name in LAZY if name in loaded] == []


def test_import_mailbox_is_the_standard_library_s() -> None:
    import mailbox

    assert mailbox.Maildir is not None
    assert fresh("import mailbox, trouper; print(mailbox.Maildir.__module__)") == "mailbox"
