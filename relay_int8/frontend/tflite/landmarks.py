"""MediaPipe's operators on landmarks: what turns a part of an image upright, and back.

    matrix = Landmarks2TransformMatrix(landmarks)    from pixels of the part to those of the image
    part   = TransformTensorBilinear(image, matrix)  the part, interpolated; zero outside the image
    y      = TransformLandmarks(x, matrix)           landmarks of the part, in the image

A matrix is (n, 4, 4), of which the first two rows move x and y; landmarks are (n, count, 2 or 3).
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.small_matrices import product
from relay_int8.frontend.tflite.step import Converter, TfliteStep
from relay_int8.frontend.tflite.tensors import Image, Result
from relay_int8.graph.dataflow import shape


def _matrix_of_landmarks(step: TfliteStep) -> Result:
    """Return the matrix of the box around some landmarks, turned so that two lie on a line."""
    left, right = step.integer("left_rotation_idx", 0), step.integer("right_rotation_idx", 0)
    subset = step.options["subset_idxs"]
    size = np.array([step.integer("output_width", 1), step.integer("output_height", 1)], "float32")
    scale = np.array([step.number("scale_x"), step.number("scale_y")], "float32")
    n, count, dimensions = shape(step.plain(0))
    if not isinstance(subset, tuple) or not subset or max(left, right, *subset) >= count:
        raise ValueError(f"its landmarks are {subset}, {left} and {right} of {count}")
    if min(subset) < 0 or dimensions < 2:
        raise ValueError(f"its landmarks are {subset} of {dimensions} coordinates")
    points = step.emit("points", relax.op.strided_slice(step.plain(0), [2], [0], [2]))
    turn = _turn(step, points, left, right, step.number("target_rotation_radians"))
    chosen = step.emit("chosen", relax.op.take(points, relax.const(np.array(subset)), 1, "clip"))
    turned = step.emit("turned", _moved(step, chosen, turn))
    high = step.emit("high", relax.op.max(turned, [1], keepdims=True))
    low = step.emit("low", relax.op.min(turned, [1], keepdims=True))
    extent = step.emit("extent", relax.op.subtract(high, low))
    total = step.emit("sum", relax.op.add(high, low))
    middle = step.emit("middle", relax.op.multiply(total, relax.const(np.float32(0.5))))
    back = step.emit("back", relax.op.permute_dims(turn, [0, 2, 1]))
    scales = step.emit("scales", relax.op.multiply(extent, relax.const(scale / size)))
    linear = step.emit("linear", relax.op.multiply(back, scales))
    corner = relax.const((-size / 2).reshape(1, 1, 2))
    centre = step.emit("centre", _moved(step, middle, back))
    moved = step.emit(
        "move", relax.op.add(step.emit("corner", _moved(step, corner, linear)), centre)
    )
    column = step.emit("column", relax.op.reshape(moved, (n, 2, 1)))
    depth = relax.const(np.zeros((n, 2, 1), "float32"))
    rows = step.emit("rows", relax.op.concat([linear, depth, column], 2))
    last = np.broadcast_to(np.eye(4, dtype="float32")[2:], (n, 2, 4))
    return relax.op.concat([rows, relax.const(np.ascontiguousarray(last))], 1)


def _turn(step: TfliteStep, points: relax.Expr, left: int, right: int, target: float) -> relax.Expr:
    """Return the (n, 2, 2) matrix that turns a line from ``left`` to ``right`` to an angle."""
    ends = [
        step.emit("end", relax.op.strided_slice(points, [1], [index], [index + 1]))
        for index in (left, right)
    ]
    line = step.emit("line", relax.op.subtract(ends[1], ends[0]))
    dx, dy = (
        step.emit("difference", relax.op.strided_slice(line, [2], [axis], [axis + 1]))
        for axis in (0, 1)
    )
    angle = step.emit("angle", relax.op.atan2(dy, dx))
    turn = step.emit("turn", relax.op.subtract(relax.const(np.float32(target)), angle))
    cos, sin = step.emit("cos", relax.op.cos(turn)), step.emit("sin", relax.op.sin(turn))
    minus = step.emit("minus", relax.op.negative(sin))
    rows = [
        step.emit("row", relax.op.concat([cos, minus], 2)),
        step.emit("row", relax.op.concat([sin, cos], 2)),
    ]
    return step.emit("rotation", relax.op.concat(rows, 1))


def _transformed_image(step: TfliteStep) -> Result:
    """Sample an image where the centres of the result's pixels are moved to."""
    x = step.image(0)
    n, _, height, width = shape(x)
    rows, columns = step.integer("output_height", 1), step.integer("output_width", 1)
    linear, move = _moves(step, n)
    pixels = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), -1).reshape(1, -1, 2)
    centres = relax.const((pixels + 0.5).astype("float32"))
    moved = step.emit("moved", _moved(step, centres, linear))
    half = step.emit("half", relax.op.subtract(move, relax.const(np.float32(0.5))))
    places = step.emit("places", relax.op.add(moved, half))
    last = np.array([width - 1, height - 1], "float32")
    is_inside = step.emit(
        "inside",
        relax.op.logical_and(
            step.emit("from", relax.op.greater_equal(places, relax.const(np.float32(0)))),
            step.emit("to", relax.op.less_equal(places, relax.const(last))),
        ),
    )
    grid = relax.op.multiply(places, relax.const(np.float32(2) / np.maximum(last, 1)))
    grid = relax.op.subtract(step.emit("scaled", grid), relax.const(np.float32(1)))
    grid = relax.op.permute_dims(step.emit("shifted", grid), [0, 2, 1])
    grid = step.emit("grid", relax.op.reshape(step.emit("planes", grid), (n, 2, rows, columns)))
    y = step.emit("sampled", relax.op.image.grid_sample(x, grid, align_corners=True))
    counted = step.emit("counted", relax.op.astype(is_inside, "float32"))
    mask = step.emit("both", relax.op.min(counted, [2]))
    mask = step.emit("mask", relax.op.reshape(mask, (n, 1, rows, columns)))
    return Image(relax.op.multiply(y, mask))


