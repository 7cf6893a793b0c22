"""Small networks that are added at once, in a scope of their own, with weights that begin as random
numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import GraphError
from maxlab.graph import Weight, ops
from maxlab.graph.value import Value
from maxlab.ir import DeviceRef
from maxlab.lab.fields import FieldError
from maxlab.lab.weighting import seed_of, start_of
from maxlab.nn.states import slot_of

ACTIVATIONS: Final = ("relu", "gelu", "tanh", "sigmoid", "silu")


class Blank(NamedTuple):
    """Something of a snippet that is typed: its name, the text that it begins with, and how it is
    typed."""

    name: str
    text: str
    hint: str
    choices: tuple[str, ...] = ()


class Snippet(NamedTuple):
    """A small network.

    Attributes:
        name: What it is called, and its scope.
        says: What its result is, in a sentence.
        blanks: What is typed.
        build: Adds it, reading a value, for what was typed.
        example: A program that computes the same.
    """

    name: str
    says: str
    blanks: tuple[Blank, ...]
    build: Callable[[Any, Typed], Any]
    example: str


class Typed:
    """The texts that were typed for a snippet; it also draws its weights."""

    def __init__(
        self, texts: Mapping[str, str], device: DeviceRef, dtype: DType, prefix: str
    ) -> None:
        self.weights: dict[str, Weight] = {}
        self._texts = texts
        self._prefix = prefix
        self._rng = np.random.default_rng(seed_of(texts.get("seed", "")))
        self._device = device
        self._dtype = dtype

    def text(self, name: str) -> str:
        """The text that was typed for ``name``."""
        return self._texts.get(name, "").strip()

    def size(self, name: str, least: int = 1) -> int:
        """A whole number of at least ``least``.

        Raises:
            FieldError: ML808, something else was typed.
        """
        found = self.sizes(name, least)
        if len(found) != 1:
            raise FieldError(name, f"{self.text(name)!r} is not one number", "write one number")
        return found[0]

    def sizes(self, name: str, least: int = 1) -> list[int]:
        """Whole numbers with commas between them.

        Raises:
            FieldError: ML808, something else was typed.
        """
        text = self.text(name)
        try:
            found = [int(part) for part in text.split(",") if part.strip()]
        except ValueError as error:
            raise FieldError(name, f"{text!r} is no number", "write whole numbers") from error
        if any(not least <= number < 1 << 20 for number in found):
            raise FieldError(name, f"{text!r} is out of range", f"write {least} or more")
        return found

    def activation(self, x: Any) -> Any:
        """``x`` through the activation that was chosen.

        Raises:
            FieldError: ML808, there is none of that name.
        """
        name = self.text("activation")
        if name not in ACTIVATIONS:
            raise FieldError(
                "activation", f"{name!r} is none", f"write one of {', '.join(ACTIVATIONS)}"
            )
        return getattr(ops, name)(x)

    def weight(self, name: str, *shape: int) -> Any:
        """A weight of noise whose products keep the size of numbers."""
        return self._made(f"{name}.weight", shape, math.prod(shape[:-1]))

    def bias(self, name: str, size: int) -> Any:
        """A weight of zeros, as biases begin."""
        return self._made(f"{name}.bias", (size,))

    def _made(self, name: str, shape: tuple[int, ...], fan_in: int = 0) -> Weight:
        made = Weight(f"{self._prefix}.{name}", self._dtype, shape, self._device)
        slot_of(made).value = start_of(made, self._rng, fan_in)
        self.weights[name] = made
        return made


def _width(x: Any) -> int:
    """The last size of ``x``, which must be a number.

    Raises:
        GraphError: ML300, it is none.
    """
    try:
        return int(x.shape[-1])
    except (TypeError, ValueError, IndexError) as error:
        raise GraphError(
            "ML300",
            f"the last size of {x.shape} is no number",
            fix="give the input a last size that is a number",
        ) from error


def _linear(x: Any, typed: Typed) -> Any:
    out = typed.size("out")
    return x @ typed.weight("out", _width(x), out) + typed.bias("out", out)


def _mlp(x: Any, typed: Typed) -> Any:
    for number, size in enumerate(typed.sizes("hidden")):
        name = f"hidden.{number}"
        made = x @ typed.weight(name, _width(x), size) + typed.bias(name, size)
        x = typed.activation(made)
    return _linear(x, typed)


def _attention(x: Any, typed: Typed) -> Any:
    width, heads, rank = _width(x), typed.size("heads"), x.rank
    if width % heads:
        raise FieldError("heads", f"{width} is not divided by {heads}", "write a divisor of it")
    if rank < 2:
        raise GraphError("ML300", f"attention takes rows, got {x.shape}", fix="select a matrix")
    outer = list(x.shape)[:-1]

    def part(name: str) -> Any:
        made = ops.reshape(x @ typed.weight(name, width, width), [*outer, heads, width // heads])
        return ops.transpose(made, rank - 2, rank - 1)

    q, k, v = part("q"), part("k"), part("v")
    scores = q @ ops.transpose(k, rank - 1, rank) * (1 / math.sqrt(width // heads))
    mixed = ops.transpose(ops.softmax(scores) @ v, rank - 2, rank - 1)
    return ops.reshape(mixed, [*outer, width]) @ typed.weight("out", width, width)


def _conv(x: Any, typed: Typed) -> Any:
    filters, kernel = typed.size("filters"), typed.size("kernel")
    if x.rank != 4:
        raise GraphError(
            "ML300", f"a conv block takes NHWC images, got {x.shape}", fix="select such a value"
        )
    before, behind = (kernel - 1) // 2, kernel // 2
    padding = (before, behind, before, behind)
    weight = typed.weight("conv", kernel, kernel, _width(x), filters)
    return typed.activation(ops.conv2d(x, weight, padding=padding) + typed.bias("conv", filters))


_OUT = Blank("out", "10", "how many numbers it gives")
_ACTIVATION = Blank("activation", "relu", "one of the words", ACTIVATIONS)

_HEAD = """import numpy as np

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops

