"""Integer ops and casts against Python's integers and fractions: the references, and what is
compiled from the same graph, bit for bit."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest

from maxlab import driver
from maxlab.dtype import DType
from maxlab.errors import ToolchainError
from maxlab.graph import DeviceRef, Graph, ops
from maxlab.ir import Dim, Function, Value
from tests.compiler.compiling import compile_all
from tests.compiler.interpret import Builder, interpret, load, outputs_of
from tests.cuda.placing import load_on, on_gpu, run_on
from tests.opset import exact
from tests.opset.exact import FLOATS, INTEGERS, Array, array, edges

PLAIN = {"exclusive": False, "reverse": False}


class Batch:
    """Many ops in one function, and what each of them gives."""

    def __init__(self, name: str) -> None:
        self.b = Builder(name)
        self.inputs: list[Array] = []
        self.values: list[Value] = []
        self.expected: list[Array] = []
        self.labels: list[str] = []
        self._function: Function | None = None

    def input(self, data: Array) -> Value:
        """A new input that holds ``data``."""
        self.inputs.append(data)
        return self.b.input(DType.from_numpy(data.dtype), *data.shape)

    def expect(self, label: str, value: Value, wanted: Array) -> None:
        """One more output, and what it is."""
        self.labels.append(label)
        self.values.append(value)
        self.expected.append(wanted)

    @property
    def function(self) -> Function:
        """The function with all of the outputs."""
        if self._function is None:
            self._function = self.b.output(*self.values)
        return self._function

    def wrong(self, results: list[Array]) -> list[str]:
        """A line for each output that is not what it should be."""
        found = []
        for label, got, want in zip(self.labels, results, self.expected, strict=True):
            assert got.shape == want.shape, label
            assert got.dtype == want.dtype, label
            bad = bits_of(got) != bits_of(want)
            if want.dtype.kind not in "biu":
                bad &= ~(np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64)))
            if bad.any():
                at = tuple(int(n) for n in np.argwhere(bad)[0])
                found.append(
                    f"{label}: {int(bad.sum())} wrong, at {at} {got[at]!r} instead of {want[at]!r}"
                )
        return found


def bits_of(data: Array) -> Array:
    """The bits of each element, so that -0 is not 0."""
    return np.ascontiguousarray(data).view(f"u{data.dtype.itemsize}").reshape(data.shape)


# ---------------------------------------------------------------- programs
def elementwise(dtype: DType) -> Batch:
    """Every map on all pairs of edges, with an operand of the same numbers in memory and with a
    number that the graph has."""
    batch = Batch(f"elementwise_{dtype.name}")
    some = edges(dtype)
    pairs = list(itertools.product(some, some))
    xs, ys = [a for a, _ in pairs], [b for _, b in pairs]
    x, y = batch.input(array(xs, dtype)), batch.input(array(ys, dtype))
    for name, unary in exact.UNARY.items():
        batch.expect(name, batch.b.op(name, x), array([unary(a) for a in xs], dtype))
    for name, binary in exact.BINARY.items():
        batch.expect(name, batch.b.op(name, x, y), array([binary(a, b) for a, b in pairs], dtype))
        line = batch.b.constant(array(some, dtype))
        for number in (int(dtype.lowest), -1, 0, 3, int(dtype.largest)):
            if not dtype.lowest <= number <= dtype.largest:
                continue
            made = batch.b.op(name, line, batch.b.constant(array(number, dtype)))
            wanted = array([binary(a, number) for a in some], dtype)
            batch.expect(f"folded {name} {number}", made, wanted)
    for name, compare in exact.COMPARISONS.items():
        wanted = np.array([compare(a, b) for a, b in pairs])
        batch.expect(name, batch.b.op(name, x, y), wanted)
    chosen = batch.b.op("where", batch.b.op("greater", x, y), x, y)
    batch.expect("where", chosen, array([max(a, b) for a, b in pairs], dtype))
    return batch


def rows_of(dtype: DType, count: int, width: int) -> list[list[int]]:
    """Rows of edges in some order, the first three all least, all most, and least beside most."""
    rng = np.random.default_rng(dtype.value)
    some, least, most = edges(dtype), int(dtype.lowest), int(dtype.largest)
    found = [[least] * width, [most] * width, [most, least] * (width // 2) + [most] * (width % 2)]
    while len(found) < count:
        found.append([some[i] for i in rng.integers(0, len(some), width)])
    return found


def folds(dtype: DType) -> Batch:
    """Sums, extremes, means and their places along each axis, alone and of an expression."""
    batch = Batch(f"folds_{dtype.name}")
    for width in (1, 3, 37):
        rows = rows_of(dtype, 8, width)
        columns = [list(c) for c in zip(*rows, strict=True)]
        x = batch.input(array(rows, dtype))
        turned = batch.b.op("sub", x, batch.b.scalar(1, dtype))
        for name, fold in exact.FOLDS.items():
            into = DType.int64 if name.startswith("arg") else dtype
            along = array([[fold(row)] for row in rows], into)
            batch.expect(f"{name} rows {width}", batch.b.op(name, x, axis=1), along)
            across = array([[fold(column) for column in columns]], into)
            batch.expect(f"{name} columns {width}", batch.b.op(name, x, axis=0), across)
            less = [[exact.wrap(n - 1, dtype) for n in row] for row in rows]
            inner = array([[fold(row)] for row in less], into)
            batch.expect(f"{name} expression {width}", batch.b.op(name, turned, axis=1), inner)
    constant = batch.b.constant(array(rows, dtype))
    folded = array([[exact.mean(row)] for row in rows], dtype)
    batch.expect("folded mean", batch.b.op("mean", constant, axis=1), folded)
    whole = batch.b.op("reshape", x, shape=(8 * 37,))
    everything = array([exact.mean([n for row in rows for n in row])], dtype)
    batch.expect("mean of all", batch.b.op("mean", whole, axis=0), everything)
    return batch


def orders(dtype: DType) -> Batch:
    """Running sums, sorted elements and products."""
    batch = Batch(f"orders_{dtype.name}")
    rows = rows_of(dtype, 6, 9)
    columns = [list(c) for c in zip(*rows, strict=True)]
    x = batch.input(array(rows, dtype))
    for exclusive, reverse in itertools.product((False, True), repeat=2):
        attrs = {"exclusive": exclusive, "reverse": reverse}
        made = array([exact.cumsum(row, exclusive, reverse) for row in rows], dtype)
        batch.expect(f"cumsum {attrs}", batch.b.op("cumsum", x, axis=1, **attrs), made)
        down = array([exact.cumsum(column, exclusive, reverse) for column in columns], dtype).T
        batch.expect(f"cumsum down {attrs}", batch.b.op("cumsum", x, axis=0, **attrs), down)
    values, places = batch.b.all_of("top_k", x, k=4)
    best = [exact.order_of(row, False)[:4] for row in rows]
    taken = [[row[i] for i in at] for row, at in zip(rows, best, strict=True)]
    batch.expect("top_k", values, array(taken, dtype))
    batch.expect("top_k places", places, array(best, DType.int64))
    line = [n for row in rows for n in row]
    flat = batch.input(array(line, dtype))
    for up in (True, False):
        sorted_places = array(exact.order_of(line, up), DType.int64)
        batch.expect(f"argsort {up}", batch.b.op("argsort", flat, ascending=up), sorted_places)
    product = array(exact.matmul(rows, columns), dtype)
    right = batch.input(array(columns, dtype))
    batch.expect("matmul", batch.b.op("matmul", x, right), product)
    image = batch.b.op("reshape", x, shape=(1, 6, 9, 1))
    window = [
        [max(rows[r + i][c + j] for i in (0, 1) for j in (0, 1)) for c in range(8)]
        for r in range(5)
    ]
    pool = {"kernel_size": (2, 2), "stride": (1, 1), "dilation": (1, 1), "padding": (0, 0)}
    pooled = batch.b.op("max_pool2d", image, **pool, ceil_mode=False)
    batch.expect("max_pool2d", pooled, array(window, dtype).reshape(1, 5, 8, 1))
    taps = edges(dtype)[:2] + edges(dtype)[-2:]
    filter = batch.input(array(taps, dtype).reshape(2, 2, 1, 1))
    moved = [
        [
            sum(taps[2 * i + j] * rows[r + i][c + j] for i in (0, 1) for j in (0, 1))
            for c in range(8)
        ]
        for r in range(5)
    ]
    conv = batch.b.op("conv", image, filter, stride=(1, 1), dilation=(1, 1), padding=(0,) * 4,
                      groups=1, channels_first=False)  # fmt: skip
    batch.expect("conv", conv, array(moved, dtype).reshape(1, 5, 8, 1))
    padded = [[7, 7, *row] for row in rows]
    batch.expect("pad", batch.b.op("pad", x, paddings=(0, 0, 2, 0), value=7), array(padded, dtype))
    return batch


def indices(dtype: DType) -> Batch:
    """Elements taken and put at indices of ``dtype``, of dims that are longer than it counts."""
    batch = Batch(f"indices_{dtype.name}")
    size = 300
    most = min(size - 1, int(dtype.largest))
    least = max(-size, int(dtype.lowest))
    wanted = [0, 1, most, most - 1, least, least + 1 if least else 2, most // 2]
    at = batch.input(array(wanted, dtype))
    data = list(range(1000, 1000 + size))
    x = batch.input(array(data, DType.int32))
    taken = array([data[i] for i in wanted], DType.int32)
    batch.expect("gather", batch.b.op("gather", x, at, axis=0), taken)
    rows = batch.b.op("reshape", at, shape=(7, 1))
    batch.expect("gather_nd", batch.b.op("gather_nd", x, rows, batch_dims=0), taken)
    updates = batch.input(array(list(range(7)), DType.int32))
    put = list(data)
    for number, i in enumerate(wanted):
        put[i] = number
    batch.expect("scatter", batch.b.op("scatter", x, updates, at, axis=0), array(put, DType.int32))
    made = batch.b.op("scatter_nd", x, updates, rows)
    batch.expect("scatter_nd", made, array(put, DType.int32))
    for start, step in ((0, 1), (int(dtype.lowest), 1), (int(dtype.largest), -3)):
        if abs(start) >= 2**63:
            continue  # this is no dim
        attrs = {"start": Dim(start), "step": Dim(step), "size": Dim(9), "dtype": dtype}
        line = array([start + step * i for i in range(9)], dtype)
        batch.expect(
            f"range {start} {step}",
            batch.b.op("range", **attrs, device=at.tensor_type.device),
            line,
        )
    bounds = [batch.input(array(n, dtype)) for n in (int(dtype.lowest), 0, 3)]
    made = batch.b.op("range", *bounds, start=Dim(0), step=Dim(1), size=Dim(9), dtype=dtype,
                      device=at.tensor_type.device)  # fmt: skip
    line = array([int(dtype.lowest) + 3 * i for i in range(9)], dtype)
    batch.expect("range of tensors", made, line)
    return batch


def casts(source: DType) -> Batch:
    """Every cast from ``source``."""
    batch = Batch(f"casts_{source.name}")
    if source in FLOATS:
        numbers = exact.float_edges(source)
        data = exact.packed(numbers, source)
    elif source is DType.bool:
        numbers, data = [0, 1], np.array([False, True])
    else:
        numbers = edges(source)
        numbers += [
            n + k for n in numbers for k in (-3, 5) if source.lowest <= n + k <= source.largest
        ]
        for power in (11, 24, 25, 40, 53, 54, 62):  # halfway between two floats, and beside it
            for digits in (8, 11, 24, 53):
                middle = 2**power + 2 ** max(power - digits, 0)
                near = (middle - 1, middle, middle + 1, 3 * middle, -middle, -middle - 1)
                numbers += [n for n in near if source.lowest <= n <= source.largest]
        data = array(numbers, source)
    x, known = batch.input(data), batch.b.constant(data[:64])
    for target in (DType.bool, *INTEGERS, *FLOATS):
        if target is source:
            continue
        found = [exact.cast(n, source, target) for n in numbers]
        if target in FLOATS:
            wanted = exact.packed(found, target)
        else:
            wanted = np.array(found, target.ml_numpy)
        batch.expect(f"to {target.name}", batch.b.op("cast", x, dtype=target), wanted)
        made = batch.b.op("cast", known, dtype=target)
        batch.expect(f"folded to {target.name}", made, wanted[:64])
    return batch


def floats(dtype: DType) -> Batch:
    """Extremes, their places and orders of NaN, infinities, zeros of both signs and subnormals."""
    batch = Batch(f"floats_{dtype.name}")
    some = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 5e-324, 1e-45, 1e-40, 1e-7]
    line = np.array(some).astype(dtype.ml_numpy).astype(np.float64).tolist()
    rows = [list(row) for row in itertools.product(line, repeat=3)]
    flat = [number for row in rows for number in row]
    x, y = (batch.input(np.array(n).astype(dtype.ml_numpy)) for n in (rows, flat))
    for name, best in (("max", max), ("min", min)):
        at = np.array([[exact.first_of(row, best)] for row in rows])
        batch.expect(f"arg{name}", batch.b.op(f"arg{name}", x, axis=1), at)
        extreme = [[any(n != n for n in row), best(row)] for row in rows]
        wanted = np.array([[np.nan if bad else n] for bad, n in extreme]) + 0.0
        made = batch.b.op(
            "add", batch.b.op(f"reduce.{name}", x, axis=1), batch.b.scalar(0.0, dtype)
        )
        batch.expect(f"reduce.{name}", made, wanted.astype(dtype.ml_numpy))  # -0 and 0 are equal
    _, places = batch.b.all_of("top_k", x, k=2)
    batch.expect("top_k", places, np.array([exact.ranked(row, False)[:2] for row in rows]))
    for up in (True, False):
        made = batch.b.op("argsort", y, ascending=up)
        batch.expect(f"argsort {up}", made, np.array(exact.ranked(flat, up)))
    return batch


MAKERS: tuple[Callable[[DType], Batch], ...] = (elementwise, folds, orders, indices)
PROGRAMS = [
    *((maker, dtype) for maker in MAKERS for dtype in INTEGERS),
    *((floats, dtype) for dtype in FLOATS),
    *((casts, dtype) for dtype in (DType.bool, *INTEGERS, *FLOATS)),
]
NAMES = [f"{maker.__name__}-{dtype.name}" for maker, dtype in PROGRAMS]


@cache
def batch_of(number: int) -> Batch:
    """The program with this number."""
    maker, dtype = PROGRAMS[number]
    return maker(dtype)


@pytest.fixture(scope="module")
def warm() -> None:
    """Compile all kernels at once: in parallel, and several a compiler run."""
    with contextlib.suppress(ToolchainError):  # found again by the program's test
        compile_all(batch_of(number).function for number in range(len(PROGRAMS)))


def said(wrong: list[str]) -> str:
    return f"{len(wrong)} outputs are wrong:\n" + "\n".join(wrong)


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=NAMES)
def test_reference(number: int) -> None:
    """NumPy computes what Python's integers say."""
    batch = batch_of(number)
    with np.errstate(all="ignore"):
        wrong = batch.wrong(interpret(batch.function, batch.inputs))
    assert not wrong, said(wrong)


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=NAMES)
def test_compiled(number: int, warm: None) -> None:
    """The C that is compiled computes what Python's integers say."""
    batch = batch_of(number)
    wrong = batch.wrong(outputs_of(load(batch.function), batch.inputs))
    assert not wrong, said(wrong)


