"""Tables in Python: read, compared, refused; the command ``table`` shows the same."""

import pytest

import relay_int8
from relay_int8.errors import ConfigError

pytestmark = pytest.mark.fast
NCNN = "conv_param_0 31.0\nconv 12.7\n"


def write(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


def test_thresholds_are_compared(tmp_path):
    first = relay_int8.read_table(write(tmp_path, "a.json", '{"x": 2.0, "y": 4.0, "p": 1.0}'))
    second = relay_int8.read_table(write(tmp_path, "b.json", '{"x": 1.0, "y": 4.0, "q": 1.0}'))
    assert (first.format, first.names_layers) == ("ranges", False)
    comparison = relay_int8.compare_tables(first.table, second.table)
    assert dict(comparison.differences) == {"x": 0.5, "y": 0.0}
    assert dict(comparison.thresholds) == {"x": (2.0, 1.0), "y": (4.0, 4.0)}
    assert (comparison.only_in_first, comparison.only_in_second) == (("p",), ("q",))


def test_layers_need_a_model(tmp_path):
    file = write(tmp_path, "net.table", NCNN)
    assert relay_int8.read_table(file).names_layers
    with pytest.raises(ConfigError, match="a table of ncnn lists layers"):
        relay_int8.convert_table(file, tmp_path / "table.json")
    assert not (tmp_path / "table.json").exists()


def test_a_qtable_names_what_stays_in_float(tmp_path):
    modes = relay_int8.read_qtable(write(tmp_path, "net_qtable", "# qtable\nconv1 F16\nfc INT8\n"))
    assert dict(modes.modes) == {"conv1": "F16", "fc": "INT8"}
    assert modes.excluded == ("conv1",)
    assert relay_int8.read_qtable(tmp_path / "table.json") is None
