"""What the CPU of a target can do, as LLVM says."""

from __future__ import annotations

from functools import lru_cache

from tvm.target import Target
from tvm.target.codegen import target_has_features


@lru_cache(maxsize=1024)
def has_feature(feature: str, target: Target) -> bool:
    """Say whether ``target`` has a feature of LLVM's: it is slow, and asked for every layer."""
    return bool(target_has_features(feature, target))
