"""The cases of ``benchmarks.ops``: single ops at sizes that models have, and who else can do them.

A case is one row of the table that ``cases`` gives; its ``make`` builds the operands, our compiled
graph and the peers. Images and filters of torch are in the memory format of the case, so that
nobody has to permute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from maxlab.analysis.machine.streams import LINE, Loops, Memory
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.ir import ConvInputLayout, FilterLayout
from maxlab.opset.quantized import FORMATS, quantized_left, random_blocks
from maxlab.toolchain import runtime as library

Array = np.ndarray[Any, Any]
Call = Callable[[], Any]
HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass
class Made:
    """What is timed: ``ours`` and each of the ``peers``.

    Attributes:
        check: Raises an AssertionError when our result is not that of a peer.
        goals: Of the peers with a goal: what their time divided by ours should be at least.
    """

    ours: Call
    peers: dict[str, Call]
    check: Call
    goals: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One row: its group, its name and what builds it."""

    group: str
    name: str
    make: Callable[[InferenceSession], Made]


def compiled(
    session: InferenceSession, inputs: Sequence[Array], body: Callable[..., Any]
) -> Callable[[], list[Tensor]]:
    """A call of the graph that ``body`` makes of its inputs, on these arrays."""
    types = [TensorType(DType.from_numpy(a.dtype), a.shape) for a in inputs]
    with Graph("bench", input_types=types) as graph:
        made = body(*(value.tensor for value in graph.inputs))
        graph.output(*made) if isinstance(made, tuple) else graph.output(made)
    model, given = session.load(graph), [Tensor.from_numpy(a) for a in inputs]
    return lambda: model.execute(*given)


def constant(array: Array) -> TensorValue:
    """A weight: known when the graph is compiled."""
    return ops.constant(array, DType.from_numpy(array.dtype), DeviceRef.CPU())


def as_torch(array: Array) -> torch.Tensor:
    """The array as torch sees it, without a copy; halves by their bits."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def as_floats(value: Any) -> Array:
    """A result of anybody as NumPy numbers that can be compared."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        value = value.float().numpy() if value.dtype in HALVES.values() else value.numpy()
    array = value.to_ml_numpy() if isinstance(value, Tensor) else np.asarray(value)
    found: Array = array.astype(np.float32) if array.dtype.name in HALVES else array
    return found


def close(
    ours: Call, theirs: Call, tolerance: float, *, turn: Callable[[Array], Array] = np.asarray
) -> None:
    """Nothing, when results agree within ``tolerance`` of the largest number; for 0, all bits."""
    got, want = ours(), theirs()
    wanted = want if isinstance(want, (tuple, list)) else [want]
    for one, other in zip(got, wanted, strict=True):
        a, b = as_floats(one), turn(as_floats(other))
        assert a.shape == b.shape, f"{a.shape} is not {b.shape}"
        if tolerance == 0:
            np.testing.assert_array_equal(a, b)
        else:
            scale = float(np.max(np.abs(b), initial=1e-30))
            worst = float(np.max(np.abs(a.astype(np.float64) - b), initial=0.0)) / scale
            assert worst <= tolerance, f"apart by {worst:.2e} of the largest, not {tolerance:.0e}"


# ---------------------------------------------------------------- convolutions
@dataclass(frozen=True)
class Conv:
    """A convolution of square images with square windows."""

    n: int
    size: int
    channels: int
    filters: int
    window: int
    stride: int = 1
    groups: int = 1
    layout: str = "NHWC"
    dtype: str = "float32"
    transposed: bool = False
    goal: float = 1.0

    @property
    def name(self) -> str:
        """As in tables: images × size² × channels → filters, window."""
        parts = [
            f"{self.n}x{self.size}²x{self.channels}→{self.filters}",
            f"{self.window}x{self.window}",
        ]
        parts += [f"/{self.stride}"] * (self.stride > 1) + [f"g{self.groups}"] * (self.groups > 1)
        parts += [self.layout] + [self.dtype] * (self.dtype != "float32")
        return " ".join(parts)


