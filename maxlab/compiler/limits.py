"""Limits of ``Options`` to a schedule: no kernels of several ops, no values without memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from maxlab.compiler.attention import Attention
from maxlab.compiler.options import Options
from maxlab.ir import Op, Value
from maxlab.opset import OPSET


class Limits:
    """The options of a compilation, asked about ops and values of the function after all passes.

    Attributes:
        kept: The values that must be in memory; of a view, what it looks at.
    """

    def __init__(self, options: Options, kept: Iterable[Value]) -> None:
        self.options = options
        self.kept = {_behind(value) for value in kept}

    def parted(self, op: Op, source: Op | None) -> str:
        """The rule by which ``op`` and ``source``, which it reads, are in different kernels; empty
        if there is none.
        """
        if source is None or op.origins == source.origins:
            return ""
        if not self.options.fuse:
            return "unfused"
        return "apart" if self.begins(op) else ""

    def begins(self, op: Op) -> bool:
        """Whether ``op`` begins a kernel."""
        apart = self.options.apart
        return bool(apart) and not apart.isdisjoint(op.origins)

    def is_kernel(self, op: Op) -> bool:
        """Whether ``op`` may not be computed wherever it is read, little as it is."""
        if self.begins(op) or not self.kept.isdisjoint(op.results):
            return True
        if self.options.fuse:
            return False
        return any(user.origins != op.origins for user in _users(op.result))

    def may_attend(self, parts: Attention) -> bool:
        """Whether ``parts`` may be one kernel."""
        inner = (*parts.maps, *parts.softmax)
        if not self.kept.isdisjoint(op.result for op in (parts.scores, *inner)):
            return False
        return not any(self.parted(op, parts.scores) for op in (*inner, parts.product))


def _behind(value: Value) -> Value:
    """The value that ``value`` is a view of; itself if it is no view."""
    while value.op is not None and OPSET[value.op.name].kind == "view":
        value = value.op.operands[0]
    return value


def _users(value: Value) -> Iterator[Op]:
    """The ops that read ``value`` through views."""
    for user in value.uses:
        if OPSET[user.name].kind == "view":
            yield from _users(user.result)
        else:
            yield user
