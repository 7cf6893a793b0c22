"""Every op of the table, compiled and run on each of its samples, against its NumPy reference."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from maxlab import opset
from maxlab.compiler.passes import PIPELINE
from maxlab.compiler.passes import run as run_passes
from maxlab.compiler.planner import Planner
from maxlab.compiler.schedule import Schedule
from maxlab.dtype import DType
from maxlab.errors import ToolchainError
from maxlab.ir import DeviceRef, Dim, Function, Shape
from maxlab.opset import OPSET, Sample
from maxlab.toolchain import KernelSource, compile_units
from tests.compiler.interpret import Array, Builder, interpret, load, outputs_of, same
from tests.sampling import chosen

HALF_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
SUMS = (
    "reduce.sum", "mean", "matmul", "softmax", "logsoftmax", "layer_norm", "irfft", "irfft.rows",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One sample of one op, with static or symbolic sizes."""

    name: str
    number: int
    sample: Sample
    symbolic: bool

    @property
    def id(self) -> str:
        """What pytest calls it."""
        word = self.sample.label.replace(" ", "-") or str(self.number)
        return f"{self.name.removeprefix('mo.')}-{word}" + ("-symbolic" if self.symbolic else "")


def cases() -> Iterator[Case]:
    """All of them."""
    for name, row in OPSET.items():
        if row.samples is None:
            continue
        for number, sample in enumerate(row.samples()):
            yield Case(name, number, sample, False)
            if sample.shapes is not None:
                yield Case(name, number, sample, True)


CASES = list(cases())


def build(case: Case) -> tuple[Function, list[Array]]:
    """The op alone in a function, and its inputs."""
    b = Builder(case.id)
    arrays = [np.asarray(x) for x in case.sample.arrays]
    named = case.sample.shapes is not None
    env: dict[str, int] = {}
    if case.sample.shapes is not None:
        for array, dims in zip(arrays, case.sample.shapes, strict=True):
            env.update({d: n for d, n in zip(dims, array.shape, strict=True) if isinstance(d, str)})
    values = []
    for number, array in enumerate(arrays):
        shape = case.sample.shapes[number] if case.symbolic and case.sample.shapes else array.shape
        values.append(b.input(DType.from_numpy(array.dtype), *shape))
    attrs = dict(case.sample.attrs)
    if "shape" in attrs and named:
        # a dim that only the result has gets its size from an input of its own
        for dim in Shape(attrs["shape"]).parameters:
            if dim.name not in env:
                env[dim.name] = 5 if case.name != "mo.rebind" else env["n"]
                if case.name != "mo.rebind":
                    b.input(DType.uint8, dim.name if case.symbolic else 5)
                    arrays.append(np.zeros(5, np.uint8))
        if not case.symbolic:
            attrs["shape"] = tuple(d.evaluate(env) for d in Shape(attrs["shape"]))
    results = b.all_of(case.name.removeprefix("mo."), *values, **attrs)
    return b.output(*results), arrays


@pytest.fixture(scope="module", autouse=True)
def warm(request: pytest.FixtureRequest) -> None:
    """Compile the kernels of all cases that run at once: in parallel, several a compiler run."""
    units: dict[KernelSource, None] = {}
    for params in chosen(request, test_op):
        case = params["case"]
        assert isinstance(case, Case)
        try:
            function, _ = build(case)
            work = function.clone()
            run_passes(work, PIPELINE)
            plan = Planner(Schedule(work)).build()
        except Exception:  # the case's own test says what is wrong
            continue
        for step in plan.steps:
            if step.printed:
                units[KernelSource(step.printed.symbol, step.printed.text)] = None
    with contextlib.suppress(ToolchainError):  # found again by the test of the case
        compile_units(list(units))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_op(case: Case) -> None:
    function, arrays = build(case)
    compare_all(case, outputs_of(load(function), arrays), interpret(function, arrays), arrays)


def compare_all(
    case: Case, got: Sequence[Array], want: Sequence[Array], arrays: list[Array]
) -> None:
    """Assert that all results of the op of ``case`` are as close as it promises."""
    terms = OPSET[case.name].terms
    if terms is None:
        for mine, right in zip(got, want, strict=True):
            compare(case.name.removeprefix("mo."), mine, right, arrays)
        return
    (mine,), (right,) = got, want
    if right.dtype.kind in "biu":
        same(mine, right)
        return
    # A sum of products may be off by the rounding of each of its terms, however small it is itself.
    magnitude = OPSET[case.name].magnitude
    if magnitude is not None:
        scale = magnitude(arrays, case.sample.attrs)
    else:
        sizes = [x if x.dtype.kind in "biu" else np.abs(x) for x in arrays]
        (scale,) = interpret(build(case)[0], sizes)
    wide = np.result_type(right.dtype, np.float32) if right.dtype.itemsize > 2 else np.float32
    eps = float(np.finfo(wide).eps)
    allowed = 4 * eps * (1 + terms(arrays, case.sample.attrs) ** 0.5) * np.abs(scale.astype(float))
    if right.dtype.itemsize == 2:
        allowed += HALF_EPS[right.dtype.name] * np.abs(right.astype(float))
    off = np.abs(mine.astype(float) - right.astype(float))
    wrong = ~((off <= allowed) | (mine == right) | (np.isnan(mine) & np.isnan(right)))
    assert not wrong.any(), f"{int(wrong.sum())} of {wrong.size} differ, by up to {off.max()}"


