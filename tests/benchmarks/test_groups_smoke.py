"""The benchmark of groups runs and writes what it promises. No speed is asserted here."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

GROUPS = Path(__file__).parents[2] / "benchmarks" / "groups.py"
ROWS = {"group of 2", "group of 50", "group of 1,000", "group of 10,000"}
AGAINST_DBOS = {
    "durable effects, one after the other",
    "50 durable effects at once, all",
    "50 durable effects at once, the first",
    "50 children, rank by rank",
}
GATED = {"group of 50": 1 / 5}


def test_every_row_is_measured_and_written(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, GROUPS, "--quick", "--results", tmp_path],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "groups.json").read_text())
    rows, gated = ROWS | {"durable effects, one after the other"}, dict(GATED)
    if importlib.util.find_spec("dbos") is None:
        assert any("DBOS" in what and "gated" in what for what in found["left_out"])
    else:
        rows |= AGAINST_DBOS
        gated["durable effects, one after the other"] = 4
    assert {c["row"] for c in found["comparisons"]} >= rows
    assert all(c["ours"] > 0 and c["theirs"] > 0 for c in found["comparisons"])
    assert {c["row"]: c["must"] for c in found["comparisons"] if c["gated"]} == gated
    growths = {growth["what"] for growth in found["growths"]}
    assert {"group on LMDB, per child", "group in memory, per child"} <= growths
    if shutil.which("strace") is None:
        assert any("strace" in what for what in found["left_out"])
    else:
        assert "flushes per settlement, by children" in growths
    assert not list((GROUPS.parent / "results").glob("scratch-*"))
