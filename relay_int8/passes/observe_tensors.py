"""Put a statistic kernel behind every observed tensor; the network returns the statistics alone.

    Before:  ...; return logits
    After:   ...; x:range = observe(x);  x:histogram = observe(x, low, inverse);  return all of them

Place:  after normalize, before LowerFloat: calibration's own network.
Exact:  integers and extrema; no float is summed.

The two statistics of a tensor share one compiled network: ``low`` and ``inverse`` (float32 (1,)
each) are inputs of it, and a histogram whose inverse is zero is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import IRModule, relax

from relay_int8 import graph
from relay_int8.calibration.histogram import BINS
from relay_int8.kernel_call import kernel_call
from relay_int8.qparams import PlannedScheme
from schedules.spec import Observe


@tvm.transform.module_pass(opt_level=0, name="ObserveTensors")
class ObserveTensors:
    """Put a statistic kernel behind every observed tensor.

    Parameters
    ----------
    schemes
        Name -> scheme of the tensors to observe; outputs come in this order, all ranges first.
    """

    def __init__(self, schemes: Mapping[str, PlannedScheme]) -> None:
        self._schemes = schemes

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the network of statistics; ``mod`` itself is left alone."""
        func = mod["main"]
        writer = graph.FunctionWriter()
        tensors = {param.name: param for param in func.params}
        done: dict[relax.Var, relax.Expr] = {}
        for var, value in graph.calls(func):
            done[var] = tensors[var.name] = writer.emit(var.name, graph.substitute(value, done))
        observed = [tensors[name] for name in self._schemes]
        ranges = [
            writer.emit(
                f"{var.name}:range",
                kernel_call(Observe(statistic="range", dims=graph.shape(var)), [var], {}),
            )
            for var in observed
        ]
        params, histograms = list(func.params), []
        for var, scheme in zip(observed, self._schemes.values(), strict=True):
            spec = Observe(
                statistic="histogram",
                dims=graph.shape(var),
                bins=BINS,
                absolute=scheme != "asymmetric",
            )
            grid = {
                name: relax.Var(f"{var.name}:{name}", relax.TensorType((1,), "float32"))
                for name in spec.params
            }
            params.extend(grid.values())
            histograms.append(writer.emit(f"{var.name}:histogram", kernel_call(spec, [var], grid)))
        return writer.finish(params, [*ranges, *histograms], graph.attributes(func))
