"""A plan in a file, perhaps edited or written by hand: the layers it leaves in float."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tvm import IRModule

from relay_int8 import finite_json
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import ConfigError, RecordError
from relay_int8.files import write_atomic
from relay_int8.graph import dataflow
from relay_int8.graph.digest import float_digest
from relay_int8.graph.plan import Plan
from relay_int8.messages import other_model, unreadable
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig


def save_plan(plan: Plan, path: Path | str) -> None:
    """Write a plan as JSON, whole or not at all; :func:`read_plan` reads it back."""
    write_atomic(Path(path), (plan.to_json() + "\n").encode())


def read_plan(path: Path | str) -> Plan:
    """Return the plan in a file.

    Raises
    ------
    RecordError
        If the file is no plan.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read as a plan: {unreadable(error)}") from error
    try:
        return Plan.from_json(text)
    except finite_json.MISREAD as error:
        raise RecordError(
            f"{path}: not a plan of relay-int8 ({error}); relay-int8 sensitivity --plan writes one"
        ) from error


def with_plan(config: QuantConfig, path: Path | str, mod: IRModule) -> QuantConfig:
    """Return ``config`` with the layers excluded that a plan file leaves in float by choice.

    Parameters
    ----------
    path
        The file. Where it names its model, that must be ``mod``.
    mod
        Imported float module.

    Raises
    ------
    RecordError
        If the file is no plan, or one of another model.
    ConfigError
        If it names layers that ``mod`` does not have, or ``mod`` is quantized already.
    """
    plan = read_plan(path)
    if dataflow.is_quantized(mod):
        raise ConfigError(
            f"{path}: the model is quantized already and keeps its own scales; leave the plan out"
        )
    reference = normalize()(mod)
    other = other_model(plan.model_hash, float_digest(reference))
    if other:
        raise RecordError(
            f"{path}: {other}; run relay-int8 sensitivity --plan on this model, or take "
            "model_hash out of the file to use its names all the same"
        )
    try:
        annotate(reference, QuantConfig(exclude=plan.exclusions))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return replace(config, exclude=(*config.exclude, *plan.exclusions))
