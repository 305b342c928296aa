"""Notices name the line of the user; the command line prints each once."""

import warnings

import pytest

import relay_int8
from relay_int8.demo import MODEL
from relay_int8.notices import Notice, notice, printed_notices

pytestmark = pytest.mark.fast


def test_the_line_is_the_callers():
    with pytest.warns(Notice) as found:
        relay_int8.load_model(MODEL)
    assert [item.filename for item in found] == [__file__]


def test_each_is_printed_once_and_other_warnings_are_left(capsys):
    with pytest.warns(RuntimeWarning, match="other"), printed_notices():
        for text in ("one", "two", "one"):
            notice(text)
        warnings.warn("other", RuntimeWarning, stacklevel=1)
    assert capsys.readouterr() == ("", "note: one\nnote: two\n")
