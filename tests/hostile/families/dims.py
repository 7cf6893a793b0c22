"""Dims and shapes: huge, negative, expressions of each other, and text that is nearly a dim."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Dim, Graph, Shape, TensorType, TensorValue, ops
from maxlab.ir import parse_dim
from tests.hostile.harness import WEIRD, Case, Family

SIZES: tuple[Any, ...] = (
    0, 1, 2, 3, 7, 2**16, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64,
    10**30, -1, -2, -(2**63), "n", "m", "k",
)  # fmt: skip
CHANGES: dict[str, Callable[[TensorValue, Random], object]] = {
    "reshape": lambda x, r: ops.reshape(x, _shape(r)),
    "broadcast_to": lambda x, r: ops.broadcast_to(x, _shape(r)),
    "permute": lambda x, r: ops.permute(x, r.sample(range(-1, 4), r.randrange(4))),
    "sum": lambda x, r: ops.sum(x, r.choice((0, 1, -1, 2, -3, 2**40))),
    "tile": lambda x, r: ops.tile(x, _shape(r)),
    "pad": lambda x, r: ops.pad(x, [r.choice(SIZES) for _ in range(r.randrange(6))]),
    "concat": lambda x, r: ops.concat([x] * r.randrange(4), r.choice((0, 1, -1, 9))),
    "repeat": lambda x, r: ops.repeat_interleave(x, r.choice(SIZES), 0),
    "split": lambda x, r: ops.split(x, [r.choice(SIZES) for _ in range(r.randrange(4))], 0),
    "squeeze": lambda x, r: ops.squeeze(x, r.randrange(-5, 5)),
    "slice": lambda x, r: x[_bound(r) : _bound(r) : _bound(r)],
    "flatten": lambda x, r: ops.flatten(x, r.randrange(-4, 4), r.randrange(-4, 4)),
    "rebind": lambda x, r: ops.rebind(x, _shape(r)),
    "hann": lambda x, r: ops.hann_window(r.choice(SIZES), DeviceRef.CPU()),
    "range": lambda x, r: ops.range(
        _bound(r) or 0, _bound(r) or 5, _bound(r) or 1, dtype=DType.int64, device=DeviceRef.CPU()
    ),
    "irfft": lambda x, r: ops.irfft(x, r.choice(SIZES)),
    "fold": lambda x, r: ops.fold(x, _pair(r), _pair(r), r.choice(SIZES)),
    "top_k": lambda x, r: ops.top_k(x, r.choice(SIZES), -1),
}


def _bound(random: Random) -> Any:
    return random.choice((None, 0, 1, -1, 2, -3, 2**31, 2**63 - 1, -(2**63), 2**64, "n", 1.5))


def _pair(random: Random) -> Any:
    return (random.choice(SIZES), random.choice(SIZES))


def _size(random: Random) -> Any:
    size = random.choice(SIZES) if random.random() < 0.9 else random.choice(WEIRD)
    if random.random() < 0.3:
        dim: Any = Dim(random.choice(("n", "m", 3)))
        for _ in range(random.randrange(1, 5)):
            other = random.choice(SIZES)
            turn = random.randrange(4)
            if turn == 0:
                dim = dim + other
            elif turn == 1:
                dim = dim * other
            elif turn == 2:
                dim = dim // other
            else:
                dim = other - dim
        return dim
    return size


def _shape(random: Random) -> Any:
    rank = random.choice((0, 1, 2, 2, 3, 5, 32, 33, 65))
    return [_size(random) for _ in range(rank)]


def _built(number: int) -> Case:
    def run(folder: Path) -> None:
        random = Random(number)
        shape = _shape(random)
        kind = TensorType(DType.float32, shape, DeviceRef.CPU())
        str(kind), hash(kind), Shape(shape)
        with Graph("dims", input_types=[kind]) as graph:
            x = graph.inputs[0].tensor
            for _ in range(random.randrange(1, 4)):
                CHANGES[random.choice(sorted(CHANGES))](x, random)
            graph.output(x)
        str(graph)

    return Case(f"a graph of shapes drawn from {number}", run)


def _read(text: str) -> Case:
    def run(folder: Path) -> None:
        dim = parse_dim(text)
        if parse_dim(str(dim)) != dim:
            raise AssertionError(f"{dim} reads back as {parse_dim(str(dim))}")

    return Case(f"the dim {text!r:.60}", run)


def _draw(random: Random) -> Case:
    if random.random() < 0.2:
        words = ("n", "m", "7", "9" * 30, "+", "-", "*", "//", "(", ")", "%", " ", "?", "é", "0x1")
        return _read("".join(random.choices(words, k=random.randrange(1, 12))))
    return _built(random.randrange(1 << 40))


def _with(words: str, build: Callable[[TensorValue], object]) -> Case:
    def run(folder: Path) -> None:
        kind = TensorType(DType.float32, ["n", 4], DeviceRef.CPU())
        with Graph("dims", input_types=[kind]) as graph:
            build(graph.inputs[0].tensor)

    return Case(words, run)


SEEDS = [
    _with("reshape with a product past int64", lambda x: ops.reshape(x, [2**32, 2**32, 0])),
    _with("permute with None", lambda x: ops.permute(x, None)),  # type: ignore[arg-type]
    _with("hann_window(2**40)", lambda x: ops.hann_window(2**40, DeviceRef.CPU())),
    _with("irfft(n=2**40)", lambda x: ops.irfft(x, 2**40)),
    _with("broadcast to 2**62", lambda x: ops.sum(ops.broadcast_to(x, [2**62, "n", 4]))),
    *(_read(text) for text in ("", "(" * 10_000, "n" * 100_000, "1" * 5000, "n//0", "n - -1")),
]

FAMILIES = (Family("dims", SEEDS, _draw, 5000),)
