"""docs/cuda.md shows what the code makes today."""

import dataclasses
import importlib.util

import pytest

from benchmarks.gpu.cuda_page import (
    PAGE,
    convolution_forms,
    excerpts_of,
    generated,
    stable,
    written,
)
from schedules.cuda.dp4a.tiles import Tiles

COMMAND = "python -m benchmarks.gpu.cuda_page --write"


@pytest.fixture(scope="module")
def found():
    return convolution_forms()


@pytest.fixture(scope="module")
def page():
    return excerpts_of(PAGE.read_text())


def test_forms_and_integers_are_what_the_compiler_makes(found, page):
    for name, text in stable(found).items():
        assert page[name] == text, f"{name} has changed; {COMMAND}"


def test_generated_code_is_of_the_same_kind(found, page):
    """Loops may improve before the page is written again; what it says of them must still hold."""
    for package in ("nvidia.cuda_nvrtc", "nvidia.cu13"):
        if importlib.util.find_spec("nvidia") is None or importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}, of the extras cuda and sass")
    made = generated(found)
    assert made.keys() | stable(found).keys() == page.keys()
    marks = {
        "loops": ("blockIdx.x", "threadIdx.x", "staged_shared", "pipelined", "requantize", "write"),
        "cuda": ("__dp4a(",),
        "ptx": ("dp4a.u32.s32",),
        "sass": ("IDP.4A.U8.S8", "LDS"),
        "resources": (" registers, ", " 0 loads and stores of spilled registers"),
    }
    for name, words in marks.items():
        for word in words:
            assert word in page[name] and word in made[name], f"{name}: {word}; {COMMAND}"


@pytest.mark.fast
def test_every_knob_is_explained(page):
    section = PAGE.read_text().partition("## 6.")[2].partition("## 7.")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    explained = {name.strip("` ") for row in rows for name in row.split(",")}
    shown = {line.split()[0] for line in page["tiles"].splitlines()}
    knobs = {field.name for field in dataclasses.fields(Tiles)}
    assert explained == knobs, f"explain {explained ^ knobs} in the table of {PAGE.name}"
    assert shown == knobs, COMMAND


@pytest.mark.fast
def test_only_what_is_between_marks_is_written():
    text = "before\n<!-- begin a -->\nold\n<!-- end a -->\n<!-- begin b -->\nkept\n<!-- end b -->\n"
    new = written(text, {"a": "new"})
    assert new == text.replace("old\n", "```\nnew\n```\n")
    assert excerpts_of(new)["a"] == "new"
