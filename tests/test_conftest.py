"""A skip for a missing instruction set must not hide a misspelt one."""

import pytest

pytestmark = pytest.mark.fast


@pytest.fixture
def isa_skip(request):
    """Return the function of the conftest that this very run uses."""
    manager = request.config.pluginmanager
    return next(p.isa_skip for _, p in manager.list_name_plugin() if hasattr(p, "isa_skip"))


def test_present_flag_runs(isa_skip):
    assert isa_skip("avx2", frozenset({"avx2", "fma"})) is None


def test_absent_flag_is_skipped(isa_skip):
    assert isa_skip("avx2", frozenset({"sse"})) == "CPU lacks avx2"


@pytest.mark.parametrize("flag", ["avx512vnni", "AVX2", ""])
def test_misspelt_flag_fails(isa_skip, flag):
    with pytest.raises(pytest.fail.Exception, match="no such flag"):
        isa_skip(flag, frozenset({"avx2"}))
