"""Every op of the table on a GPU, simulated or real, against its NumPy reference and the CPU."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.compiler.launches import FoldedRows
from maxlab.compiler.plan import GpuLaunch
from maxlab.driver import CPU, Accelerator, Tensor, simulated
from maxlab.driver.backend import DeviceSource
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.engine.launching import device_launch
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.toolchain import kernels_dir
from maxlab.toolchain.cuda_usage import parse_usage
from maxlab.toolchain.nvlib import find_program
from tests.compiler.interpret import Builder, interpret, load, outputs_of
from tests.compiler.test_matrix import CASES, Case, build, compare, compare_all
from tests.cuda.conftest import ON_A_GPU
from tests.cuda.device_text import compile_by_nvrtc
from tests.cuda.launched import launch_as
from tests.cuda.placing import compiled_on_gpu, load_on, on_gpu, run_on, sources_of
from tests.sampling import chosen

HOST = DeviceRef.CPU()
MAIN = ("add", "mul", "gelu", "exp", "softmax", "layer_norm", "reduce.sum", "reduce.max", "matmul")
"""Ops whose kernels of floats may not spill a register."""


@pytest.fixture(scope="module")
def sources() -> dict[DeviceSource, str]:
    """Every kernel of every case, and the first case that has it."""
    found: dict[DeviceSource, str] = {}
    for case in CASES:
        compiled = compiled_on_gpu(build(case)[0])
        usual = next(iter(sources_of(compiled)), None)
        for source in sources_of(compiled):
            # Templates are tested by themselves; here it is what is printed around them.
            if len(source.headers) == 1 or source is usual:
                found.setdefault(source, case.id)
    return found


@pytest.fixture(scope="module")
def warm(request: pytest.FixtureRequest, gpu: Accelerator) -> None:
    """The kernels of all cases that run compiled at once: several a compiler run, in parallel."""
    cases = [params["case"] for params in chosen(request, test_op)]
    functions = [build(case)[0] for case in cases if isinstance(case, Case)]
    sources = dict.fromkeys(s for f in functions for s in sources_of(compiled_on_gpu(f)))
    gpu.context.call(lambda: gpu.context.load(list(sources)))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_op(case: Case, gpu: Accelerator, warm: None) -> None:
    function, arrays = build(case)
    model = load_on(gpu, on_gpu(function))
    got = run_on(gpu, model, arrays)
    compare_all(case, got, interpret(function, arrays), arrays)
    compare_all(case, got, outputs_of(load(function), arrays), arrays)


@pytest.mark.parametrize("dtype", [DType.float32, DType.float64])
def test_normals_of_a_size_that_a_call_tells(dtype: DType, gpu: Accelerator) -> None:
    """A number of the kernel once had the name of the size, so most elements were left out. Each
    call here makes other elements than the one before: what is left of that is not mistaken."""
    with Graph("normals", input_types=[TensorType(DType.uint8, ["n", 0], HOST)]) as graph:
        ops.random.set_seed(5)
        shape: list[Any] = [graph.inputs[0].tensor.shape[0], 130]
        graph.output(ops.random.gaussian(TensorType(dtype, shape, HOST)))
    function = graph.function
    model = load_on(gpu, on_gpu(function))
    for n in (7, 5):
        given = [np.zeros((n, 0), np.uint8)]
        (got,) = run_on(gpu, model, given)
        np.testing.assert_array_equal(got[::-1], interpret(function, given)[0][::-1])


@pytest.mark.skipif(find_program("nvcc") is None, reason="nvcc was not found")
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
def test_all_kernels_compile_for_a_device(
    arch: str, part: int, sources: dict[DeviceSource, str], tmp_path: Path
) -> None:
    """A text with a quarter of the generated kernels: no error, no warning, no spill where it
    matters."""
    folder = kernels_dir() / "cuda"
    headers = dict.fromkeys(h for s in sources for h in s.headers)
    lines = [f'#include "{name}"' for name in ("mx_device.cuh", *headers)]
    file = tmp_path / "kernels.cu"
    whole = list(dict.fromkeys(s.text for s in sources))
    assert len(whole) > 500
    texts = whole[part::4]
    file.write_text("\n".join([*lines, *texts]))
    nvcc = str(find_program("nvcc"))
    command = [nvcc, "-std=c++17", "-cubin", f"-arch={arch}", "-Xptxas", "-v", f"-I{folder}"]
    done = subprocess.run(
        [*command, "-o", tmp_path / "kernels.cubin", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr[:2000]
    usage = parse_usage(done.stderr)
    assert len(usage) == len(texts)
    main = {s.name: case for s, case in sources.items() if case.split("-")[0] in MAIN}
    assert len(main) > 40
    for name, case in main.items():
        if name not in usage or re.search(r"-([iu]\d+|f64)", case):
            continue  # divisions and functions of 64 bits are calls, which save registers
        assert usage[name].spill_store_bytes == 0, f"{case}: {usage[name]}"


def test_nvrtc_takes_a_kernel_of_every_op(sources: dict[DeviceSource, str]) -> None:
    """NVRTC has neither the C library's header nor gcc's builtins, on which nvcc gets by."""
    first: dict[str, DeviceSource] = {}
    for source, case in sources.items():
        if source.headers == ("prelude.cuh",):
            first.setdefault(case.split("-")[0], source)
    assert {"sample.scores", "ragged.attention"} <= first.keys()
    texts = dict.fromkeys(source.text for source in first.values())
    compile_by_nvrtc("\n".join(texts), ["prelude.cuh"])


CHECKED = (
    "reduce.max-nan", "softmax-last", "layer_norm-f32", "gather-rows", "pad-0", "concat-0",
    "irfft-n-48", "irfft-long", "cumsum-pieces", "random-gaussian-float32",
    "nonzero.count-f32", "nonzero-f32", "masked_scatter-f32", "sample.token-narrow-mask",
    "sample.scores-ties-beyond", "sample.uniform-several", "matmul_int8-floats",
)  # fmt: skip


@pytest.mark.skipif(ON_A_GPU, reason="compute-sanitizer does this on a GPU")
@pytest.mark.parametrize("name", CHECKED)
def test_no_races_and_no_strays(name: str) -> None:
    """The checking simulator sees every access of fused row kernels, folds and copies."""
    (case,) = [case for case in CASES if case.id == name]
    with simulated(check=True):
        checked = Accelerator()
        function, arrays = build(case)
        for variant in (None, 0, 1, 2):
            model = load_on(checked, on_gpu(function))
            if variant is not None:
                force(model, variant)
            got = run_on(checked, model, arrays)
            compare_all(case, got, interpret(function, arrays), arrays)


def force(model: Model, variant: int) -> None:
    """Let steps that choose among kernels of rows take this one of those that loop."""
    for step in model.compiled.plan.steps:
        if step.gpu is not None and isinstance(step.gpu.launch, FoldedRows):
            before = len(step.gpu.launch.shapes)
            step.gpu.launch = replace(step.gpu.launch, shapes=())
            launch_as(step, partial(_only, variant=variant, before=before))


def _only(found: GpuLaunch, variant: int, before: int) -> GpuLaunch:
    if found.variant == variant:
        return replace(found, variant=before + variant)
    shared = found.shared // found.block[1]  # of one row
    if variant == 1:
        return GpuLaunch(before + 1, (1, 1, 1), (32, 8, 1), shared * 8, 0, found.items)
    return GpuLaunch(before + variant, (found.items, 1, 1), (64, 1, 1), shared, 0, found.items)


WIDTHS = (1, 31, 32, 33, 255, 1024, 1025, 30_000)


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_of_every_width(width: int, gpu: Accelerator) -> None:
    """Warps, blocks, and rows that do not fit into shared memory."""
    rng = np.random.default_rng(width)
    x = rng.standard_normal((5, width)).astype(np.float32)
    b = Builder()
    v = b.input(DType.float32, "rows", "width")
    function = b.output(b.op("softmax", b.op("exp", b.op("tanh", v)), axis=-1))
    model = load_on(gpu, on_gpu(function))
    (got,) = run_on(gpu, model, [x])
    (want,) = interpret(function, [x])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-9)
    sizes, properties = {"rows": 5, "width": width}, gpu.context.properties
    kernels = [step.gpu for step in model.plan.steps if step.gpu is not None]
    launches = [device_launch(kernel.launch, sizes, properties) for kernel in kernels]
    assert any(launch.spill for launch in launches) == (width == 30_000)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 1023, 4096, 100_001])
@pytest.mark.parametrize("offset", [0, 1])
def test_vectors_and_what_is_left_of_them(count: int, offset: int, gpu: Accelerator) -> None:
    """Flat kernels take four elements at a time only where the memory is aligned."""
    b = Builder()
    x = b.input(DType.float32, "n")
    function = b.output(b.op("add", b.op("mul", x, x), x))
    model = load_on(gpu, on_gpu(function))
    data = np.arange(count + 1, dtype=np.float32)
    part = Tensor.from_numpy(data).to(gpu)[offset : count + offset]
    (got,) = model(part)
    given = data[offset : count + offset]
    # A device adds without rounding the product first. Double precision holds both exactly.
    once = (given.astype(np.float64) ** 2 + given).astype(np.float32)
    np.testing.assert_array_equal(
        got.to(CPU()).to_numpy(), once if ON_A_GPU else given * given + given
    )


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("width", [32_768, 50_001])
def test_few_long_rows_are_shared_by_blocks(rows: int, width: int, gpu: Accelerator) -> None:
    """A sum, a maximum with a NaN, and what follows them, several times with the same memory."""
    rng = np.random.default_rng(width)
    x = rng.standard_normal((rows, width)).astype(np.float32)
    b = Builder()
    v = b.input(DType.float32, "rows", "width")
    total = b.op("reduce.sum", b.op("mul", v, v), axis=-1)
    function = b.output(b.op("sqrt", total), b.op("reduce.max", v, axis=-1))
    model = load_on(gpu, on_gpu(function))
    (step,) = model.plan.steps
    assert step.gpu is not None
    launch_as(step, seen=lambda properties: replace(properties, multiprocessors=4))
    sizes = {"rows": rows, "width": width}
    found = device_launch(step.gpu.launch, sizes, gpu.context.properties)
    assert found.variant == len(step.gpu) - 1
    assert found.grid[0] > 1
    for _ in range(3):
        for got, want in zip(run_on(gpu, model, [x]), interpret(function, [x]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
        x[0, 7] = np.nan if np.isfinite(x[0, 7]) else 2.0


def test_weights_in_halves_are_cast_where_they_are_read(gpu: Accelerator) -> None:
    b = Builder()
    x, scale, shift = (b.input(DType.bfloat16, *s) for s in (("n", 96), (96,), (96,)))
    function = b.output(b.op("layer_norm", x, scale, shift, epsilon=1e-5))
    model = load_on(gpu, on_gpu(function))
    assert [s.kind for s in model.plan.steps] == ["row"]
    rng = np.random.default_rng(0)
    dtype = DType.bfloat16.ml_numpy
    arrays = [rng.standard_normal(s).astype(dtype) for s in ((7, 96), (96,), (96,))]
    (got,) = run_on(gpu, model, arrays)
    (want,) = interpret(function, arrays)
    compare("layer_norm", got, want, arrays)
