"""Arguments that cannot be what a public call wants are named before anything is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

import relay_int8
from relay_int8.argument_types import checked
from relay_int8.errors import ConfigError

if TYPE_CHECKING:
    from relay_int8.quantization.config import QuantConfig

pytestmark = pytest.mark.fast


@checked
def call(
    path: str | Path = "",
    *,
    count: int | None = None,
    share: float = 0.0,
    flag: bool = False,
    kind: Literal["a", "b"] = "a",
    sizes: Mapping[str, Sequence[int]] | None = None,
    names: Sequence[str] = (),
    pair: tuple[int, int] | None = None,
    data: str | Mapping[str, Any] | Iterable[Any] = (),
    judge: Callable[[int], int] | None = None,
    config: QuantConfig | None = None,
) -> bool:
    return True


@checked
@dataclass(frozen=True, kw_only=True)
class Options:
    count: int | None = None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("path", (None, 7, b"x", ["x"], np.ones(2), "a\0b", "x" * 256, "a/" + "é" * 200)),
        ("count", ("7", 1.5, True, [1], np.ones(2))),
        ("share", ("0.5", None, 1j, [0.5])),
        ("flag", ("yes", 2, None, np.ones(2))),
        ("kind", (None, ["a"], np.ones(2))),
        ("sizes", (7, "x", [1], {"x": 1}, {"x": ["1"]})),
        ("names", ("abc", 7, [None])),
        ("pair", (7, "12")),
        ("data", (7, None)),
        ("judge", (7, "f")),
        ("config", (7, "int8", {})),
    ],
)
def test_what_no_annotation_means_is_refused(name, values):
    for value in values:
        with pytest.raises(ConfigError, match=rf"call: {name} is .*expected |{name} is .*no path"):
            call(**{name: value})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("path", ("x", Path("x"), "a/" * 900)),
        ("count", (None, 7, np.int64(7))),
        ("share", (1, 0.5, np.float32(0.5))),
        ("flag", (True, 1, np.bool_(True))),
        ("kind", ("b", "another, which the call itself refuses")),
        ("sizes", ({"x": (1, 2)}, {"x": np.array([1, 2])})),
        ("names", (["a"], ("a",))),
        ("pair", ((1, 2), [1, 2])),
        ("data", ("folder", {"x": 1}, [1], np.ones(2), iter([1]))),
        ("judge", (abs, None)),
        ("config", (None,)),
    ],
)
def test_what_an_annotation_may_mean_is_taken(name, values):
    for value in values:
        assert call(**{name: value})
    assert call("x")


def test_names_of_types_are_spelled_out():
    count: Any = 7
    with pytest.raises(ConfigError, match=r"expected Mapping\[str, Sequence\[int\]\]$"):
        relay_int8.ImportOptions(inputs=count)
    with pytest.raises(ConfigError, match=r"expected str \| Path \| ndarray \| .* Reader \| Cal"):
        relay_int8.compile_model("m.onnx", count, "m.ri8")
    with pytest.raises(
        ConfigError, match=r"infos is 'x.ri8' \(str\); expected Sequence\[TensorInfo"
    ):
        relay_int8.random_inputs("x.ri8")


def test_a_reader_of_onnxruntime_is_data():
    class Reader:
        def get_next(self) -> None:
            return None

    with pytest.raises(relay_int8.Int8Error, match=r"m\.onnx: no such file"):
        relay_int8.compile_model("m.onnx", Reader(), "m.ri8")


def test_classes_of_options_and_public_calls():
    count: Any = "7"
    model: Any = "m.onnx"
    others: list[Any] = [None, 7, b"x", np.ones(2), "x" * 300]
    with pytest.raises(ConfigError, match=r"Options: count is '7' \(str\); expected int | None"):
        Options(count=count)
    for wrong in others:
        with pytest.raises(ConfigError, match="load: path is"):
            relay_int8.load(wrong)
    with pytest.raises(ConfigError, match=r"quantize: model is 'm.onnx' \(str\); expected Model"):
        relay_int8.quantize(model, None)
