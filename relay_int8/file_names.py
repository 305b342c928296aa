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
    if path.suffix == ".params":
        prefix = path.stem.rpartition("-")[0] or path.stem
        symbol = path.with_name(f"{prefix}{SYMBOL}")
        return (
            f"{path} holds the weights of an MXNet model alone: give its graph, {symbol}, which "
            "finds them, or names them with --params"
        )
    symbol = path.parent / f"{path.name}{SYMBOL}"  # a path may be without a name
    if not path.exists() and symbol.is_file():
        return f"{path} is the prefix of an MXNet model: give its graph, {symbol}"
    return None


def instead_of_artifact(path: Path) -> str | None:
    """Say what to do with a model where an artifact is expected; None for any other file."""
    if not path.name.lower().endswith(MODELS):
        return None
    stem = path.name.removesuffix(SYMBOL) if path.name.endswith(SYMBOL) else path.stem
    return (
        f"{path} is a model, and an artifact is expected: make one with relay-int8 quantize "
        f"{path} --data IMAGES -o {stem}.ri8; inspect "
        "takes models too"
    )
