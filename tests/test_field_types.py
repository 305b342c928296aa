"""Records that files filled: which values their fields may have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import pytest
from typing_extensions import TypeAliasType

from relay_int8.field_types import filled, fits, require_types

pytestmark = pytest.mark.fast


@dataclass(frozen=True, kw_only=True)
class Part:
    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Record:
    parts: tuple[Part, ...] = ()
    share: float = 0.5
    count: int | None = None
    pair: tuple[int, str] = (1, "a")
    kind: Literal["a", "b"] = "a"
    bytes_by_kind: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)


def test_values_of_their_types():
    part = Part(name="x", shape=(1, 2))
    require_types(Record(names={"a": ["x"], "b": (), "c": ("x", "y")}))
    require_types(
        Record(parts=(part,), share=1, count=3, bytes_by_kind={"a": 1}, settings={"a": []})
    )


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"parts": (Part(name="x", shape=(1, "2")),)}, "shape"),
        ({"parts": (Part(name=None, shape=()),)}, "name"),
        ({"parts": [Part(name="x", shape=())]}, "parts"),
        ({"parts": ("x",)}, "parts"),
        ({"share": "1"}, "share"),
        ({"share": True}, "share"),
        ({"count": 1.5}, "count"),
        ({"count": False}, "count"),
        ({"pair": (1,)}, "pair"),
        ({"kind": "c"}, "kind"),
        ({"bytes_by_kind": {"a": "1"}}, "bytes_by_kind"),
        ({"settings": 3}, "settings"),
        ({"names": {"a": 3}}, "names"),
        ({"names": {"a": "xy"}}, "names"),
        ({"names": {"a": ["x", 3]}}, "names"),
    ],
)
def test_values_of_others(values, name):
    with pytest.raises(ValueError, match=f"^{name} is .* none of its values"):
        require_types(Record(**values))


def test_an_alias_is_what_it_stands_for():
    item = TypeVar("item")
    number = TypeAliasType("number", float)
    table = TypeAliasType("table", Mapping[str, item], type_params=(item,))

    def _is(value, expected):
        return isinstance(value, expected)

    assert fits(0.5, number, _is) and not fits("x", number, _is)
    assert fits({"a": 1}, table[int], _is) and not fits({"a": "x"}, table[int], _is)
    assert fits({"a": 0.5}, table[number] | None, _is) and not fits([], table[number] | None, _is)


def test_a_record_of_a_json_object():
    assert filled(Part, {"name": "x", "shape": (1,)}) == Part(name="x", shape=(1,))
    assert filled(Record, {}) == Record()
    for values, message in (
        ({}, "it lacks name, shape"),
        ({"name": "x", "shape": (1,), "size": 3}, "it has the unknown fields size"),
        ([1], "it is a list, an object with fields expected"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            filled(Part, values)
