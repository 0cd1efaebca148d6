"""What aggregates give is a list, or a tuple, that also says who came first."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from trouper._gathered import Gathered, GatheredTuple

ORDER = (2, 0, 1)
LIST = Gathered(["a", "b", "c"], ORDER)
TUPLE: GatheredTuple[str, str, str] = GatheredTuple("abc", ORDER)


@pytest.mark.parametrize(("given", "plain"), [(LIST, list("abc")), (TUPLE, tuple("abc"))])
def test_it_is_what_it_equals_in_every_way_but_one(given: Any, plain: Any) -> None:
    assert given == plain
    assert plain == given
    assert repr(given) == repr(plain)
    assert isinstance(given, type(plain))
    assert type(given[:2]) is type(plain)
    assert type(given + plain) is type(plain)
    assert (given[1:], given[-1], len(given)) == (plain[1:], "c", 3)
    assert given != plain[:2]
    if isinstance(plain, tuple):
        assert hash(given) == hash(plain)


@pytest.mark.parametrize("given", [LIST, TUPLE])
def test_its_order_is_copied_and_pickled_with_it(given: Any) -> None:
    for again in (copy.copy(given), copy.deepcopy(given), pickle.loads(pickle.dumps(given))):
        assert type(again) is type(given)
        assert again == given
        assert again.order == ORDER


@pytest.mark.parametrize("given", [LIST, TUPLE])
def test_its_order_is_read_only(given: Any) -> None:
    with pytest.raises(AttributeError):
        given.order = (0, 1, 2)
    assert given.order == ORDER


def test_order_tells_of_the_call_and_not_of_what_was_done_to_the_list() -> None:
    found = Gathered([3, 1], (1, 0))
    found.sort()
    assert found == [1, 3]
    assert found.order == (1, 0)
