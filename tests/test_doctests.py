"""Examples in docstrings are true."""

import doctest
from importlib import import_module

import pytest

pytestmark = pytest.mark.fast

WITH_EXAMPLES = (
    "relay_int8.api.demand",
    "relay_int8.api.model",
    "relay_int8.data.dataset",
    "relay_int8.data.natural_order",
    "relay_int8.data.preprocessing",
    "relay_int8.data.tensor_info",
    "relay_int8.messages",
    "relay_int8.quantization.config",
    "relay_int8.remote.address",
    "relay_int8.report.html_table",
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name):
    failed, tried = doctest.testmod(import_module(name))
    assert tried and not failed


def test_all_modules_with_examples_are_listed(pytestconfig):
    package = pytestconfig.rootpath / "relay_int8"
    found = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for path in package.rglob("*.py")
        if "\n    >>> " in path.read_text(encoding="utf-8") or "\n        >>> " in path.read_text()
    }
    assert found == set(WITH_EXAMPLES)
