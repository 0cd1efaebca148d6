"""Loads trio-asyncio for the snippets, past a warning that is none of ours."""

from __future__ import annotations

import warnings
from contextlib import suppress

with suppress(ImportError), warnings.catch_warnings():
    # From Python 3.12 on asyncio deprecates a class that trio-asyncio derives from.
    warnings.simplefilter("ignore", DeprecationWarning)
    import trio_asyncio  # type: ignore[import-untyped]  # noqa: F401
