"""Kernels that keep rows in registers, in every shape, where rows fill it and where they do not."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.compiler.launches import FoldedRows, MappedRows
from maxlab.compiler.row_shapes import RowShape, shape_of, shapes_of
from maxlab.driver import CPU, Accelerator, Tensor, simulated
from maxlab.dtype import DType
from maxlab.engine.launching import device_launch
from maxlab.ir import Function
from maxlab.toolchain import kernels_dir
from maxlab.toolchain.nvlib import find_program
from tests.compiler.interpret import Builder, host, interpret
from tests.cuda.conftest import ON_A_GPU
from tests.cuda.nvcc import ARCHITECTURES, require_compiled
from tests.cuda.placing import compiled_on_gpu, load_on, on_gpu, run_on

Array = np.ndarray[Any, Any]
F32, BF16, F16 = DType.float32, DType.bfloat16, DType.float16
Size = int | str


def softmax(dtype: DType, rows: Size, width: Size) -> Function:
    """Two folds, and what is computed between them is kept."""
    b = Builder()
    return b.output(b.op("softmax", b.input(dtype, rows, width), axis=-1))


def layer_norm(dtype: DType, rows: Size, width: Size) -> Function:
    """Operands that all rows share."""
    b = Builder()
    x, scale, shift = (b.input(dtype, *s) for s in ((rows, width), (width,), (width,)))
    return b.output(b.op("layer_norm", x, scale, shift, epsilon=1e-5))


def sums(dtype: DType, rows: Size, width: Size) -> Function:
    """Results of one number a row."""
    b = Builder()
    x = b.input(dtype, rows, width)
    total = b.op("reduce.sum", b.op("mul", x, x), axis=-1)
    return b.output(b.op("sqrt", total), b.op("reduce.max", x, axis=-1))


def mapped(dtype: DType, rows: Size, width: Size) -> Function:
    """A map whose operands all rows share."""
    b = Builder()
    x, scale, shift = (b.input(dtype, *s) for s in ((rows, width), (width,), (width,)))
    return b.output(b.op("gelu", b.op("add", b.op("mul", x, scale), shift), approximate="none"))


MAKERS = {f.__name__: f for f in (softmax, layer_norm, sums)}


TOLERANCES = {F32: 2e-5, BF16: 2e-2, F16: 2e-3, DType.float64: 1e-12}


def near(what: str, got: list[Array], want: list[Array], dtype: DType) -> None:
    """Fails where a result is not what the reference gives, up to rounding."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape, what
        near, exact = g.astype(np.float64), w.astype(np.float64)
        limit = TOLERANCES[dtype]
        np.testing.assert_allclose(near, exact, limit, limit * abs(exact).max(), err_msg=what)


def arrays_of(function: Function, rows: int, width: int) -> list[Array]:
    """Operands of the sizes ``rows`` and ``width``."""
    rng, sizes = np.random.default_rng(width), {"rows": rows, "width": width}
    found = []
    for value in function.inputs:
        type: Any = value.type
        shape = [sizes.get(str(d), width) if isinstance(d, str) else int(d) for d in _dims(type)]
        found.append(rng.standard_normal(shape).astype(type.dtype.ml_numpy))
    return found


def _dims(type: Any) -> list[Any]:
    return [str(d) if not str(d).isdigit() else int(str(d)) for d in type.shape]


# ---------------------------------------------------------------- shapes
@pytest.mark.parametrize(("vector", "most"), [(4, 32), (8, 32), (4, 8), (1, 32), (2, 5), (8, 8)])
def test_a_shape_holds_what_it_was_made_for(vector: int, most: int) -> None:
    largest = max(shape.capacity for shape in shapes_of(vector, most))
    for width in range(vector, 1 << 15, 37 * vector):
        shape = shape_of(width, vector, most)
        if shape is None:
            assert width > largest // 2
            continue
        assert shape.holds(width)
        assert shape.capacity - width < shape.lanes * vector * 2  # about half is used at least
        assert shape.count * vector <= max(most, vector)
        assert shape.threads <= 1024
        assert shape.threads % 32 == 0
        assert shape.lanes.bit_count() == 1


def test_what_no_shape_holds() -> None:
    assert shape_of(0, 4, 32) is None
    assert shape_of(1 << 16, 4, 32) is None
    shape = RowShape(8, 32, 4, 4)
    assert [shape.holds(width) for width in (0, 4, 6, 128, 132)] == [
        False,
        True,
        False,
        True,
        False,
    ]


