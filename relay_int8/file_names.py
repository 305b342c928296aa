"""What the name of a file says: whether it is a model, and what a user meant who named another."""

from __future__ import annotations

from pathlib import Path

SYMBOL = "-symbol.json"
MODELS = (".onnx", ".pt2", ".tflite", SYMBOL)
MODEL_SUFFIXES = (".json", ".onnx", ".pt2", ".tflite")
"""Endings of the files that are models, not artifacts; a ``.json`` file is a graph of MXNet."""


def is_model(path: Path) -> bool:
    """Whether a file's name is that of a model."""
    return path.suffix.lower() in MODEL_SUFFIXES


def instead_of_model(path: Path) -> str | None:
    """Say which file to give in place of an MXNet prefix or its weights; None for any other."""
    if (symbol := _graph_of(path)) is None:
        return None
    if path.suffix == ".params":
        return (
            f"{path} holds the weights of an MXNet model alone: give its graph, {symbol}, which "
            "finds them, or takes them as ImportOptions(params=...)"
        )
    return f"{path} is the prefix of an MXNet model: give its graph, {symbol}"


def _graph_of(path: Path) -> Path | None:
    """Return the graph of an MXNet model whose weights or prefix ``path`` is."""
    if path.suffix == ".params":
        return path.with_name(f"{path.stem.rpartition('-')[0] or path.stem}{SYMBOL}")
    symbol = path.parent / f"{path.name}{SYMBOL}"  # a path may be without a name
    return symbol if not path.exists() and symbol.is_file() else None


def instead_of_artifact(path: Path) -> str | None:
    """Say what to do with a model where an artifact is expected; None for any other file."""
    model = _graph_of(path) or path
    if not model.name.lower().endswith(MODELS):
        return None
    what = "is a model" if model == path else "is of an MXNet model"
    stem = model.name.removesuffix(SYMBOL) if model.name.endswith(SYMBOL) else model.stem
    return (
        f"{path} {what}, and an artifact is expected: make one with relay_int8.compile_model, or "
        f"with relay-int8 quantize {model} --data IMAGES -o {stem}.ri8"
    )


def absent(path: Path) -> str:
    """Say what is there in place of a file."""
    if path.is_dir():
        return "a folder"
    if path.exists():
        return "a pipe or a device, not a file"
    return "a link to nothing" if path.is_symlink() else "no such file"
