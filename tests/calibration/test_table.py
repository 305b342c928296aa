"""Tables: exact round trips, broken files, checks against a model."""

import contextlib
import json

import numpy as np
import pytest

from relay_int8.calibration import CalibrationTable, Entry, Grid, Histogram, Range
from relay_int8.errors import CalibrationError
from relay_int8.graph.digest import Identity
from relay_int8.numerics.qparams import QParams

F = np.float32
pytestmark = pytest.mark.fast


def entry(scheme="u8", low=0.0, high=5.5, **more):
    observed = Range(F(low), F(high), 7, 0)
    settings = {"observed": observed, "method": "max", **more}
    return Entry(scheme=scheme, low=F(low), high=F(high), **settings)


def table(**more):
    grid = Grid(F(0), F(5.5), True, 4)
    entries = {
        "data": entry("s8", -0.1, 0.1),
        "1/relu:0 (ü)": entry(histogram=Histogram(grid, np.array([5, 0, 2, 10**12]))),
        "dead": entry(high=0.0, notes=("all values are zero",)),
        "gone": entry(observed=Range(images=3, nonfinite=4)),
    }
    means = {"data": F([0.1, -1e-45, 3.4028235e38, 1 / 3])}
    settings = {"model_hash": "abc", "images": 7, "notes": ("few",), "means": means}
    return CalibrationTable(**{"entries": entries, **settings, **more})


def test_round_trip(tmp_path):
    path = tmp_path / "table.json"
    table().save(path)
    found = CalibrationTable.load(path)
    assert found.to_json() == table().to_json()
    assert list(found.entries) == list(table().entries)
    for name, want in table().entries.items():
        got = found.entries[name]
        assert (got.scheme, got.low, got.high, got.observed, got.method, got.notes) == (
            (want.scheme, want.low, want.high, want.observed, want.method, want.notes)
        )
    counts = found.entries["1/relu:0 (ü)"].histogram.counts
    np.testing.assert_array_equal(counts, [5, 0, 2, 10**12])
    np.testing.assert_array_equal(found.means["data"], F([0.1, -1e-45, 3.4028235e38, 1 / 3]))
    assert [item.name for item in tmp_path.iterdir()] == ["table.json"]


def test_every_float32_survives():
    bits = np.random.default_rng(0).integers(0, 0x7F800000, 3000, dtype=np.uint32)
    highs = np.concatenate([bits.view(F), F([1e-45, 3.4028235e38, 0.1, 1 / 3])])
    entries = {str(i): entry(high=high) for i, high in enumerate(highs)}
    found = CalibrationTable.from_json(table(entries=entries).to_json())
    np.testing.assert_array_equal([item.high for item in found.entries.values()], highs)
    assert all(isinstance(item.high, np.float32) for item in found.entries.values())


def test_numbers_are_short():
    assert json.loads(table().to_json())["tensors"]["data"]["high"] == 0.1
    assert '"high": 0.1,' in table().to_json()
    assert '"counts": "5 0 2 1000000000000"' in table().to_json()


def test_qparams_of_entries():
    assert entry().qparams() == QParams(F(5.5 / 255), 0, 0, 255, "uint8")
    assert entry(high=0.0).qparams().scale == 1


def test_a_failed_save_keeps_the_old_file(tmp_path):
    path = tmp_path / "table.json"
    table().save(path)
    before = path.read_text()
    broken = table(entries={"x": entry(high=np.nan)})
    with pytest.raises(ValueError, match="JSON"):
        broken.save(path)
    assert path.read_text() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_check_lists_everything():
    fits = list(table().entries)
    table().check(fits, Identity("abc"))
    table().check(fits)
    table(model_hash="").check(fits, Identity("xyz"))
    with pytest.raises(CalibrationError) as caught:
        table().check(["data", "dead", "new1", "new2"], Identity("xyz"))
    message = str(caught.value)
    for part in ("model abc, this is xyz", "new1, new2", "no tensors 1/relu:0 (ü), gone"):
        assert part in message


@pytest.mark.parametrize(
    ("mine", "other", "fits"),
    [("w", "w", True), ("w", "v", False), ("", "", False), ("w", "", False), ("", "w", False)],
)
def test_a_table_is_for_inputs_of_every_size(mine, other, fits):
    ranges = table(weights_hash=mine)
    assert CalibrationTable.from_json(ranges.to_json()).weights_hash == mine
    assert not ranges.is_of_other_sizes(Identity("abc", mine))
    assert ranges.is_of_other_sizes(Identity("xyz", other)) == fits
    with contextlib.nullcontext() if fits else pytest.raises(CalibrationError, match="this is xyz"):
        ranges.check(list(ranges.entries), Identity("xyz", other))


def test_check_compares_schemes():
    table().check({"data": "input", "1/relu:0 (ü)": "u8", "dead": "input", "gone": "u8"})
    with pytest.raises(CalibrationError, match="data was calibrated as s8, the plan says u8"):
        table().check({"data": "u8", "1/relu:0 (ü)": "u8", "dead": "u8", "gone": "u8"})
    with pytest.raises(CalibrationError, match="dead was calibrated as u8, the plan says asym"):
        table().check(dict.fromkeys(table().entries, "asymmetric"))


def edited(**changes):
    document = json.loads(table().to_json())
    for key, value in changes.items():
        document[key] = value
    return json.dumps(document)


def entry_edited(**changes):
    document = json.loads(table().to_json())
    document["tensors"]["data"].update(changes)
    return json.dumps(document)


def without(key):
    document = json.loads(table().to_json())
    del document["tensors"]["data"][key]
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        (table().to_json()[:-40], "is the file complete"),
        ("[]", "format"),
        ('{"format": "x"}', "format"),
        (edited(version=2), "version 2 found, 1 expected"),
        (edited(tensors=[1]), "broken"),
        (edited(images="many"), "broken"),
        (edited(notes=3), "broken"),
        (edited(means={"data": "1 nan"}), "a mean is nan"),
        (edited(means=[1]), "broken"),
        (edited(tensors={"a": 1, "b": {}}), "a: .*b: "),
        (entry_edited(scheme="s16"), "data: .*s16"),
        (entry_edited(low="0"), "data: .*number"),
        (entry_edited(low=True), "data: .*number"),
        (entry_edited(high=1e39), "data: .*not a finite float32"),
        (entry_edited(low=3), "data: .*ascending"),
        (entry_edited(scheme="u8"), "data: .*starts at"),
        (entry_edited(histogram={}), "data: .*counts"),
        (without("method"), "data: .*method"),
        (without("observed"), "data: .*observed"),
        (edited().replace("-0.1", "NaN"), "data: .*finite"),
    ],
)
def test_broken_tables(tmp_path, text, message):
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(CalibrationError, match=message) as caught:
        CalibrationTable.load(path)
    assert str(path) in str(caught.value)


def test_unreadable_tables(tmp_path):
    with pytest.raises(CalibrationError, match="cannot be read"):
        CalibrationTable.load(tmp_path / "absent.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(CalibrationError, match="cannot be read"):
        CalibrationTable.load(tmp_path / "binary.json")