def _transformed_landmarks(step: TfliteStep) -> Result:
    """Move x and y of landmarks; a third coordinate stays."""
    x = step.plain(0)
    n, _, dimensions = shape(x)
    linear, move = _moves(step, n)
    points = step.emit("points", relax.op.strided_slice(x, [2], [0], [2]))
    y = relax.op.add(step.emit("moved", _moved(step, points, linear)), move)
    if dimensions == 2:
        return y
    if dimensions != 3:
        raise NotImplementedError(f"landmarks of {dimensions} coordinates")
    depth = step.emit("depth", relax.op.strided_slice(x, [2], [2], [3]))
    return relax.op.concat([step.emit("xy", y), depth], 2)


def _moves(step: TfliteStep, n: int) -> tuple[relax.Expr, relax.Expr]:
    """Return what a matrix does to x and y: (n, 2, 2) to multiply by and (n, 1, 2) to add."""
    matrix = step.plain(1)
    if shape(matrix) != (n, 4, 4):
        raise ValueError(f"its matrix is {list(shape(matrix))}, expected {[n, 4, 4]}")
    linear, move = (
        step.emit(name, relax.op.strided_slice(matrix, [1, 2], [0, begin], [2, end]))
        for name, begin, end in (("linear", 0, 2), ("column", 3, 4))
    )
    return linear, step.emit("move", relax.op.reshape(move, (n, 1, 2)))


def _moved(step: TfliteStep, points: relax.Expr, linear: relax.Expr) -> relax.Expr:
    """Multiply (n, count, 2) points by (n, 2, 2) matrices, each from the left."""
    turned = step.emit("columns", relax.op.permute_dims(linear, [0, 2, 1]))
    return product(step.emit, points, turned)


LANDMARKS: dict[str, Converter] = {
    "CUSTOM Landmarks2TransformMatrix": _matrix_of_landmarks,
    "CUSTOM TransformLandmarks": _transformed_landmarks,
    "CUSTOM TransformTensorBilinear": _transformed_image,
}
