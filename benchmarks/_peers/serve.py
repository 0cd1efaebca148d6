"""The other end of `_kit.process`: runs benches by name until its input closes.

``python -m _peers.serve SYSTEM [--fork]``; one request and one answer per line, both JSON. With
``--fork`` every bench runs in a child of its own, and the answer names it: see `_kit.instructions`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import asdict


def main() -> None:
    """Serve one system."""
    benches = importlib.import_module(f"_peers.{sys.argv[1]}").BENCHES
    for line in sys.stdin:
        bench, ops, actors = json.loads(line)
        if "--fork" not in sys.argv:
            print(json.dumps(asdict(benches[bench](ops, actors))), flush=True)
        elif child := os.fork():
            os.waitpid(child, 0)
        else:
            sample = asdict(benches[bench](ops, actors))
            print(json.dumps(sample | {"pid": os.getpid()}), flush=True)
            os._exit(0)


if __name__ == "__main__":
    main()