def compare(name: str, got: Array, want: Array, arrays: list[Array]) -> None:
    """Assert that ``got`` is as close to ``want`` as ``name`` promises."""
    if want.dtype.kind in "biu":
        same(got, want)
    elif want.dtype.itemsize == 2:
        same(got, want, ulps=1, atol=1e-7)
    elif name in SUMS:
        eps = float(np.finfo(want.dtype).eps)
        count = max(arrays[0].shape, default=1)
        scale = float(np.nanmax(np.abs(arrays[0]), initial=1.0)) ** 2
        same(got, want, rtol=16 * eps, atol=8 * eps * scale * max(count, 1) ** 0.5)
    elif name == "gelu":
        size = np.where(np.isfinite(arrays[0]), np.abs(arrays[0]), 0).astype(np.float64)
        with np.errstate(invalid="ignore"):
            close = np.abs(got.astype(np.float64) - want) <= np.finfo(want.dtype).eps * np.maximum(
                size, 1e-30
            )
        same(np.where(close, want, got), want, ulps=OPSET["mo.gelu"].ulps)
    else:
        same(got, want, ulps=OPSET[f"mo.{name}"].ulps)


# ---------------------------------------------------------------- operands that are data
@pytest.mark.parametrize("kind", ["weight", "constant"])
@pytest.mark.parametrize("number", range(len(opset.lookup("mo.matmul").samples())))  # type: ignore[misc]
def test_matmul_with_data_on_the_right(kind: str, number: int) -> None:
    samples = opset.lookup("mo.matmul").samples
    assert samples is not None
    x, w = samples()[number].arrays
    b = Builder()
    left = b.input(DType.from_numpy(x.dtype), *x.shape)
    right = b.weight("w", w) if kind == "weight" else b.constant(w)
    function = b.output(b.op("matmul", left, right))
    (got,) = outputs_of(load(function, {"w": w}), [x])
    (want,) = interpret(function, [x], {"w": w})
    compare("matmul", got, want, [x])


@pytest.mark.parametrize("kind", ["weight", "constant"])
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul_with_data_on_the_left(kind: str, transposed: bool) -> None:
    rng = np.random.default_rng(2)
    w = rng.standard_normal((9, 6)).astype(np.float32)
    x = rng.standard_normal((9, 33) if transposed else (6, 33)).astype(np.float32)
    b = Builder()
    left = b.weight("w", w) if kind == "weight" else b.constant(w)
    if transposed:
        left = b.op("transpose", left, axis_1=0, axis_2=1)
    function = b.output(b.op("matmul", left, b.input(DType.float32, *x.shape)))
    (got,) = outputs_of(load(function, {"w": w}), [x])
    (want,) = interpret(function, [x], {"w": w})
    compare("matmul", got, want, [x])


@pytest.mark.parametrize("kind", ["weight", "constant"])
@pytest.mark.parametrize("number", range(len(opset.lookup("mo.gather").samples())))  # type: ignore[misc]
def test_gather_from_data(kind: str, number: int) -> None:
    samples = opset.lookup("mo.gather").samples
    assert samples is not None
    sample = samples()[number]
    table, indices = sample.arrays
    b = Builder()
    source = b.weight("w", table) if kind == "weight" else b.constant(table)
    at = b.input(DType.from_numpy(indices.dtype), *indices.shape)
    function = b.output(b.op("gather", source, at, **sample.attrs))
    (got,) = outputs_of(load(function, {"w": table}), [indices])
    (want,) = interpret(function, [indices], {"w": table})
    same(got, want)


@pytest.mark.parametrize(
    "dtype", [DType.bool, DType.int64, DType.float16, DType.bfloat16, DType.float64]
)
def test_views_and_copies_of_every_width(dtype: DType) -> None:
    x = np.arange(24).reshape(4, 6).astype(dtype.ml_numpy)
    b = Builder()
    v = b.input(dtype, 4, 6)
    function = b.output(
        b.op("transpose", v, axis_1=0, axis_2=1),
        b.op("concat", v, v, axis=1),
        b.op("pad", v, paddings=(1, 0, 0, 2), value=1),
    )
    for got, want in zip(outputs_of(load(function), [x]), interpret(function, [x]), strict=True):
        same(got, want)


def test_iota_and_transfer() -> None:
    b = Builder()
    x = b.input(DType.float32, "n")
    cpu = DeviceRef.CPU()
    function = b.output(
        b.op("iota", shape=Shape(["n", 3]), axis=0, dtype=DType.int64, device=cpu),
        b.op("iota", shape=Shape([2, 3]), axis=1, dtype=DType.float32, device=cpu),
        b.op("transfer", x, device=cpu),
        b.op("recip", x),
        b.op("dim", dim=Dim("n") * 2),
    )
    x0 = np.array([1.0, 2.0, 4.0], np.float32)
    for got, want in zip(outputs_of(load(function), [x0]), interpret(function, [x0]), strict=True):
        same(got, want)
