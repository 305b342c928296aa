"""What does not fit, in few words."""

import pytest

import relay_int8
from relay_int8.file_names import absent
from relay_int8.messages import few, other_model
from relay_int8.quantization.plan_file import read_plan
from relay_int8.report.contents import read_report

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


def test_what_stands_in_place_of_a_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "none")
    assert [absent(tmp_path / name) for name in ("", "link", "none")] == [
        "a folder",
        "a link to nothing",
        "no such file",
    ]


@pytest.mark.parametrize("read", [relay_int8.read_table, read_report, read_plan])
def test_files_that_are_no_text(tmp_path, read):
    (tmp_path / "x.json").write_bytes(b"PK\xd0")
    with pytest.raises(
        relay_int8.Int8Error, match=r"x\.json: cannot be read as .*: it is no text$"
    ):
        read(tmp_path / "x.json")
    with pytest.raises(
        relay_int8.Int8Error, match=r"cannot be read as .*: no such file or directory$"
    ):
        read(tmp_path / "none.json")
