"""The states of a mailbox, in the order the hot path compares them.

A turn may start only in RUNNING and DRAINING, so one comparison with DRAINING decides.
"""

from __future__ import annotations

from typing import Final

RUNNING: Final = 0
DRAINING: Final = 1  # handles what is queued, takes nothing more
STARTING: Final = 2  # takes mail, handles none yet
FAILED: Final = 3  # crashed; keeps its mail and takes more until its supervisor has decided
STOPPING: Final = 4  # closed and emptied
STOPPED: Final = 5
JOB: Final = 6  # not mailboxes: what else may stand on `ready`
STEPPER: Final = 7

STATE_NAMES: Final = ("running", "draining", "starting", "failed", "stopping", "stopped")