SAMPLED = [
    number
    for number, (maker, dtype) in enumerate(PROGRAMS)
    if maker in (folds, casts) and dtype in (DType.int8, DType.int64, DType.uint64, DType.float32)
]


@pytest.fixture(scope="module")
def gpu() -> Iterator[driver.Accelerator]:
    with driver.simulated():
        yield driver.Accelerator()


@pytest.mark.parametrize("number", SAMPLED, ids=[NAMES[n] for n in SAMPLED])
def test_on_the_simulator(number: int, gpu: driver.Accelerator) -> None:
    """The CUDA that is compiled computes what Python's integers say."""
    batch = batch_of(number)
    model = load_on(gpu, on_gpu(batch.function))
    wrong = batch.wrong(run_on(gpu, model, batch.inputs))
    assert not wrong, said(wrong)


NARROW = (DType.float16, DType.bfloat16, DType.float32)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_constants_are_rounded_once(dtype: DType) -> None:
    """Arrays and numbers that enter a graph, as casts do."""
    bits = [
        n for n in exact.float_edges(DType.float64) if np.isfinite(exact.float_of(n, DType.float64))
    ]
    data = exact.packed(bits, DType.float64)
    wanted = exact.packed([exact.cast(n, DType.float64, dtype) for n in bits], dtype)
    inside = np.isfinite(wanted.astype(np.float64))
    with Graph("g") as graph:
        ops.constant(data[inside], dtype, DeviceRef.CPU())
        one = ops.constant(np.ones(1), dtype, DeviceRef.CPU())
        for number in data:
            one * float(number)
    kept = [op.attrs["value"].array for op in graph.function.ops if op.name == "mo.constant"]
    np.testing.assert_array_equal(bits_of(kept[0]), bits_of(wanted[inside]))
    weak = np.array(kept[2:], dtype.ml_numpy).ravel()
    np.testing.assert_array_equal(bits_of(weak), bits_of(wanted))