def conv(session: InferenceSession, c: Conv) -> Made:
    """A convolution, or a transposed one, beside torch."""
    rng = np.random.default_rng(0)
    dtype = DType[c.dtype].ml_numpy
    first, pad = c.layout == "NCHW", (c.window - 1) // 2
    x = rng.standard_normal((c.n, c.channels, c.size, c.size)).astype(np.float32).astype(dtype)
    shape = (c.filters, c.channels // c.groups, c.window, c.window)
    w = (rng.standard_normal(shape) / 16).astype(np.float32).astype(dtype)
    if c.transposed:
        w = np.ascontiguousarray(w.swapaxes(0, 1))  # torch: in, out, rows, columns
    order = {"memory_format": torch.contiguous_format if first else torch.channels_last}
    tx, tw = as_torch(x).contiguous(**order), as_torch(w).contiguous(**order)
    ours = x if first else np.ascontiguousarray(np.moveaxis(x, 1, -1))
    mine = w if first else np.ascontiguousarray(w.transpose(2, 3, 1, 0))
    layouts: dict[str, Any] = {
        "input_layout": ConvInputLayout.NCHW if first else ConvInputLayout.NHWC,
        "filter_layout": FilterLayout.FCRS if first else FilterLayout.RSCF,
    }
    plain: dict[str, Any] = {"stride": (c.stride,) * 2, "padding": (pad,) * 4}

    def body(image: TensorValue) -> TensorValue:
        if c.transposed:
            return ops.conv2d_transpose(image, constant(mine), **plain, **layouts)
        return ops.conv2d(image, constant(mine), groups=c.groups, **plain, **layouts)

    run = compiled(session, [ours], body)
    functional = torch.nn.functional
    if c.transposed:
        peer = partial(functional.conv_transpose2d, tx, tw, stride=c.stride, padding=pad)
    else:
        peer = partial(functional.conv2d, tx, tw, stride=c.stride, padding=pad, groups=c.groups)

    def turn(y: Array) -> Array:
        return y if first else np.moveaxis(y, 1, -1)

    tolerance = 2e-5 if c.dtype == "float32" else 2e-2
    check = partial(close, run, peer, tolerance, turn=turn)
    return Made(run, {"torch": peer}, check, {"torch": c.goal})


def convolutions() -> Iterator[Case]:
    """The sizes of ResNets: blocks, projections and the stem."""
    blocks = [(56, 64, 64, 3), (28, 128, 128, 3), (14, 256, 256, 3), (7, 512, 512, 3),
              (56, 64, 256, 1), (14, 1024, 256, 1)]  # fmt: skip
    rows = [Conv(n, s, c, f, k, layout=layout)
            for layout in ("NHWC", "NCHW") for n in (1, 8) for s, c, f, k in blocks]  # fmt: skip
    rows += [Conv(n, 224, 3, 64, 7, 2, layout=layout)
             for layout in ("NHWC", "NCHW") for n in (1, 8)]  # fmt: skip
    rows += [Conv(1, 56, 128, 128, 3, 2, layout=layout) for layout in ("NHWC", "NCHW")]
    for row in rows:
        yield Case("conv2d", row.name, partial(conv, c=row))
    loose = 1 / 1.5
    others = {
        "depthwise": [Conv(n, s, c, c, 3, stride, c, layout, goal=loose)
                      for layout in ("NHWC", "NCHW")
                      for n, s, c, stride in ((1, 112, 32, 1), (1, 56, 144, 2), (8, 14, 576, 1))],
        "transpose": [Conv(n, s, c, f, k, stride, layout=layout, transposed=True, goal=loose)
                      for layout in ("NHWC", "NCHW")
                      for n, s, c, f, k, stride in ((1, 32, 128, 64, 4, 2), (8, 16, 64, 64, 3, 1))],
        "half": [Conv(1, s, c, c, k, layout=layout, dtype=dtype, goal=loose)
                 for layout in ("NHWC", "NCHW") for dtype in HALVES
                 for s, c, k in ((56, 64, 3), (14, 256, 3), (28, 256, 1))],
    }  # fmt: skip
    for group, found in others.items():
        for row in found:
            yield Case(group, row.name, partial(conv, c=row))


# ---------------------------------------------------------------- orders and sums
def sorted_rows(kind: str) -> Array:
    """Rows of a vocabulary."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((64, 32_000)).astype(np.float32)
    return np.sort(x, axis=-1) if kind == "ascending" else x


def numpy_top(x: Array, k: int) -> tuple[Array, Array]:
    """The k largest of each row in NumPy: selected, then sorted."""
    at = np.argpartition(x, -k, axis=-1)[:, -k:]
    values = np.take_along_axis(x, at, -1)
    order = np.argsort(-values, axis=-1)
    return np.take_along_axis(values, order, -1), np.take_along_axis(at, order, -1)


def top(session: InferenceSession, k: int, kind: str) -> Made:
    """The k largest of 64 rows."""
    x = sorted_rows(kind)
    run = compiled(session, [x], lambda v: ops.top_k(v, k))
    t = torch.from_numpy(x)
    peers: dict[str, Call] = {
        "torch": lambda: tuple(torch.topk(t, k)),
        "numpy": lambda: numpy_top(x, k),
    }

    def expected() -> tuple[Array, Array]:
        """Equal numbers by index, as torch does not promise it."""
        at = x.shape[-1] - 1 - np.argsort(x[:, ::-1], kind="stable")[:, ::-1][:, :k]
        return np.take_along_axis(x, at, -1), at

    return Made(run, peers, partial(close, run, expected, 0), dict.fromkeys(peers, 1.0))


def argsort(session: InferenceSession, dtype: str, many: bool) -> Made:
    """A million numbers: over the whole range, or of few different values."""
    rng = np.random.default_rng(2)
    if dtype.startswith("float"):
        x = rng.standard_normal(1_000_000).astype(dtype)
    else:
        high = np.iinfo(dtype).max if many else 1000
        x = rng.integers(0, high, 1_000_000).astype(dtype)
    run, t = compiled(session, [x], ops.argsort), torch.from_numpy(x)
    peers: dict[str, Call] = {"torch": lambda: torch.argsort(t), "numpy": lambda: np.argsort(x)}
    stable = partial(np.argsort, x, kind="stable")
    return Made(run, peers, partial(close, run, stable, 0), dict.fromkeys(peers, 1.0))


def cumsum(session: InferenceSession, shape: tuple[int, ...], axis: int, dtype: str) -> Made:
    """Running sums."""
    x = np.random.default_rng(3).integers(-3, 4, shape).astype(dtype)  # exact in any order
    run, t = compiled(session, [x], lambda v: ops.cumsum(v, axis)), torch.from_numpy(x)
    peers: dict[str, Call] = {
        "torch": lambda: torch.cumsum(t, axis, dtype=t.dtype),
        "numpy": lambda: np.cumsum(x, axis, dtype=x.dtype),
    }
    return Made(run, peers, partial(close, run, peers["numpy"], 0), dict.fromkeys(peers, 1.0))


def orders() -> Iterator[Case]:
    """Sorting, selecting and running sums."""
    for kind in ("random", "ascending"):
        for k in (1, 50, 256):
            yield Case("top_k", f"64x32000 k={k} {kind}", partial(top, k=k, kind=kind))
    for dtype, many in (("float32", True), ("int32", True), ("int32", False), ("int64", True),
                        ("int64", False)):  # fmt: skip
        name = f"1e6 {dtype}" + ("" if many else " below 1000")
        yield Case("argsort", name, partial(argsort, dtype=dtype, many=many))
    sums: list[tuple[tuple[int, ...], int]] = [
        ((512, 4096), 1),
        ((4096, 512), 0),
        ((4_000_000,), 0),
        ((64, 64), 1),
        ((64, 300, 300), 1),
    ]
    for shape, axis in sums:
        for dtype in ("float32", "int64"):
            name = f"{'x'.join(map(str, shape))} axis {axis} {dtype}"
            yield Case("cumsum", name, partial(cumsum, shape=shape, axis=axis, dtype=dtype))


# ---------------------------------------------------------------- indices
def gather(
    session: InferenceSession, shape: tuple[int, ...], count: tuple[int, ...], axis: int
) -> Made:
    """Slices of ``axis``."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal(shape).astype(np.float32)
    at = rng.integers(0, shape[axis], count)
    run = compiled(session, [x, at], lambda a, b: ops.gather(a, b, axis))
    t, flat = torch.from_numpy(x), torch.from_numpy(at.reshape(-1))
    wanted = (*shape[:axis], *count, *shape[axis + 1 :])
    peers: dict[str, Call] = {
        "torch": lambda: torch.index_select(t, axis, flat).view(wanted),
        "numpy": lambda: np.take(x, at, axis),
    }
    return Made(run, peers, partial(close, run, peers["numpy"], 0), dict.fromkeys(peers, 1.0))


def gather_nd(session: InferenceSession, shape: tuple[int, ...], count: int, depth: int) -> Made:
    """Slices at rows of ``depth`` indices."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal(shape).astype(np.float32)
    parts = [rng.integers(0, n, count) for n in shape[:depth]]
    at = np.stack(parts, -1)
    run, t = compiled(session, [x, at], ops.gather_nd), torch.from_numpy(x)
    split = [torch.from_numpy(p) for p in parts]
    peers: dict[str, Call] = {"torch": lambda: t[tuple(split)], "numpy": lambda: x[tuple(parts)]}
    return Made(run, peers, partial(close, run, peers["numpy"], 0), dict.fromkeys(peers, 1.0))


def scatter(session: InferenceSession, shape: tuple[int, ...], count: int, axis: int) -> Made:
    """Different places of ``axis``, so that torch has one answer too."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal(shape).astype(np.float32)
    updated = list(shape)
    updated[axis] = count
    at = rng.permuted(np.indices(shape)[axis], axis=axis)
    at = np.ascontiguousarray(np.take(at, range(count), axis)).astype(np.int64)
    u = rng.standard_normal(updated).astype(np.float32)
    run = compiled(session, [x, u, at], lambda a, b, c: ops.scatter(a, b, c, axis))
    tx, tu, ta = (torch.from_numpy(a) for a in (x, u, at))

    def of_numpy() -> Array:
        made = x.copy()
        np.put_along_axis(made, at, u, axis)
        return made

    peers: dict[str, Call] = {"torch": lambda: torch.scatter(tx, axis, ta, tu), "numpy": of_numpy}
    return Made(run, peers, partial(close, run, of_numpy, 0), dict.fromkeys(peers, 1.0))


def scatter_nd(session: InferenceSession, shape: tuple[int, ...], count: int, depth: int) -> Made:
    """Different slices at rows of ``depth`` indices."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal(shape).astype(np.float32)
    flat = rng.permutation(int(np.prod(shape[:depth])))[:count]
    parts = np.unravel_index(flat, shape[:depth])
    at = np.stack(parts, -1).astype(np.int64)
    u = rng.standard_normal((count, *shape[depth:])).astype(np.float32)
    run = compiled(session, [x, u, at], ops.scatter_nd)
    tx, tu = torch.from_numpy(x), torch.from_numpy(u)
    split = tuple(torch.from_numpy(np.ascontiguousarray(p)) for p in parts)

    def of_numpy() -> Array:
        made = x.copy()
        made[parts] = u
        return made

    peers: dict[str, Call] = {"torch": lambda: tx.index_put(split, tu), "numpy": of_numpy}
    return Made(run, peers, partial(close, run, of_numpy, 0), dict.fromkeys(peers, 1.0))


def indices() -> Iterator[Case]:
    """Reading and writing at many places."""
    for shape, count, axis in (((32_000, 1024), (8, 64), 0), ((1_000_000,), (1_000_000,), 0),
                               ((512, 4096), (1024,), 1)):  # fmt: skip
        name = f"{'x'.join(map(str, shape))}, {'x'.join(map(str, count))} of axis {axis}"
        yield Case("gather", name, partial(gather, shape=shape, count=count, axis=axis))
    many: tuple[tuple[tuple[int, ...], int, int], ...] = (
        ((1000, 1000), 500_000, 2),
        ((256, 128, 64), 20_000, 2),
    )
    for sizes, rows, depth in many:
        name = f"{'x'.join(map(str, sizes))}, {rows} rows of {depth}"
        yield Case("gather_nd", name, partial(gather_nd, shape=sizes, count=rows, depth=depth))
        yield Case("scatter_nd", name, partial(scatter_nd, shape=sizes, count=rows, depth=depth))
    for shape, rows, axis in (((64, 32_000), 4096, 1), ((4_000_000,), 1_000_000, 0),
                              ((2048, 512), 1024, 0), ((1_000_000,), 10_000, 0)):  # fmt: skip
        name = f"{'x'.join(map(str, shape))}, {rows} of axis {axis}"
        yield Case("scatter", name, partial(scatter, shape=shape, count=rows, axis=axis))


# ---------------------------------------------------------------- products
def reading(nbytes: int, threads: int) -> Call:
    """Reads as many bytes from memory, in the loop that measures its bandwidth."""
    runtime = library()
    loops = Loops(runtime, threads)
    floats = nbytes // (4 * threads) // LINE * LINE
    memory = Memory(runtime, max(nbytes, 1 << 20))
    return lambda: loops.run("ceiling_read", memory.addresses, [floats, 1], items=threads)


def quantized(session: InferenceSession, name: str, m: int, n: int, k: int, goal: float) -> Made:
    """A product with blocks of few bits; one row is beside reading them, more beside float32.
    Blocks that a cache holds are read so fast that there is no goal: 0."""
    rng, form = np.random.default_rng(8), FORMATS[name]
    w = random_blocks(rng, name, (n, k // form.elements))
    x = rng.standard_normal((m, k)).astype(np.float32)
    encoding = QuantizationEncoding[name]
    run = compiled(session, [x], lambda a: ops.qmatmul(encoding, None, a, constant(w)))
    found = form.blocks(w[:64])

    def expected() -> Array:
        """The first 64 columns."""
        full = found.d[..., None] * found.q
        if found.least is not None and found.dmin is not None:
            full = full - found.dmin[..., None] * found.least
        q, d = quantized_left(x, name)
        left = (q * d[..., None]).reshape(m, k)
        return np.asarray(left @ full.reshape(len(full), k).T)

    def check() -> None:
        got, want = run()[0].to_numpy()[:, :64], expected()
        worst = float(np.max(np.abs(got - want)) / np.max(np.abs(want)))
        assert worst < 1e-4, f"apart by {worst:.2e} of the largest"

    if m == 1:
        peer = {"read": reading(w.nbytes, session.num_threads)}
        return Made(run, peer, check, {"read": goal} if goal else {})
    full = torch.randn(n, k)
    tx = torch.from_numpy(x)
    return Made(run, {"torch f32": partial(torch.nn.functional.linear, tx, full)}, check,
                {"torch f32": goal})  # fmt: skip


def product(session: InferenceSession, m: int, k: int, n: int, dtype: str) -> Made:
    """A product with a weight. In bfloat16 it is beside our own in float32 too."""
    rng = np.random.default_rng(9)
    x = rng.standard_normal((m, k)).astype(np.float32)
    w = (rng.standard_normal((k, n)) / 16).astype(np.float32)
    single = compiled(session, [x], lambda a: a @ constant(w))
    tx, tw = torch.from_numpy(x), torch.from_numpy(w)
    if dtype == "float32":
        peers: dict[str, Call] = {"torch": lambda: tx @ tw, "numpy": lambda: x @ w}
        check = partial(close, single, peers["torch"], 2e-5)
        return Made(single, peers, check, dict.fromkeys(peers, 0.9))
    kind = DType[dtype].ml_numpy
    a, b = x.astype(kind), w.astype(kind)
    run = compiled(session, [a], lambda v: v @ constant(b))
    ta, tb = as_torch(a), as_torch(b)
    peers = {"ours f32": single, "torch": lambda: ta @ tb}
    return Made(run, peers, partial(close, run, peers["torch"], 1e-2), {"ours f32": 1.7})


def products() -> Iterator[Case]:
    """Products of matrices."""
    for m, k, n in ((64, 512, 2048), (512, 4096, 4096), (1024, 1024, 1024)):
        for dtype in ("float32", "bfloat16"):
            name = f"{m}x{k}x{n} {dtype}"
            yield Case("matmul", name, partial(product, m=m, k=k, n=n, dtype=dtype))
    for name, goal in (("Q4_0", 0.8), ("Q4_K", 0.65), ("Q6_K", 0.65)):
        for m, k, n, at_least in ((1, 4096, 32_768, goal), (1, 4096, 4096, 0.0),
                                  (32, 4096, 4096, 1.0), (512, 4096, 4096, 1.0)):  # fmt: skip
            row = partial(quantized, name=name, m=m, n=n, k=k, goal=at_least)
            yield Case("qmatmul", f"{name} {m}x{k}x{n}", row)


def cases() -> list[Case]:
    """All rows."""
    return [*convolutions(), *orders(), *indices(), *products()]