def test_one_shape_for_a_width_that_is_known(gpu: Accelerator) -> None:
    (step,) = compiled_on_gpu(softmax(F32, "rows", 96)).plan.steps
    assert step.gpu is not None
    assert isinstance(step.gpu.launch, FoldedRows)
    assert step.gpu.launch.shapes == (shape_of(96, 4, 32),)
    few = device_launch(step.gpu.launch, {"rows": 9}, gpu.context.properties)
    many = device_launch(step.gpu.launch, {"rows": 1 << 24}, gpu.context.properties)
    assert few.block[1] < many.block[1]  # few rows are shared by more processors
    assert many.grid[0] * many.block[1] == 1 << 24


# ---------------------------------------------------------------- results
@pytest.mark.parametrize("rows", [1, 37])
@pytest.mark.parametrize("dtype", [F32, BF16, F16, DType.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", MAKERS)
def test_every_shape(name: str, dtype: DType, rows: int, gpu: Accelerator) -> None:
    """Rows that fill a shape, and the shortest that are too long for the one before it."""
    function = MAKERS[name](dtype, "rows", "width")
    model = load_on(gpu, on_gpu(function))
    step = model.plan.steps[0]
    assert step.gpu is not None
    formula = step.gpu.launch
    assert isinstance(formula, FoldedRows)
    for number, shape in enumerate(formula.shapes):
        single = shape.vector == 1 and formula.shapes[0].vector > 1
        widths = (shape.least + shape.vector, shape.capacity - single)  # odd: no vectors
        for width in widths if rows == 1 or shape.capacity < 2000 else widths[:1]:
            sizes = {"rows": rows, "width": width}
            launch = device_launch(formula, sizes, gpu.context.properties)
            if width % 2 or not single:
                assert launch.variant == number, (shape, width)
            arrays = arrays_of(function, rows, width)
            got, want = run_on(gpu, model, arrays), interpret(function, arrays)
            near(f"{shape} {width}", got, want, dtype)


@pytest.mark.skipif(ON_A_GPU, reason="compute-sanitizer does this on a GPU")
@pytest.mark.parametrize("width", [1, 3, 4, 5, 32, 33, 36, 128, 132, 1000, 1028, 2050])
@pytest.mark.parametrize("make", [*MAKERS.values(), mapped], ids=lambda f: f.__name__)
def test_no_races_and_no_strays(make: Callable[..., Function], width: int) -> None:
    for size in ("width", width):
        function = make(F32, "rows", size)
        arrays = arrays_of(function, 5, width)
        with simulated(check=True):
            checked = Accelerator()
            model = load_on(checked, on_gpu(function))
            got = run_on(checked, model, arrays)
        near(str(size), got, interpret(function, arrays), F32)


@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda d: d.name)
@pytest.mark.parametrize("make", [softmax, layer_norm, mapped], ids=lambda f: f.__name__)
def test_memory_that_is_not_aligned(
    make: Callable[..., Function], dtype: DType, gpu: Accelerator
) -> None:
    """Vectors begin where the device cannot take them at once: elements are taken one by one."""
    function = make(dtype, 5, 64)
    model = load_on(gpu, on_gpu(function))
    arrays = arrays_of(function, 5, 64)
    given = []
    for array in arrays:
        flat = np.concatenate([np.zeros(1, array.dtype), array.reshape(-1)])
        part = Tensor.from_numpy(flat).to(gpu)[1:]
        given.append(part.view(dtype, list(array.shape)))
    got = [host(t.to(CPU())) for t in model.execute(*given)]
    near(make.__name__, got, interpret(function, arrays), dtype)


def test_nan_and_infinities_of_a_row(gpu: Accelerator) -> None:
    function = sums(F32, "rows", 64)
    model = load_on(gpu, on_gpu(function))
    x = np.random.default_rng(3).standard_normal((6, 64)).astype(np.float32)
    x[0, 63], x[1, 0], x[2], x[3, 5], x[4, 9] = np.nan, np.nan, -np.inf, np.inf, -np.inf
    _, most = run_on(gpu, model, [x])
    np.testing.assert_array_equal(most.reshape(-1), x.max(-1))


# ---------------------------------------------------------------- texts
@pytest.mark.skipif(find_program("nvcc") is None, reason="nvcc was not found")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_shape_spills(architecture: str, tmp_path: Path) -> None:
    texts: dict[str, None] = {}
    for make in (softmax, layer_norm):
        for dtype in (F32, BF16):
            for width in (128, 1024, 4096, 15_000, 16_384, "width"):
                (step,) = compiled_on_gpu(make(dtype, "rows", width)).plan.steps
                assert step.gpu is not None
                assert isinstance(step.gpu.launch, FoldedRows)
                numbers = range(len(step.gpu.launch.shapes))
                texts.update((step.gpu.printed(number).text, None) for number in numbers)
    require_compiled(texts, ["mx_device.cuh", "prelude.cuh"], architecture, tmp_path)


@pytest.mark.skipif(find_program("nvcc") is None, reason="nvcc was not found")
@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda d: d.name)
@pytest.mark.parametrize("make", [softmax, mapped], ids=lambda f: f.__name__)
def test_sixteen_bytes_are_read_and_written_at_once(
    make: Callable[..., Function], dtype: DType, tmp_path: Path
) -> None:
    (step,) = compiled_on_gpu(make(dtype, "rows", 1024)).plan.steps
    assert step.gpu is not None
    file, made = tmp_path / "rows.cu", tmp_path / "rows.ptx"
    lines = [f'#include "{name}"' for name in ("mx_device.cuh", "prelude.cuh")]
    file.write_text("\n".join([*lines, step.gpu.printed().text]))
    command = [str(find_program("nvcc")), "-std=c++17", "-ptx", "-arch=compute_90"]
    command += [f"-I{kernels_dir() / 'cuda'}", "-o", str(made), str(file)]
    subprocess.run(command, check=True, capture_output=True)
    text = made.read_text()
    vectors = 4 if make is softmax else 1
    assert len(re.findall(r"ld\.global\.nc\.v4\.\w32", text)) >= vectors
    assert len(re.findall(r"st\.global\.v4\.\w32", text)) >= vectors


