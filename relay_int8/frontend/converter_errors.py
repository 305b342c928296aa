"""What converting one operator can raise."""

CONVERTER_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What TVM's converters, its shape inference and NumPy raise at an operator that they do not
understand: RuntimeError is the base of TVM's own errors and of NotImplementedError."""
