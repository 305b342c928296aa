"""How a range is chosen from what was observed: one published method per file."""

from collections.abc import Mapping
from types import MappingProxyType

from relay_int8.calibration.methods.base import Method
from relay_int8.calibration.methods.kl import Kl
from relay_int8.calibration.methods.max import Max
from relay_int8.calibration.methods.percentile import Percentile
from relay_int8.errors import ConfigError

METHODS: Mapping[str, Method] = MappingProxyType(
    {"max": Max(), "percentile": Percentile(), "kl": Kl()}
)


def find_method(method: str | Method) -> Method:
    """Return the method of this name, or the method itself."""
    if not isinstance(method, str):
        return method
    if method not in METHODS:
        raise ConfigError(f"method {method!r} is unknown; choose one of {', '.join(METHODS)}")
    return METHODS[method]


__all__ = ["METHODS", "Kl", "Max", "Method", "Percentile", "find_method"]
