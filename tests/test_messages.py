"""What does not fit, in few words."""

import pytest

from relay_int8.messages import few, other_model

pytestmark = pytest.mark.fast


def test_few_names_of_many():
    assert few([]) == ""
    assert few(list("abcdef")) == "a, b, c, d, e, f"
    assert few(list("abcdefg")) == "a, b, c, d, e and 2 more"


def test_another_model():
    mine, other = "ab" * 32, "cd" * 32
    assert other_model(mine, mine) is None
    assert other_model("", mine) is None and other_model(mine, "") is None
    assert other_model(other, mine) == "made for model cdcdcdcdcdcd, this is abababababab"
