"""The search for the fewest layers in float, with costs and demands made up."""

import pytest

from relay_int8.quantization.mixed_precision.fewest_floats import RETURNS, fewest_floats

pytestmark = pytest.mark.fast

ORDER = tuple("abcdefghijklmnop")
MACS = {name: 10 + place for place, name in enumerate(ORDER)}


def found(needed, order=ORDER):
    """Return what is found where a demand holds once ``needed`` are in float, and what was tried."""
    tried = []

    def holds(floats):
        tried.append("".join(floats))
        return set(needed) <= set(floats)

    return fewest_floats(order, MACS, holds), tried


def test_nothing_is_left_in_float_without_need():
    assert found("") == ((), [""])


@pytest.mark.parametrize("needed", ["a", "ab", "abc", "c", "ac", "eg", "abcdefghijklmnop"])
def test_what_is_needed_is_found(needed):
    assert "".join(found(needed)[0]) == needed


def test_few_are_measured():
    _, tried = found("f")
    assert tried == [
        "", "a", "ab", "abcd", "abcdefgh",  # doubled
        "abcdef", "abcde",  # bisected
        "f",  # the others all went back
    ]  # fmt: skip


def test_attempts_to_bring_back_are_counted_and_many_products_come_first():
    floats, tried = found("acegikmo")
    assert set("acegikmo") <= set(floats)
    returns = tried[tried.index("".join(ORDER[:15])) + 1 :]
    assert len(returns) <= RETURNS
    assert "".join(ORDER[:7]) + "o" in returns  # h to n, which have the most products


def test_not_even_all_of_them():
    floats, tried = found("z")
    assert floats is None and tried[-1] == "".join(ORDER)
    assert found("z", ())[0] is None


def test_a_demand_that_more_floats_spoil_is_still_met():
    """Top-1 on a few images goes up and down: what is returned was measured to hold."""
    good = {3, 4, 9, 16}
    floats = fewest_floats(ORDER, MACS, lambda floats: len(floats) in good)
    assert len(floats) in good
