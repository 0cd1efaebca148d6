"""Both stores pass the journal suite that we ship."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from trouper.store import LmdbStore, MemoryStore, Store
from trouper.testing.conformance import journal

Make = Callable[[], Store]

MAKERS: dict[str, Callable[[Path], Store]] = {
    "lmdb": lambda path: LmdbStore(path),
    "lmdb-relaxed": lambda path: LmdbStore(path, level="relaxed"),
    "lmdb-tiny-map": lambda path: LmdbStore(path, map_size=32 * 1024, debug=True, verify="always"),
    "memory": lambda path: MemoryStore(),
    "memory-debug": lambda path: MemoryStore(debug=True, level="relaxed"),
}


@pytest.fixture(params=MAKERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MAKERS[request.param](tmp_path / "state")


@pytest.mark.parametrize("law", journal.LAWS, ids=lambda law: law.__name__)
async def test_law(law: journal.Law, store: Store) -> None:
    await law(store)


@pytest.fixture
def ground() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@pytest.mark.parametrize("kind", ["lmdb", "lmdb-tiny-map", "memory"])
@pytest.mark.parametrize(
    ("examples", "steps"), [(12, 12), pytest.param(300, 40, marks=pytest.mark.soak)]
)
def test_a_store_and_a_dict_stay_equal(kind: str, examples: int, steps: int, ground: Path) -> None:
    count = iter(range(10**9))
    machine = journal.machine(lambda: MAKERS[kind](ground / str(next(count))))
    case = machine.TestCase
    case.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    case("runTest").debug()
