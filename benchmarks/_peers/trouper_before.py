"""The benches of `trouper_actors` on an earlier trouper: the one that the environment names."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.environ["TROUPER_BEFORE"])

from .trouper_actors import BENCHES

__all__ = ("BENCHES",)
