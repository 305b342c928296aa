"""Names of the attributes that modules carry from one stage to the next, in one place.

Of ``main``: how the network's integers are scaled and what its inputs are. Of a kernel's PrimFunc:
what it computes, by which template, in which layouts.
"""

QRANGE = "int8.qrange"
"""JSON, name of a quantize's variable -> [qmin, qmax]: ranges narrower than their type."""

REQUANTIZE = "int8.requantize"
"""The requantization mode; absent where it is "float"."""

PIXELS = "int8.pixels"
"""JSON of preprocessing and layout, where the network takes raw pixels."""

INPUT_LAYOUT = "int8.input_layout"
"""Layout of the input of raw pixels, as Realize leaves it for AlterLayout."""

ORIGINS = "int8.origins"
"""JSON, name of a variable -> the tensor of the network it stands for, and what made it of that."""

SPEC = "int8.spec"
TEMPLATE = "int8.template"
LAYOUTS = "int8.layouts"
TUNED = "int8.tuned"
"""Whether a tuning record chose a kernel's schedule."""
