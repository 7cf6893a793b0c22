"""Chains of convolutions with the channels of their images last, on the CPU.

Kernels of convolutions and pools read all channels of a pixel at once, so an image with its
channels first is turned before each of them, and the result behind it. Where an image goes through
several, the pass turns it once, before the first: the ops between them, which compute each element
by itself, join images or average them, are written for the other order. Filters are turned when a
model is loaded, where they are known by then; a convolution that only mixes channels becomes a
product of matrices. Sums have the same terms; means are added up in another order.
"""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.compiler.passes.decompose import Expansion
from maxlab.dtype import DType
from maxlab.ir import Op, Rewriting, Shape, StaticDim, TensorType, Value
from maxlab.opset import OPSET
from maxlab.opset.builder import one
from maxlab.opset.rules import axis_of

LAST = (0, 2, 3, 1)
"""The order of the dims that puts the channels last."""
FIRST = (0, 3, 1, 2)
"""The order that puts them first again."""
LEAST = 2
"""From so many convolutions and pools on a chain is turned: for one alone the kernel does it."""


def turn_images(rewriting: Rewriting) -> None:
    """Let chains of convolutions of float32 have the channels of their images last."""
    ops = rewriting.function.ops
    if any(_is_convolution(op) for op in ops):
        _Turning(rewriting, _chains(ops)).run(ops)


# ---------------------------------------------------------------- which
def _is_image(value: Value) -> bool:
    """Whether ``value`` may be an image: of float32, of rank 4, on the CPU."""
    type = value.type
    if not isinstance(type, TensorType) or type.rank != 4:
        return False
    return type.dtype is DType.float32 and not type.device.is_gpu()


def _is_convolution(op: Op) -> bool:
    """Whether ``op`` reads an image with its channels first, and could with them last."""
    turned = OPSET[op.name].channels_last is not None
    return turned and op.attrs["channels_first"] and _is_image(op.result)


def _order(op: Op) -> tuple[int, ...]:
    """The order in which a view reads the dims of an image; empty for other ops."""
    axes = OPSET[op.name].axes
    return tuple(axes(op.attrs, 4)) if axes is not None and _is_image(op.result) else ()


def _same(op: Op) -> list[Value]:
    """The operands that a map reads at its own index, images as its result."""
    if OPSET[op.name].kind != "map" or len(op.results) != 1 or not _is_image(op.result):
        return []
    shape = list(op.result.tensor_type.shape)
    return [v for v in op.operands if _is_image(v) and list(v.tensor_type.shape) == shape]


def _joined(op: Op) -> list[Value]:
    """The images that a concat joins."""
    return list(op.operands) if OPSET[op.name].kind == "concat" and _is_image(op.result) else []


def _chains(ops: Sequence[Op]) -> set[Value]:
    """The images, with the channels first, of chains that are long enough to be turned."""
    parent: dict[Value, Value] = {}

    def root(value: Value) -> Value:
        parent.setdefault(value, value)
        while parent[value] is not value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    ends: list[Value] = []
    for op in ops:
        linked: list[Value] = []
        if _is_convolution(op):
            ends.append(op.operands[0])
            linked = [op.operands[0], op.result]
        elif _order(op) == LAST:
            ends.append(op.operands[0])
        elif same := _same(op) or _joined(op):
            linked = [*same, op.result]
        for value in linked[1:]:
            parent[root(value)] = root(linked[0])
    counts: dict[Value, int] = {}
    for value in ends:
        counts[root(value)] = counts.get(root(value), 0) + 1
    return {value for value in list(parent) if counts.get(root(value), 0) >= LEAST}


# ---------------------------------------------------------------- how
class _Turning:
    """The rewrite of the images of ``chains``."""

    def __init__(self, rewriting: Rewriting, chains: set[Value]) -> None:
        self._rewriting = rewriting
        self._chains = chains
        self._last: dict[Value, Value] = {}  # an image with the channels last, by that with first

    def run(self, ops: Sequence[Op]) -> None:
        """Rewrite ``ops``, in their order."""
        for op in ops:
            order = _order(op)
            if _is_convolution(op):
                if op.operands[0] in self._chains:
                    self._convolution(op)
            elif order == FIRST:
                self._last[op.result] = op.operands[0]
            elif order == LAST and op.operands[0] in self._last:
                self._rewriting.rule("channels_last", op)
                self._rewriting.replace(op, [self._last[op.operands[0]]])
            elif any(v in self._last for v in _same(op)):
                self._map(op)
            elif (images := _joined(op)) and all(v in self._last for v in images):
                self._concat(op, images)
            elif OPSET[op.name].kind == "reduce" and len(op.results) == 1:
                self._reduce(op)

    def _begin(self, op: Op) -> Expansion:
        self._rewriting.rule("channels_last", op)
        return Expansion(self._rewriting, op)

    def _end(self, b: Expansion, op: Op, made: Value) -> None:
        """Let ``made``, whose channels are last, stand for the result of ``op``."""
        back = one(b, "permute", [made], dims=FIRST)
        self._last[back] = made
        if op.result in self._chains:
            self._chains.add(back)
        self._rewriting.replace(op, [back])

    def _turned(self, b: Expansion, image: Value) -> Value:
        found = self._last.get(image)
        if found is None:
            found = self._last[image] = one(b, "permute", [image], dims=LAST)
        return found

    def _convolution(self, op: Op) -> None:
        turned = OPSET[op.name].channels_last
        assert turned is not None
        b = self._begin(op)
        self._end(b, op, turned(b, op, self._turned(b, op.operands[0])))

    def _map(self, op: Op) -> None:
        b = self._begin(op)
        operands = []
        for value in op.operands:
            shape = value.tensor_type.shape
            if len(shape) == 4:
                operands.append(self._turned(b, value))
            elif len(shape) == 0:
                operands.append(value)
            else:
                padded = (*(1 for _ in range(4 - len(shape))), *shape)
                whole = one(b, "reshape", [value], shape=Shape(padded))
                operands.append(one(b, "permute", [whole], dims=LAST))
        self._end(b, op, one(b, op.name.removeprefix("mo."), operands, **op.attrs))

    def _concat(self, op: Op, images: Sequence[Value]) -> None:
        b = self._begin(op)
        axis = LAST.index(axis_of(op.attrs["axis"], 4, op.name))
        attrs = {**op.attrs, "axis": axis}
        made = one(b, op.name.removeprefix("mo."), [self._last[v] for v in images], **attrs)
        self._end(b, op, made)

    def _reduce(self, op: Op) -> None:
        """A reduction of all pixels of an image, which ``op`` has side by side, channel by
        channel."""
        flat = op.operands[0]
        if flat.op is None or not OPSET[flat.op.name].same_order or set(op.attrs) != {"axis"}:
            return
        image, shape = flat.op.operands[0], list(flat.tensor_type.shape)
        last = self._last.get(image)
        if last is None or len(shape) != 3 or axis_of(op.attrs["axis"], 3, op.name) != 2:
            return
        if not all(isinstance(d, StaticDim) for d in (*shape, *last.tensor_type.shape)):
            return
        if shape[:2] != list(image.tensor_type.shape)[:2]:
            return
        b = self._begin(op)
        pixels = one(b, "reshape", [last], shape=Shape([shape[0], shape[2], shape[1]]))
        made = one(b, op.name.removeprefix("mo."), [pixels], axis=1)
        self._rewriting.replace(op, [one(b, "permute", [made], dims=(0, 2, 1))])


__all__ = ["turn_images"]
