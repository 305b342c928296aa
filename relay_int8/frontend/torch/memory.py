"""Tensors of a PyTorch program that share memory, and what an in-place change does to the others.

A view is the result of a node that only moves elements. A change is written into the tensor that
the view is of, at the places that the node moves there, and so on to the first one; other views of
that tensor are read anew when something reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.torch.program import ProgramNode, Ref

SHARED = {
    f"aten.{name}"
    for name in (
        *("alias", "chunk", "detach", "dropout", "expand", "expand_as", "lift_fresh", "narrow"),
        *("broadcast_to", "moveaxis", "movedim", "mT", "numpy_T", "swapaxes", "swapdims"),
        *(
            "diagonal",
            "permute",
            "select",
            "slice",
            "split",
            "split_with_sizes",
            "squeeze",
            "t",
            "tensor_split",
        ),
        *("transpose", "unbind", "unflatten", "unfold", "unsqueeze", "view", "view_as"),
    )
}
"""Operators whose result always is in the memory of their operand."""
UNCERTAIN = {
    f"aten.{name}"
    for name in (
        *("as_strided", "contiguous", "flatten", "reshape", "reshape_as", "to", "type_as"),
        *("imag", "real", "view_as_complex", "view_as_real"),
    )
}
"""Operators whose result is, or is a copy: that depends on strides and types. Complex numbers and
their parts share memory too, and no change in place of the one is followed into the other."""


@dataclass
class TensorAliases:
    """The tensors of a program that share memory, by their names.

    Attributes
    ----------
    sources
        View -> the node that makes it, and the name of the tensor that it is a part of.
    """

    sources: dict[str, tuple[ProgramNode, str]] = field(default_factory=dict)
    _stale: dict[str, bool] = field(default_factory=dict)  # name -> whether it can be read anew

    def join(self, node: ProgramNode) -> None:
        """Follow a node whose results lie in the memory of its first operand, or may do so."""
        operands = reads(node)
        if operands and (node.changes or node.operator in SHARED | UNCERTAIN):
            self.sources.update((name, (node, operands[0])) for name in node.outputs)

    def change(self, node: ProgramNode) -> list[tuple[str, ProgramNode, str]]:
        """Return (part, node, whole) of every tensor to write a change in place into, in order.

        All others of that memory are outdated from now on. Those that may be copies, and what a
        copy may have been made of, cannot be read any more.
        """
        self.join(node)
        name = reads(node)[0]
        written, parts = {name, *node.outputs}, []
        while name in self.sources and not _is_uncertain(self.sources[name][0]):
            source, whole = self.sources[name]
            parts.append((name, source, whole))
            written.add(whole)
            name = whole
        first = self.first(name)
        family = {first, *(member for member in self.sources if self.first(member) == first)}
        for member in family - written:
            self._stale[member] = self._reaches(member, name)
        for member in written:
            self._stale.pop(member, None)
        return parts

    def outdated(self, names: Iterable[str], reader: str) -> list[str]:
        """Return the views among ``names`` to read anew, each behind what it is a part of.

        Raises
        ------
        UnsupportedOpError
            One of them may be a copy from before a change.
        """
        outdated: list[str] = []
        for name in names:
            if name not in self._stale:
                continue
            if not self._stale.pop(name):
                raise UnsupportedOpError(
                    f"{reader} reads {name}, changed in place as a part of another tensor, or a "
                    "copy; program.run_decompositions({}) before torch.export.save writes the "
                    "model without changes in place"
                )
            outdated += [*self.outdated([self.sources[name][1]], reader), name]
        return outdated

    def first(self, name: str) -> str:
        """Return the tensor whose memory a tensor lies in."""
        while name in self.sources:
            name = self.sources[name][1]
        return name

    def _reaches(self, name: str, whole: str) -> bool:
        """Whether a tensor is a view of ``whole`` for certain."""
        while name != whole:
            if name not in self.sources or _is_uncertain(self.sources[name][0]):
                return False
            name = self.sources[name][1]
        return True


def _is_uncertain(node: ProgramNode) -> bool:
    return node.operator in UNCERTAIN and not node.changes


def reads(node: ProgramNode) -> list[str]:
    """Return the names that a node reads, in the order of its arguments."""
    given = [a for value in node.arguments.values() for a in
             (value if isinstance(value, list) else [value])]  # fmt: skip
    return [entry.name for entry in given if isinstance(entry, Ref)]
