"""The suites are plain modules of the package: pytest is told to explain their assertions too."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("trouper.testing.conformance")
