"""The other end of `_kit.process`: runs benches by name until its input closes.

``python -m _peers.serve SYSTEM``; one request and one answer per line, both JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict


def main() -> None:
    """Serve one system."""
    benches = importlib.import_module(f"_peers.{sys.argv[1]}").BENCHES
    for line in sys.stdin:
        bench, ops, actors = json.loads(line)
        print(json.dumps(asdict(benches[bench](ops, actors))), flush=True)


if __name__ == "__main__":
    main()
