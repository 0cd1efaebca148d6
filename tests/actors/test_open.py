"""What `open_system` takes."""

from __future__ import annotations

from typing import Any

import pytest

from trouper.actors import open_system


@pytest.mark.parametrize("store", [5, b"state", object()])
async def test_what_is_neither_a_path_nor_a_store_is_refused(store: Any) -> None:
    with pytest.raises(TypeError, match=r"store= takes the path of a directory as a text, or"):
        async with open_system("s", store=store):
            pass
