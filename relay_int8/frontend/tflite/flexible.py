"""Read a map in FlexBuffers, the encoding of options of operators that are not TFLite's.

::

    end      value of the map (how far back it is), u8 type and width, u8 bytes of that value
    map      how far back the keys are, bytes of an offset among these, count, values, u8 types
    keys     count, how far back each text is; a text ends with a zero
    vector   count, elements

Numbers of a map have the map's width. A type is a kind, shifted by two bits, and the logarithm of
the width of what it refers to.
"""

from __future__ import annotations

from relay_int8.frontend.tflite.tables import Flatbuffer

Value = int | float | str | tuple[int, ...]  # as file.OptionValue

INT, UINT, FLOAT, MAP, INTS, UINTS, BOOL = 1, 2, 3, 9, 11, 12, 26
INDIRECT = {6: INT, 7: UINT, 8: FLOAT}
FORMS = {INT: "bhiq", UINT: "BHIQ", BOOL: "BHIQ", FLOAT: "?efd"}
"""Kind of a number -> its codes for ``struct``, by the logarithm of its width."""
MOST_VALUES = 1 << 12
MOST_TEXT = 64


def read_map(buffer: Flatbuffer) -> dict[str, Value]:
    """Return the numbers and the vectors of integers of a map by their names."""
    end = len(buffer.data)
    width = int(buffer.number("B", end - 1, "the width of options"))
    code = int(buffer.number("B", end - 2, "the type of options"))
    if code >> 2 != MAP or width not in (1, 2, 4, 8):
        raise buffer.fault(end, "its options are no map")
    at = _target(buffer, end - 2 - width, width)
    size = 1 << (code & 3)
    count = _count(buffer, at, size)
    keys = _target(buffer, at - 3 * size, size)
    key_size = int(_number(buffer, UINT, at - 2 * size, size))
    values: dict[str, Value] = {}
    for i in range(count):
        name = _text(buffer, _target(buffer, keys + i * key_size, key_size))
        value = _value(
            buffer,
            int(buffer.number("B", at + count * size + i, f"the type of {name}")),
            at + i * size,
            size,
        )
        if value is not None:
            values[name] = value
    return values


def _value(buffer: Flatbuffer, code: int, at: int, size: int) -> Value | None:
    """Return a number or a vector of integers; None for anything else."""
    kind, inner = code >> 2, 1 << (code & 3)
    if kind in FORMS:
        return _number(buffer, kind, at, size)
    if kind in INDIRECT:
        return _number(buffer, INDIRECT[kind], _target(buffer, at, size), inner)
    if kind not in (INTS, UINTS):
        return None
    first, element = _target(buffer, at, size), INT if kind == INTS else UINT
    count = _count(buffer, first, inner)
    return tuple(int(_number(buffer, element, first + i * inner, inner)) for i in range(count))


def _number(buffer: Flatbuffer, kind: int, at: int, size: int) -> int | float:
    if size not in (1, 2, 4, 8):
        raise buffer.fault(at, f"an option of {size} bytes")
    value: int | float = buffer.number(FORMS[kind][size.bit_length() - 1], at, "an option")
    return value


def _target(buffer: Flatbuffer, at: int, size: int) -> int:
    """Return where that is what an offset refers to; offsets count back."""
    return at - int(_number(buffer, UINT, at, size))


def _count(buffer: Flatbuffer, at: int, size: int) -> int:
    count = int(_number(buffer, UINT, at - size, size))
    if count > MOST_VALUES:
        raise buffer.fault(at, f"options of {count} values")
    return count


def _text(buffer: Flatbuffer, at: int) -> str:
    end = buffer.data.find(b"\0", max(at, 0), max(at, 0) + MOST_TEXT)
    if end < 0:
        raise buffer.fault(at, "an option without a name")
    return bytes(buffer.take(at, end - at, "a name")).decode(errors="replace")