def test_maps_that_take_vectors() -> None:
    widths = {}
    for width in ("width", 4096, 4100, 4098, 4097):
        (step,) = compiled_on_gpu(mapped(BF16, "rows", width)).plan.steps
        assert step.gpu is not None
        assert isinstance(step.gpu.launch, MappedRows)
        widths[width] = step.gpu.launch.vector
    assert widths == {"width": 8, 4096: 8, 4100: 4, 4098: 2, 4097: 1}


# ---------------------------------------------------------------- halves
def sigmoid(x: Array) -> Array:
    """In float64."""
    return np.asarray(1 / (1 + np.exp(-x)))


FUNCTIONS: dict[str, tuple[Callable[[Builder, Any], Any], Callable[[Array], Array]]] = {
    "gelu": (
        lambda b, x: b.op("gelu", x, approximate="none"),
        lambda x: np.array([0.5 * v * math.erfc(-v * math.sqrt(0.5)) for v in x]),
    ),
    "gelu_tanh": (
        lambda b, x: b.op("gelu", x, approximate="tanh"),
        lambda x: x * sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)),
    ),
    "gelu_quick": (
        lambda b, x: b.op("gelu", x, approximate="quick"),
        lambda x: x * sigmoid(1.702 * x),
    ),
    "silu": (lambda b, x: b.op("silu", x), lambda x: x * sigmoid(x)),
    "sigmoid": (lambda b, x: b.op("sigmoid", x), sigmoid),
}


@pytest.mark.parametrize(("dtype", "digits"), [(BF16, 8), (F16, 11)], ids=["bf16", "f16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_every_half(name: str, dtype: DType, digits: int, gpu: Accelerator) -> None:
    """Each is rounded once, from something near."""
    make, reference = FUNCTIONS[name]
    b = Builder()
    function = b.output(make(b, b.input(dtype, "n")))
    model = load_on(gpu, on_gpu(function))
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype.ml_numpy)
    (got,) = run_on(gpu, model, [x])
    with np.errstate(all="ignore"):
        wide, made = x.astype(np.float64), got.astype(np.float64)
        want = reference(wide)
        rounded = want.astype(dtype.ml_numpy).astype(np.float64)
    found = np.isfinite(rounded)
    least = -133 if dtype is BF16 else -24
    digit = np.floor(np.log2(np.maximum(abs(want[found]), 1e-300))) + 1 - digits
    off = abs(made[found] - want[found]) / np.exp2(np.maximum(digit, least))
    assert off.max() <= 0.54, (off.max(), wide[found][off.argmax()])
    np.testing.assert_array_equal(np.signbit(made[found]), np.signbit(want[found]))
    np.testing.assert_array_equal(made[~found], rounded[~found])
