"""The forward traversal of ``main`` that every graph pass of this package is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tvm import IRModule, relax

from relay_int8.graph.dataflow import (
    FunctionWriter,
    arguments,
    attributes,
    calls,
    constant,
    consumers,
    results,
    shape,
    substitute,
)
from relay_int8.graph.declined import Declined, note_declined


class Scope:
    """The interface of a rewrite to one binding, whose operands are already rewritten.

    Attributes
    ----------
    name
        The tensor that the binding stands for; the rewritten value gets this name.
    bindings
        What was written so far, in order.
    uses
        How often each tensor is read, counting results of the model.
    """

    def __init__(self) -> None:
        self.name = ""
        self._builder = relax.BlockBuilder()
        self.bindings: list[tuple[relax.Var, relax.Expr]] = []
        self.uses: dict[relax.Var, int] = {}
        self._values: dict[relax.Var, relax.Expr] = {}

    def emit(self, step: str, value: relax.Expr) -> relax.Var:
        """Bind a step in between; its tensor is called ``<name>/<step>``."""
        return self.bind(f"{self.name}/{step}", value)

    def bind(self, name: str, value: relax.Expr) -> relax.Var:
        """Bind ``value`` to a new variable called ``name``."""
        value = self._builder.normalize(value)
        var = relax.DataflowVar(name, value.ty)
        self.keep(var, value)
        return var

    def keep(self, var: relax.Var, value: relax.Expr) -> None:
        """Take over a binding as it is."""
        self.bindings.append((var, value))
        self._values[var] = value

    def value(self, operand: relax.Expr) -> relax.Expr:
        """Return what a variable is bound to; anything else, parameters too, is itself."""
        return self._values.get(operand, operand) if isinstance(operand, relax.Var) else operand

    def typed(self, value: relax.Expr) -> relax.Expr:
        """Return ``value`` with its type inferred, unbound."""
        return self._builder.normalize(value)

    def used_once(self, operand: relax.Expr) -> bool:
        """Whether one reader alone needs a tensor, so that it may change."""
        return isinstance(operand, relax.Var) and self.uses.get(operand, 1) == 1


Rewrite = Callable[[Scope, relax.Expr], relax.Expr | Declined | None]


def rewrite_main(mod: IRModule, rewrite: Rewrite) -> IRModule:
    """Return ``mod`` with every value of ``main`` rewritten and what nothing reads left out.

    ``rewrite`` gets each value in order and returns another one, or None to keep it, or Declined to
    keep it and say why: where its pattern was nearly there. It may return
    a variable or a constant: the binding then disappears; where it named a result of the model, the
    variable takes that name. A variable that has a name already, an input or another result, is
    reshaped to its own shape: every result stays a tensor of its own.
    """
    func = mod["main"]
    outputs, readers = results(func), consumers(func)
    returns = Counter(outputs)  # calibration returns every tensor: a search of them is quadratic
    reserved = {output.name for output in outputs}
    scope = Scope()
    scope.uses.update({param: len(readers[param]) for param in func.params})
    done: dict[relax.Var, relax.Expr] = {}
    renamed: dict[relax.Var, str] = {}
    for old, value in calls(func):
        scope.name = old.name
        uses = len(readers[old]) + returns[old]
        moved = bool(done) and any(argument in done for argument in arguments(value))
        value = scope.typed(substitute(value, done)) if moved else value
        rewritten = rewrite(scope, value)
        if isinstance(rewritten, Declined):
            note_declined(str(old.name), rewritten)
            rewritten = None
        if rewritten is None and not moved:
            scope.keep(old, value)
            scope.uses[old] = uses
            continue
        new = value if rewritten is None else rewritten
        is_variable = isinstance(new, relax.Var)
        has_name = is_variable and (new in func.params or new in renamed or new.name in reserved)
        if has_name and old in returns and new.name != old.name:
            new = scope.bind(old.name, relax.op.reshape(new, shape(new)))  # a result of its own
            scope.uses[new] = uses
        elif is_variable:
            scope.uses[new] = scope.uses.get(new, 1) - 1 + uses
            if old in returns:
                renamed[new] = old.name
        elif old in returns or constant(new) is None:
            new = scope.bind(old.name, new)
            scope.uses[new] = uses
        done[old] = new
    if not done and all(readers[var] or returns[var] for var, _ in calls(func)):
        return mod  # as most rewrites leave most networks
    kept = [done.get(output, output) for output in outputs]
    return _finish(mod, scope, kept, renamed)


def _finish(
    mod: IRModule, scope: Scope, outputs: list[relax.Var], renamed: dict[relax.Var, str]
) -> IRModule:
    """Write the bindings that the outputs need."""
    live = set(outputs)
    for var, value in reversed(scope.bindings):
        if var in live:
            live.update(a for a in arguments(value) if isinstance(a, relax.Var))
    func = mod["main"]
    if [var for var, _ in calls(func)] == [var for var, _ in scope.bindings if var in live]:
        return mod
    writer = FunctionWriter(mod)
    written: dict[relax.Var, relax.Expr] = {}
    for var, value in scope.bindings:
        if var not in live:
            continue
        name = renamed.get(var, var.name)
        is_new = name != var.name or any(argument in written for argument in arguments(value))
        if is_new or not writer.keep(var, value):
            written[var] = writer.emit(name, substitute(value, written))
    returned = [written.get(output, output) for output in outputs]
    return writer.finish(list(func.params), returned, attributes(func))
