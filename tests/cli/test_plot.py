"""relay-int8 plot: one figure as a PNG picture, its wrong uses as messages."""

import numpy as np
import pytest
from PIL import Image

from tests.report.test_report import REPORT
from tests.report.test_report_page import TABLE

pytestmark = pytest.mark.fast


@pytest.fixture
def files(tmp_path):
    REPORT.save(tmp_path / "r.json")
    TABLE.save(tmp_path / "t.json")
    return tmp_path


@pytest.mark.parametrize("kind", ["histogram", "integers", "divergence"])
def test_a_tensor(invoke, files, kind):
    pytest.importorskip("matplotlib")
    picture = files / "x.png"
    arguments = (files / "t.json", "--kind", kind, "--tensor", "a/conv<1>&x:0", "-o", picture)
    code, out, err = invoke("plot", *arguments)
    assert code == 0, err
    assert out.split()[-1] == str(picture)
    assert_drawn(picture, "histogram" in kind)


def test_the_layers(invoke, files):
    pytest.importorskip("matplotlib")
    code, _, err = invoke("plot", files / "r.json", "--kind", "layers", "-o", files / "x.PNG")
    assert code == 0, err
    assert_drawn(files / "x.PNG", False)


def assert_drawn(path, many_colours):
    pixels = np.asarray(Image.open(path).convert("RGB"))
    assert pixels.shape == (600, 1200, 3)
    inside = pixels[100:500, 150:1050].reshape(-1, 3)
    coloured = inside[np.ptp(inside, axis=1) > 40]
    assert len(coloured) > 20
    assert len(np.unique(coloured // 64, axis=0)) > 5 or not many_colours


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("t.json", "--tensor", "x", "-o", "x.png"), 1, "no tensor is called 'x'; there are image"),
        (("t.json", "--tensor", "image", "-o", "x.svg"), 1, "pictures are PNG"),
        (("t.json", "--tensor", "image", "-o", "no/x.png"), 1, "there is no folder no"),
        (("t.json", "--tensor", "image", "-o", "folder.png"), 1, "it is a folder"),
        (("t.json", "-o", "x.png"), 2, "the other kinds one --tensor"),
        (("r.json", "--kind", "layers", "--tensor", "image", "-o", "x.png"), 2, "draws a report"),
        (("r.json", "--tensor", "image", "-o", "x.png"), 1, "not a calibration table"),
        (("t.json", "--kind", "layers", "-o", "x.png"), 1, "not a report"),
    ],
)
def test_wrong_uses_are_messages(invoke, files, monkeypatch, arguments, code, message):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(files)
    (files / "folder.png").mkdir()
    found, _, err = invoke("plot", *arguments)
    assert found == code
    assert message in " ".join(err.replace("│", " ").split())


def test_without_matplotlib(invoke, files, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    code, _, err = invoke("plot", files / "t.json", "--tensor", "image", "-o", files / "x.png")
    assert code == 1 and "pip install 'relay-int8[pages]'" in err
