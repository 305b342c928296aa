"""A tiny writer of QDQ graphs, so that a test reads like the network it means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax


class QdqBuilder:
    """Writes ``main`` call by call.

    >>> net = QdqBuilder()
    >>> x = net.quantized(net.input("x", (1, 3, 8, 8)), 0.1, 0, "uint8")
    >>> y = net.emit("y", relax.op.nn.relu(net.conv("c", x, w, s_w=0.02, bias=b)))
    >>> mod = net.module(net.quantized(y, 0.05))
    """

    def __init__(self) -> None:
        self._builder = relax.BlockBuilder()
        self._params: list[relax.Var] = []
        self._bindings: list[relax.VarBinding] = []
        self._scales: dict[str, tuple[np.float32, int]] = {}
        self._ranges: dict[str, list[int]] = {}

    def input(self, name: str, shape: tuple[Any, ...], dtype: str = "float32") -> relax.Var:
        """Declare a parameter; an extent that is a string is symbolic."""
        extents = [tvm.tirx.Var(e, "int64") if isinstance(e, str) else e for e in shape]
        self._params.append(relax.Var(name, relax.TensorType(extents, dtype)))
        return self._params[-1]

    def emit(self, name: str, value: relax.Expr) -> relax.Var:
        """Bind a call to the Var ``name``, taken literally (":" included)."""
        value = self._builder.normalize(value)
        self._bindings.append(relax.VarBinding(relax.DataflowVar(name, value.ty), value))
        return self._bindings[-1].var

    def quantized(
        self,
        x: relax.Expr,
        s: Any,
        z: int = 0,
        dtype: str = "int8",
        *,
        qrange: tuple[int, int] | None = None,
        name: str | None = None,
        axis: int = -1,
    ) -> relax.Var:
        """Return x quantized (``name:q``) and dequantized (``name:dq``)."""
        name = name or x.name
        scale = np.asarray(s, np.float32)
        zero = np.full(scale.shape, z, dtype)
        s_z = (relax.const(scale), relax.const(zero))
        q = self.emit(f"{name}:q", relax.op.quantize(x, *s_z, axis=axis, out_dtype=dtype))
        if qrange:
            self._ranges[q.name] = list(qrange)
        return self.emit(f"{name}:dq", relax.op.dequantize(q, *s_z, axis=axis))

    def integers(
        self, name: str, shape: tuple[Any, ...], s: float, z: int = 0, dtype: str = "int8"
    ) -> relax.Var:
        """Return an input whose integers (``name:q``) the test chooses: see :meth:`feed`."""
        self._scales[name] = np.float32(s), z
        return self.quantized(self.input(name, shape), s, z, dtype)

    def feed(self, integers: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the float inputs that :meth:`integers` quantizes to the arrays ``integers``."""
        reals = {}
        for name, q in integers.items():
            s, z = self._scales[name]
            reals[name] = (q.astype(np.int64) - z).astype(np.float32) * s
        return reals

    def weight(self, name: str, w: Any, s_w: Any, axis: int = 0) -> relax.Var:
        """Return a constant quantized to [-127, 127], a scale a channel (one scale is repeated)."""
        w = np.asarray(w, np.float32)
        scales = np.broadcast_to(np.asarray(s_w, np.float32), (w.shape[axis],)).copy()
        return self.quantized(relax.const(w), scales, name=name, qrange=(-127, 127), axis=axis)

    def conv(
        self, name: str, x: relax.Expr, w: Any, s_w: Any, bias: Any = None, **attrs: Any
    ) -> relax.Var:
        """Return conv2d of x with quantized ``w`` (name:w), plus bias (oc,) if there is one."""
        w_dq = self.weight(f"{name}:w", w, s_w)
        y = self.emit(name, relax.op.nn.conv2d(x, w_dq, **attrs))
        if bias is None:
            return y
        b = relax.const(np.asarray(bias, np.float32).reshape(1, -1, 1, 1))
        return self.emit(f"{name}:b", relax.op.add(y, b))

    def dense(self, name: str, x: relax.Expr, w: Any, s_w: Any, bias: Any = None) -> relax.Var:
        """Return x @ quantized ``w`` (k, n) (name:w), plus bias (n,) if there is one."""
        y = self.emit(name, relax.op.matmul(x, self.weight(f"{name}:w", w, s_w, axis=1)))
        if bias is None:
            return y
        return self.emit(f"{name}:b", relax.op.add(y, relax.const(np.asarray(bias, np.float32))))

    def module(self, *outputs: relax.Expr) -> tvm.IRModule:
        """Return the module; its outputs are the Vars ``outputs``."""
        value = outputs[0] if len(outputs) == 1 else relax.Tuple(outputs)
        value = self._builder.normalize(value)
        returned = relax.Var("outputs", value.ty)
        block = relax.DataflowBlock([*self._bindings, relax.VarBinding(returned, value)])
        body = self._builder.normalize(relax.SeqExpr([block], returned))
        func = relax.Function(self._params, body, returned.ty)
        func = func.with_attr("global_symbol", "main")
        if self._ranges:
            func = func.with_attr("int8.qrange", json.dumps(self._ranges))
        return tvm.IRModule({"main": func})