rng = np.random.default_rng(0)
"""
_RUN = """model = engine.InferenceSession().load(graph)
"""
_DENSE = f"""{_HEAD}w = rng.standard_normal((8, 10)).astype(np.float32)
with Graph("dense", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
    graph.output(graph.inputs[0].tensor @ w + np.zeros(10, np.float32))
{_RUN}print(model(np.ones((2, 8), np.float32))[0].to_numpy().shape)
"""
_MLP = f"""{_HEAD}w = rng.standard_normal((8, 64)).astype(np.float32)
v = rng.standard_normal((64, 10)).astype(np.float32)
with Graph("mlp", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
    graph.output(ops.relu(graph.inputs[0].tensor @ w) @ v)
{_RUN}print(model(np.ones((2, 8), np.float32))[0].to_numpy().shape)
"""
_ATTENTION = f"""{_HEAD}wq, wk, wv = rng.standard_normal((3, 8, 8)).astype(np.float32)
with Graph("attention", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
    x = graph.inputs[0].tensor
    graph.output(ops.scaled_dot_product_attention(x @ wq, x @ wk, x @ wv))
{_RUN}print(model(np.ones((3, 8), np.float32))[0].to_numpy().shape)
"""
_CONV = f"""{_HEAD}w = rng.standard_normal((3, 3, 3, 16)).astype(np.float32)
with Graph("conv", input_types=[TensorType(DType.float32, ["n", 8, 8, 3])]) as graph:
    graph.output(ops.relu(ops.conv2d(graph.inputs[0], w, padding=(1, 1, 1, 1))))
{_RUN}print(model(np.ones((1, 8, 8, 3), np.float32))[0].to_numpy().shape)
"""

SNIPPETS: Final[Mapping[str, Snippet]] = {
    one.name: one
    for one in (
        Snippet("dense", "x @ w + b.", (_OUT,), _linear, _DENSE),
        Snippet(
            "mlp",
            "Linear layers with an activation between them.",
            (Blank("hidden", "64", "sizes with commas between them"), _OUT, _ACTIVATION),
            _mlp,
            _MLP,
        ),
        Snippet(
            "attention",
            "Each row mixed with the others by the softmax of their products, in several heads.",
            (Blank("heads", "4", "a divisor of the last size"),),
            _attention,
            _ATTENTION,
        ),
        Snippet(
            "conv_block",
            "A convolution of an image that keeps its size, with a bias and an activation.",
            (
                Blank("filters", "16", "how many"),
                Blank("kernel", "3", "its size"),
                _ACTIVATION,
            ),
            _conv,
            _CONV,
        ),
    )
}


def build(
    snippet: Snippet, value: Value, texts: Mapping[str, str], prefix: str = ""
) -> tuple[Value, dict[str, Weight]]:
    """The result of ``snippet``, added to the graph that is being built, and its weights, which
    have names that begin with ``prefix``.

    Raises:
        FieldError: ML808, a text that cannot be read.
        MaxlabError: It does not take ``value``.
    """
    x: Any = value
    whole = {blank.name: blank.text for blank in snippet.blanks} | dict(texts)
    typed = Typed(whole, x.device, x.dtype, prefix or snippet.name)
    made: Value = snippet.build(x, typed)
    return made, typed.weights


__all__ = ["ACTIVATIONS", "SNIPPETS", "Blank", "Snippet", "Typed", "build"]
