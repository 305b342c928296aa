"""The tutorials and the README can be followed: their commands and their Python run, in order.

Blocks marked ``text`` are what the command before them prints; their lines are looked for.
"""

import logging
import shutil

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from relay_int8 import demo
from relay_int8.cli import app
from tests.docs.pages import ROOT, steps
from tests.mxnet_models import MxnetModel

TUTORIALS = ROOT / "docs" / "tutorials"


def follow(path, folder, monkeypatch):
    """Do what a page says, in a folder."""
    monkeypatch.chdir(folder)
    logging.getLogger().setLevel(logging.ERROR)
    names, printed = {}, ""
    for step in steps(path):
        where = f"{path.name}:{step.line}"
        if step.kind == "python":
            exec(compile(step.text, where, "exec"), names)
        elif step.kind == "command":
            # Accuracy of each layer takes a third of the time, and no page shows it.
            cut = ["--samples", "0"] if step.words[0] == "quantize" else []
            result = CliRunner().invoke(app, [*step.words, *cut])
            assert result.exit_code == 0, f"{where}: {result.output}"
            printed = squeezed(result.stdout)
        elif step.kind == "text":
            missing = [line for line in step.text.splitlines() if squeezed(line) not in printed]
            assert not missing, f"{where}: not printed: {missing}; but: {printed}"


def squeezed(text):
    return " ".join(text.split())


def test_from_onnxruntime(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    follow(TUTORIALS / "from-onnxruntime.md", tmp_path, monkeypatch)


def test_from_tensorrt(tmp_path, monkeypatch):
    follow(TUTORIALS / "from-tensorrt.md", tmp_path, monkeypatch)


def test_from_mxnet(tmp_path, monkeypatch):
    """A small network has the place of MobileFace, which the page has its numbers from."""
    net, page = MxnetModel(), TUTORIALS / "from-mxnet.md"
    y = net.conv(net.variable("data"), "conv", (8, 3, 3, 3), stride=(4, 4), pad=(1, 1))
    y = net.pool(net.relu(y, "relu"), "pool", 1, 1, kind="avg", global_pool=True)
    net.save(tmp_path, net.dense(y, "fc", (4, 8)))
    (tmp_path / "net-symbol.json").rename(tmp_path / "face-symbol.json")
    (tmp_path / "net-0000.params").rename(tmp_path / "face-0000.params")
    rng = np.random.default_rng(0)
    for folder in ("photos", "others"):
        (tmp_path / folder).mkdir()
        for number in range(3):
            pixels = rng.integers(0, 256, (120, 130, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / folder / f"{number}.png")
    images = rng.uniform(0, 255, (3, 3, 112, 112)).astype("float32")
    np.save(tmp_path / "images.npy", images)
    (recipe,) = (step.text for step in steps(page) if step.kind == "toml")
    (tmp_path / "face.toml").write_text(recipe)
    follow(page, tmp_path, monkeypatch)


def test_python_of_the_readme(tmp_path, monkeypatch):
    """The demo's network has the place of ResNet-50."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(demo.MODEL, "resnet50.onnx")
    np.savez("calibration.npz", image=demo.load_images().calibration[:16])
    (block,) = (step.text for step in steps(ROOT / "README.md") if step.kind == "python")
    setup, _, running = block.partition("network = ")
    with pytest.warns(match="leaves its batch open"):
        exec(setup, names := {})
    names["images"] = demo.load_images().test[:1]
    exec(f"network = {running}".replace('"input"', '"image"'), names)
    assert names["outputs"]["logits"].shape == (1, 10)
