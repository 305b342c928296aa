"""How code that all importers share binds what it computes: each has a writer of its own."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

Emit = Callable[[str, relax.Expr], relax.Expr]
"""Binds an expression to the name of a step, and returns the variable."""
