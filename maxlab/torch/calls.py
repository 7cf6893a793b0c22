"""Parts of an exported graph that torch runs between maxlab's kernels.

A part gets addresses of memory that the model owns, reads and writes it through tensors that own
none, and is one step of the plan: it is timed, drawn and blamed like a kernel.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node
from torch.utils.flop_counter import flop_registry

from maxlab.dtype import DType
from maxlab.ir import HostCall
from maxlab.torch.aten import DTYPES

MOST_VIEWS = 64
"""Tensors over a model's memory that one part remembers: a few for each tuple of sizes."""

_TORCH_DTYPES = {ours: theirs for theirs, ours in DTYPES.items()}
_Env = dict[Node, Any]


@dataclass(slots=True)
class Part:
    """Nodes that torch runs one after the other.

    Attributes:
        nodes: The nodes, in order.
        reasons: Why, by the node.
        inputs: Nodes outside that they read and that have values in maxlab's graph: tensors, tuples
            of tensors, sizes.
        constants: What they read that has none, by node.
        results: The values that others read: a node, and the index in it if it is a tuple.
    """

    nodes: list[Node]
    reasons: dict[Node, str] = field(default_factory=dict)
    inputs: list[Node] = field(default_factory=list)
    constants: dict[Node, Any] = field(default_factory=dict)
    results: list[tuple[Node, int | None]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the call, which says that torch runs it: ``"torch.convolution"``."""
        making = [n for n in self.nodes if is_operation(n) and _makes_tensors(n)]
        names = dict.fromkeys(name_of(node).removeprefix("aten.") for node in making or self.nodes)
        first = list(names)[:3]
        more = f" + {len(names) - 3} more" if len(names) > 3 else ""
        return "torch." + " + ".join(first) + more

    @property
    def text(self) -> str:
        """The text that is shown where a kernel has its source."""
        lines = ["# torch ran this: maxlab has no kernel for it."]
        told = dict.fromkeys(f"# {name_of(n)}: {why}" for n, why in self.reasons.items())
        lines += told
        for node in self.nodes:
            args = [repr(a) for a in node.args]
            args += [f"{key}={value!r}" for key, value in node.kwargs.items()]
            target = node.target
            word = f"torch.ops.{target}" if not isinstance(target, str) else target
            if not isinstance(target, (torch._ops.OpOverload, str)):
                word = getattr(target, "__name__", str(target))
            lines.append(f"{node.name} = {word}({', '.join(args)})")
        return "\n".join(lines) + "\n"


def name_of(node: Node) -> str:
    """The name of the operation of ``node`` without its overload, ``"aten.convolution"``."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target._schema.name).replace("::", ".")
    return str(getattr(target, "__name__", target))


def is_operation(node: Node) -> bool:
    """Whether ``node`` computes something, instead of picking from a tuple or from sizes."""
    return node.op == "call_function" and isinstance(
        node.target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)
    )


def _makes_tensors(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, (torch.Tensor, tuple, list)) and name_of(node) != "with_effects"


# ---------------------------------------------------------------- arguments
def _maker(argument: Any) -> Callable[[_Env], Any] | None:
    """Makes ``argument`` from the values of nodes; None for one that is always the same."""
    if isinstance(argument, Node):
        return lambda env: env[argument]
    if isinstance(argument, (list, tuple)):
        makers = [_maker(a) for a in argument]
        if any(makers):
            given = list(zip(makers, argument, strict=True))
            kind = tuple if isinstance(argument, tuple) else list
            return lambda env: kind(m(env) if m else a for m, a in given)
    if isinstance(argument, slice):
        raise TypeError("slices are written as operations in an exported graph")
    return None


def _plain(argument: Any) -> Any:
    """``argument`` in ordinary lists: torch takes those of its graphs apart one by one."""
    if isinstance(argument, list):
        return [_plain(a) for a in argument]
    return argument


@dataclass(frozen=True, slots=True)
class _Action:
    node: Node
    target: Callable[..., Any]
    args: tuple[tuple[Callable[[_Env], Any] | None, Any], ...]
    kwargs: tuple[tuple[str, Callable[[_Env], Any] | None, Any], ...]

    def run(self, env: _Env) -> None:
        args = [m(env) if m else a for m, a in self.args]
        kwargs = {name: m(env) if m else a for name, m, a in self.kwargs}
        env[self.node] = self.target(*args, **kwargs)


def _action(node: Node) -> _Action:
    assert callable(node.target)
    return _Action(
        node,
        node.target,
        tuple((_maker(a), _plain(a)) for a in node.args),
        tuple((name, _maker(a), _plain(a)) for name, a in node.kwargs.items()),
    )


# ---------------------------------------------------------------- memory
def tensor_at(address: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor over memory that somebody else owns; it must not outlive that memory."""
    count = math.prod(shape)
    if not count:
        return torch.empty(shape, dtype=dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=dtype).view(shape)


@dataclass(frozen=True, slots=True)
class Operand:
    """One thing that a part is given: what it is of, at which place of a tuple, whether it is a
    size, and the dtype of its memory."""

    node: Node
    index: int | None
    is_size: bool
    dtype: DType


def host_call(part: Part, operands: Sequence[Operand], dtypes: Sequence[DType]) -> HostCall:
    """The call that runs ``part`` on ``operands``; its results have ``dtypes``."""
    actions = [_action(node) for node in part.nodes]
    wanted = list(part.results)
    kinds = [_TORCH_DTYPES[d] for d in (*dtypes, *(o.dtype for o in operands))]
    constants: Mapping[Node, Any] = dict(part.constants)
    views: dict[tuple[int, int, tuple[int, ...]], torch.Tensor] = {}
    tuples = {o.node: 0 for o in operands if o.index is not None}
    for operand in operands:
        if operand.index is not None:
            tuples[operand.node] = max(tuples[operand.node], operand.index + 1)
    count = len(wanted)

    def run(addresses: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> None:
        found = []
        for place, (address, shape) in enumerate(zip(addresses, shapes, strict=True)):
            key = (place, address, shape)
            view = views.get(key)
            if view is None:
                if len(views) >= MOST_VIEWS * len(kinds):
                    views.clear()
                view = views[key] = tensor_at(address, shape, kinds[place])
            found.append(view)
        env: _Env = dict(constants)
        for node, size in tuples.items():
            env[node] = [None] * size
        for operand, view in zip(operands, found[count:], strict=True):
            value: Any = int(view) if operand.is_size else view
            if operand.index is None:
                env[operand.node] = value
            else:
                env[operand.node][operand.index] = value
        with torch.no_grad():
            for action in actions:
                action.run(env)
            for (node, index), into in zip(wanted, found[:count], strict=True):
                made = env[node] if index is None else env[node][index]
                into.copy_(made)

    return HostCall("torch", part.name, part.text, run)


def flops_of(part: Part) -> Any:
    """The arithmetic of ``part`` that torch knows how to count, an int or a symbolic one; 0 for
    operations that it has no count for."""
    total: Any = 0
    for node in part.nodes:
        packet = getattr(node.target, "overloadpacket", None)
        count = flop_registry.get(packet) if packet is not None else None
        if count is None:
            continue
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        total = total + count(*args, **kwargs, out_val=node.meta["val"])
    return total
