"""A network that another tool quantized, as it is: its scales, its zero points, our integers."""

from __future__ import annotations

import tvm
from tvm import IRModule

from relay_int8.calibration.table import CalibrationTable
from relay_int8.compiler.passes.lower.realize import realized_groups
from relay_int8.compiler.passes.qdq.remove_qdq import RemoveQdq
from relay_int8.compiler.pipeline import normalize, normalized
from relay_int8.errors import ConfigError
from relay_int8.graph.digest import digest
from relay_int8.graph.plan import LayerPlan, Plan
from relay_int8.graph.requantize import with_requantize
from relay_int8.operators.registry import operator_of
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.quantization.refusals import require_integers


def adopt(mod: IRModule, config: QuantConfig | None = None) -> QuantizedModel:
    """Return an imported QDQ model, with what becomes of each of its layers.

    Nothing is calibrated: a layer is computed in integers where the file has Q/DQ pairs around it
    and it has an integer form; the others stay in float, each with its reason. The float network
    that it is compared with has the constants of the file, rounded as they are.

    Raises
    ------
    ConfigError
        If ``config`` chooses what the model has chosen already.
    CoverageError
        With ``config.require_int8``, if a convolution or matrix product stays in float.
    """
    config = config or QuantConfig()
    _refuse_choices(config)
    canonical, declined = normalized(mod)
    mod = with_requantize(canonical, config.requantize)
    plan = _plan(mod)
    require_integers(plan, config)
    return QuantizedModel(
        mod=mod,
        reference=tvm.transform.Sequential([RemoveQdq(), normalize()])(mod),
        plan=plan,
        table=CalibrationTable(entries={}),
        digest=digest(mod),
        model_hash=digest(mod),
        config=config,
        declined=declined,
        adopted=True,
    )


def _refuse_choices(config: QuantConfig) -> None:
    default = QuantConfig()
    names = ("preset", "method", "exclude", "bias_correction", "tools")
    chosen = [name for name in names if getattr(config, name) != getattr(default, name)]
    if chosen:
        raise ConfigError(
            f"the model is quantized already and keeps its own scales: {', '.join(chosen)} would "
            "have no effect; leave that out, or give the float model"
        )


def _plan(mod: IRModule) -> Plan:
    layers = [
        LayerPlan(
            name=group.name,
            root=str(group.members[0].name),
            kind=group.kind,
            macs=operator_of(group).macs(group),
            reason=reason,
            cause=""
            if reason is None
            else "unsupported"
            if operator_of(group).pays_alone
            else "unneeded",
        )
        for group, reason in realized_groups(mod)
    ]
    return Plan(tensors={}, layers=tuple(layers))
