"""Which node computes a tensor: how rewrites walk from a node back to what it comes from."""

from __future__ import annotations

from collections.abc import Container, Mapping

import onnx

Producers = Mapping[str, onnx.NodeProto]
"""Tensor -> the node that computes it."""


def producers_of(graph: onnx.GraphProto) -> Producers:
    """Return the node that computes each tensor of a graph, branches and loops left out."""
    return {name: node for node in graph.node for name in node.output}


def produced_by(
    producers: Producers, name: str, kind: str, least: int = 1
) -> onnx.NodeProto | None:
    """Return the node of a kind that computes a tensor from so many inputs, at least."""
    node = producers.get(name)
    fits = node is not None and node.op_type == kind and len(node.input) >= least
    return node if fits else None


def origin_of(producers: Producers, name: str, passing: Container[str]) -> str:
    """Return what a tensor is computed from by operators of ``passing`` alone."""
    while (node := producers.get(name)) and node.op_type in passing and node.input:
        name = node.input[0]
    return name


def places_of(producers: Producers, name: str) -> onnx.NodeProto | None:
    """Return the NonZero of ``Transpose(NonZero(mask))``."""
    rows = produced_by(producers, name, "Transpose")
    return None if rows is None else produced_by(producers, rows.input[0], "NonZero")
