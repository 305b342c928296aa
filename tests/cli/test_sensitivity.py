"""``relay-int8 sensitivity``, and the settings of tools that quantize takes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from relay_int8.demo import MODEL, load_images
from relay_int8.errors import ConfigError
from relay_int8.quantization.config import ACCURATE, Tools, chosen_tools


@pytest.mark.fast
@pytest.mark.parametrize(
    ("preset", "settings", "expected"),
    [
        ("int8", [], None),
        ("int8", ["equalization=smooth"], Tools(equalization="smooth")),
        (
            "int8",
            ["correction=empirical", "rounding=adaround", "unify=yes"],
            Tools(correction="empirical", rounding="adaround", unify=True),
        ),
        (
            "int8-accurate",
            ["rounding=nearest"],
            replace(ACCURATE, rounding="nearest"),
        ),
    ],
)
def test_chosen_tools(preset, settings, expected):
    assert chosen_tools(preset, settings) == expected


@pytest.mark.fast
@pytest.mark.parametrize("text", ["equalisation=smooth", "unify=1", "smooth", "rounding=up"])
def test_unknown_settings(text):
    with pytest.raises(ConfigError, match="unknown"):
        chosen_tools("int8", [text])


@pytest.mark.fast
def test_a_plan_needs_a_budget(invoke, tmp_path):
    code, _, error = invoke(
        "sensitivity", "model.onnx", "--data", "x.npy", "--plan", tmp_path / "plan.json"
    )
    assert code == 2 and "--min-snr" in error


def test_json_of_the_layers(invoke, tmp_path):
    np.save(tmp_path / "x.npy", load_images().calibration[:4])
    code, out, err = invoke(
        "sensitivity", MODEL, "--data", tmp_path / "x.npy", "--samples", 1, "--json"
    )
    assert code == 0, err
    found = json.loads(out)
    assert found["plan"] is None
    assert all(layer["alone"]["snr_db"] > 10 for layer in found["sensitivity"]["layers"])


@pytest.mark.slow
def test_a_plan_by_the_command_line(invoke, tmp_path, full):
    if not full:
        pytest.skip("builds seven networks; --full runs it")
    np.save(tmp_path / "x.npy", load_images().calibration[:40])
    plan, report = tmp_path / "plan.json", tmp_path / "report.json"
    data = ("--data", tmp_path / "x.npy")
    code, out, _ = invoke(
        "sensitivity",
        MODEL,
        *data,
        "--samples",
        8,
        "--report",
        report,
        "--min-snr",
        45,
        "--plan",
        plan,
    )
    assert code == 0 and "latency mixed" in out
    layers = json.loads(report.read_text())["layers"]
    assert all(layer["without"]["agreement"] <= 1 for layer in layers)
    floats = [
        layer["name"]
        for layer in json.loads(plan.read_text())["layers"]
        if layer["cause"] == "excluded"
    ]
    assert floats
    code, out, _ = invoke(
        "quantize", MODEL, *data, "--batch", 1, "--plan", plan, "-o", tmp_path / "m.ri8"
    )
    assert code == 0 and floats[0] in out
    code, out, _ = invoke("sensitivity", MODEL, *data, "--samples", 8, "--min-snr", 400)
    assert code == 0 and "exact" in out  # nothing is left in integers
