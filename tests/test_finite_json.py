"""JSON of users: every text that is none, or none that can be used, is a ValueError."""

import json

import pytest

from relay_int8 import finite_json

pytestmark = pytest.mark.fast


def test_infinite_numbers_are_written_as_text():
    text = finite_json.dumps({"a": [float("inf"), -float("inf"), 1.5]})
    assert finite_json.loads(text) == {"a": ["inf", "-inf", 1.5]}


@pytest.mark.parametrize(
    "value", [{"a": [1, 2.5, None, True, "\u00e9\U0001f600"]}, [], "x", {"ud8": {"a": {"a": 1}}}]
)
def test_other_values_are_read_as_they_are(value):
    assert finite_json.loads(json.dumps(value)) == value
    assert finite_json.loads(json.dumps(value).encode("utf-16")) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        (f"[{'9' * 400}]", "an integer of 400 digits"),
        (f"[{'9' * 5000}]", "an integer of 5000 digits"),
        ('{"conv1": 1, "conv1": 2}', "'conv1' for the second time"),
        ('{"\\ud800": 1}', "surrogates not allowed"),
        ("{", "^not JSON from line 1, column 2 on$"),
        (b"\xff{}", "^it is no text$"),
    ],
)
def test_all_others_are_one_kind_of_error(text, message):
    with pytest.raises(ValueError, match=message):
        finite_json.loads(text)
