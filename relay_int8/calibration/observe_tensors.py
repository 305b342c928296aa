"""Put a statistic kernel behind every observed tensor; the network returns the statistics alone.

    Before:  ...; return logits
    After:   ...; x:range = observe(x);  x:histogram = observe(x * factors, low, inverse);
             x:means = channel_means(x);  x:extremes = channel_extremes(x);
             return all of them

Place:  after normalize, before LowerFloat: calibration's own network.
Exact:  integers and extrema; of the means, the sum ascends over one image, whatever the schedule.

Range and histogram of a tensor share one compiled network: ``low`` and ``inverse`` (float32 (1,)
each) are inputs of it, and a histogram whose inverse is zero is not counted. So are the factors of
a tensor whose channels may be scaled, float32 (1, channels, 1, 1), or (channels,) where these are
the last axis; others have none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.calibration.methods import Max, Method
from relay_int8.graph import dataflow
from relay_int8.graph.spec_calls import kernel_call
from relay_int8.numerics.channel_means import averaged
from relay_int8.numerics.qparams import PlannedScheme
from schedules.spec import MAGNITUDE, SIGNED, Binary, ChannelExtremes, ChannelMeans, Observe


@tvm.transform.module_pass(opt_level=0, name="ObserveTensors")
class ObserveTensors:
    """Put a statistic kernel behind every observed tensor.

    Parameters
    ----------
    schemes
        Name -> scheme of the tensors to observe; outputs come in this order, all ranges first.
    means
        Names of the tensors whose channel means follow the histograms, see
        :func:`relay_int8.calibration.observe.averaged`.
    method
        Whose histograms are counted.
    scalable
        Names of the observed tensors whose channels may be scaled, axis 1 of (n, c, h, w), else the
        last axis: their factors are the last inputs; least and greatest values of channels, float32
        (2, channels), the last outputs.
    """

    def __init__(
        self,
        schemes: Mapping[str, PlannedScheme],
        means: Sequence[str] = (),
        method: Method | None = None,
        scalable: Sequence[str] = (),
    ) -> None:
        self._schemes = schemes
        self._means = means
        self._method = method or Max()
        self._scalable = scalable

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the network of statistics; ``mod`` itself is left alone."""
        func = mod["main"]
        writer = dataflow.FunctionWriter()
        tensors = {param.name: param for param in func.params}
        done: dict[relax.Var, relax.Expr] = {}
        for var, value in dataflow.calls(func):
            done[var] = tensors[var.name] = writer.emit(var.name, dataflow.substitute(value, done))
        observed = [tensors[name] for name in self._schemes]
        images = [_as_image(writer, var) for var in observed]
        ranges = [
            writer.emit(
                f"{var.name}:range",
                kernel_call(Observe(statistic="range", dims=dataflow.shape(image)), [image], {}),
            )
            for var, image in zip(observed, images, strict=True)
        ]
        factors = {name: _factors(tensors[name]) for name in self._scalable}
        params, histograms = list(func.params), []
        for var, image, scheme in zip(observed, images, self._schemes.values(), strict=True):
            spec = Observe(
                statistic="histogram",
                dims=dataflow.shape(image),
                bins=self._method.bins,
            )
            grid = {
                name: relax.Var(f"{var.name}:{name}", relax.TensorType((1,), "float32"))
                for name in ("low", "inverse")
            }
            params.extend(grid.values())
            counted = image
            if var.name in factors:
                counted = _as_image(writer, _scaled(writer, var, factors[var.name]))
            is_absolute = self._method.absolute("s8" if scheme == "input" else scheme)
            mask = np.array([MAGNITUDE if is_absolute else SIGNED], np.int32)
            call = kernel_call(spec, [counted], {**grid, "mask": mask})
            histograms.append(writer.emit(f"{var.name}:histogram", call))
        means = [_mean(writer, tensors[name], last) for name, last in map(averaged, self._means)]
        extremes = [_extremes(writer, tensors[name]) for name in self._scalable]
        outputs = [*ranges, *histograms, *means, *extremes]
        return writer.finish([*params, *factors.values()], outputs, dataflow.attributes(func))


def _as_image(writer: dataflow.FunctionWriter, var: relax.Var) -> relax.Var:
    """Return a tensor with four axes, so that one kernel serves tensors of any rank."""
    dims = dataflow.shape(var)
    if len(dims) == 4 or not all(isinstance(size, int) for size in dims):
        return var
    return writer.emit(f"{var.name}:row", relax.op.reshape(var, (1, 1, 1, math.prod(dims))))


def _factors(var: relax.Var) -> relax.Var:
    dims = dataflow.shape(var)
    shape = (1, dims[1], 1, 1) if len(dims) == dataflow.IMAGE else (dims[-1],)
    return relax.Var(f"{var.name}:factors", relax.TensorType(shape, "float32"))


def _scaled(writer: dataflow.FunctionWriter, var: relax.Var, factors: relax.Var) -> relax.Var:
    """Write a tensor times the factors of its channels."""
    rank, channels = len(dataflow.shape(var)), dataflow.shape(factors)
    if rank != len(channels):
        row = relax.op.reshape(factors, (1,) * (rank - 1) + channels)
        factors = writer.emit(f"{var.name}:factors/row", row)
    spec = Binary(
        operator="mul",
        a_shape=dataflow.shape(var),
        b_shape=dataflow.shape(factors),
        a="float32",
        b="float32",
        y="float32",
    )
    call = kernel_call(spec, [var, factors], {"clamp": np.array([-np.inf, np.inf], np.float32)})
    return writer.emit(f"{var.name}:scaled", call)


def _mean(writer: dataflow.FunctionWriter, var: relax.Var, last: bool) -> relax.Var:
    """Write the means of the channels, the ``last`` axis of four or axis 1: float32 (channels,)."""
    value, image = _image(writer, var, last)
    m = np.full(1, 1.0 / (image[2] * image[3]), np.float32)
    call = kernel_call(ChannelMeans(dims=image), [value], {"m": m})
    return writer.emit(f"{var.name}:means", call)


def _extremes(writer: dataflow.FunctionWriter, var: relax.Var) -> relax.Var:
    """Write the least and the greatest value of each channel: float32 (2, channels)."""
    value, image = _image(writer, var, last=False)
    return writer.emit(
        f"{var.name}:extremes", kernel_call(ChannelExtremes(dims=image), [value], {})
    )


def _image(
    writer: dataflow.FunctionWriter, var: relax.Var, last: bool
) -> tuple[relax.Expr, tuple[int, int, int, int]]:
    """Write a tensor as one image of its channels, the ``last`` axis of four or axis 1."""
    dims = dataflow.shape(var)
    value: relax.Expr = var
    if len(dims) == 4 and not last:
        batch, channels, height, width = dims
        image = (1, channels, batch * height, width)
        if batch != 1:  # an image cut into several: their rows are one below the other
            turned = writer.emit(f"{var.name}:turned", relax.op.permute_dims(var, (1, 0, 2, 3)))
            value = writer.emit(f"{var.name}:image", relax.op.reshape(turned, image))
    else:
        image = (1, dims[-1], int(np.prod(dims[:-1])), 1)
        if image[2] != 1:
            rows = relax.op.reshape(var, (image[2], image[1]))
            columns = relax.op.permute_dims(writer.emit(f"{var.name}:rows", rows))
            value = writer.emit(f"{var.name}:columns", columns)
        value = writer.emit(f"{var.name}:image", relax.op.reshape(value, image))
    return value, image
