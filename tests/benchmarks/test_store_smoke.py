"""The benchmark of the store runs and writes what it promises. No speed is asserted here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

STORE = Path(__file__).parents[2] / "benchmarks" / "store.py"
ROWS = {
    "commit of 1 record",
    "commit of 32 records",
    "commit of 1,000 records",
    "commit, 10 callers",
    "commit, 1,000 callers",
    "durable tell, 1 hot actor",
    "durable tell, 10 actors",
    "durable tell, 1,000 actors, 40 each",
    "durable tell, 5,000 actors, 10 each",
    "durable ask, 1 actor, 1 asker",
    "durable ask, 1 hot actor, 200 askers",
    "durable ask, 10 actors, 1 asker each",
    "durable ask, 1,000 actors, 1 asker each",
    "durable ask, 5,000 actors, 1 asker each",
}
GATED = {
    "durable tell, 1 hot actor": 50,
    "durable tell, 1,000 actors, 40 each": 70,
    "durable ask, 1 hot actor, 200 askers": 20,
    "durable ask, 1,000 actors, 1 asker each": 25,
}


def test_every_row_is_measured_and_written(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, STORE, "--quick", "--results", tmp_path],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "store.json").read_text())
    rows = {c["row"] for c in found["comparisons"]}
    assert rows >= ROWS
    assert all(c["ours"] > 0 and c["theirs"] > 0 for c in found["comparisons"])
    assert {c["row"]: c["must"] for c in found["comparisons"] if c["gated"]} == GATED
    assert all(len(growth["costs"]) == 3 for growth in found["growths"])
    assert {"SQLite", "lmdb", "disk"} <= found["versions"].keys()
    if shutil.which("strace") is None:
        assert any("strace" in what for what in found["left_out"])
    else:
        assert {"bytes written, ask, 1 actor", "flushes, ask, 1 actor"} <= rows
    assert not list((STORE.parent / "results").glob("scratch-*"))
