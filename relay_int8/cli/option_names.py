"""Messages of the library in the words of the command line.

The library names a setting as Python does, because it does not know who calls it; the command line
puts its own option in that place:

    pass ImportOptions(batch=N) for another    ->    pass --batch N for another
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

NAMED = {
    "Demand.data": "--eval-data",
    "Endpoint.tracker": "--tracker",
    "ImportOptions.inputs": "--input",
    "ImportOptions.outputs": "--cut",
    "ImportOptions.values": "--input",
    "TuneOptions.rack": "--tracker or --rpc",
    "convert_table.target_format": "--to",
    "deploy.timeout_s": "--timeout",
    "quantize.data": "--data or --table",
}
"""Options that do not have the name of Python's setting."""

WHOLE = {
    "Preprocessing()": "--preprocess raw",
    "Preprocessing(...)": "--preprocess",
    "Preprocessing(channels='L')": '--preprocess of a file with channels = "L"',
}
"""Options that stand for a whole object."""

OWNERS = (
    "BuildOptions",
    "Demand",
    "Endpoint",
    "ImportOptions",
    "Preprocessing",
    "QuantConfig",
    "ServeOptions",
    "Timing",
    "TuneOptions",
    "calibrate_model",
    "compile_model",
    "convert_table",
    "deploy",
    "quantize",
    "tune",
)
"""The functions and classes of ``relay_int8`` whose settings messages name."""

_CALL = re.compile(rf"\b({'|'.join(OWNERS)})\(")


def with_options(text: str) -> str:
    """Return a message with an option in place of each setting that it names."""
    if not (found := _CALL.search(text)):
        return text
    begin = found.start()
    for end in (index for index, letter in enumerate(text, 1) if letter == ")" and index > begin):
        try:
            call = ast.parse(text[begin:end], mode="eval").body
        except (SyntaxError, ValueError):  # the parenthesis is one inside
            continue
        return text[:begin] + _options(text[begin:end], call) + with_options(text[end:])
    return text[: found.end()] + with_options(text[found.end() :])


def _options(text: str, call: ast.expr) -> str:
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    if text in WHOLE:
        return WHOLE[text]
    settings = [(f"{call.func.id}.{word.arg}", word) for word in call.keywords]
    return " ".join(part for name, word in settings for part in _option(name, word)) or text


def _option(name: str, word: ast.keyword) -> Iterator[str]:
    """Yield the words of ``KEYWORD=VALUE``, a setting of the owner that ``name`` begins with."""
    assert word.arg is not None
    option = NAMED.get(name, f"--{word.arg.replace('_', '-')}")
    match word.value:
        case ast.Constant(value=bool(is_on)):
            yield option if is_on else f"--no-{option.removeprefix('--')}"
        case ast.Constant(value=value) if value is ...:
            yield option
        case ast.List(elts=tensors):
            yield from (_quoted(option, _text(tensor)) for tensor in tensors)
        case ast.Dict(keys=[ast.expr() as key], values=[value]):
            equals = "==" if name == "ImportOptions.values" else "="
            yield _quoted(option, f"{_text(key)}{equals}{_text(value)}")
        case value:
            yield _quoted(option, _text(value))


def _quoted(option: str, value: str) -> str:
    return value if value == "..." else f"{option} {shlex.quote(value)}"


def _text(value: ast.expr) -> str:
    """Return a value as an option takes it."""
    match value:
        case ast.Name(id=placeholder):
            return placeholder
        case ast.Tuple(elts=items):
            return ",".join(map(_text, items))
        case ast.Constant(value=constant) if constant is ...:
            return "..."
        case ast.Constant(value=constant):
            return str(constant)
        case _:
            return ast.unparse(value)
