"""Products and attention as graphs on a GPU: every template, fused epilogues, strides and masks."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab.compiler import gpu_templates
from maxlab.compiler.gpu_templates import ATTENTION, choose_attention, choose_product
from maxlab.compiler.options import Options
from maxlab.compiler.plan import GpuLaunch, Step
from maxlab.driver import CPU, Accelerator, Tensor
from maxlab.driver.backend import Properties
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.toolchain.flags import Accuracy
from tests.compiler.interpret import Array, Builder, host, interpret, same
from tests.cuda.launched import launch_as
from tests.cuda.placing import GPU, load_on, on_gpu, run_on

H200 = Properties("test", "sm_90", 132, 227 << 10, False)
RTX = Properties("test", "sm_89", 128, 99 << 10, False)


def _take(
    step: Step, variant: int, threads: int, shared: int, parts: int = 1, own: int = 0
) -> None:
    """Let a step use one of its templates, with a grid smaller than the work."""
    grid, block = (3, parts, 1), (threads, 1, 1)
    launch_as(
        step,
        lambda usual: GpuLaunch(variant, grid, block, shared, 0, usual.items, own, meets=own > 0),
    )


TEMPLATES = [
    (dtype, dot, number, parts)
    for dtype in (DType.float32, DType.bfloat16, DType.float16)
    for dot in (False, True)
    for number, template in enumerate(gpu_templates.product_templates(dtype, dot))
    for parts in ((1, 3) if template.depth else (1,))
    if dtype is not DType.float16 or number < 2
]


@pytest.mark.parametrize(("dtype", "dot", "variant", "parts"), TEMPLATES, ids=str)
def test_every_template_with_an_epilogue(
    dtype: DType, dot: bool, variant: int, parts: int, gpu: Accelerator
) -> None:
    """relu(x @ w + bias) and the product itself, which something else reads too."""
    template = gpu_templates.product_templates(dtype, dot)[variant]
    rng = np.random.default_rng(variant)
    x, w = (rng.standard_normal(s).astype(dtype.ml_numpy) for s in ((37, 150), (150, 71)))
    bias = rng.standard_normal(71).astype(dtype.ml_numpy)
    b = Builder()
    given = [x, w.T.copy() if dot else w, bias]
    values = [b.input(dtype, "m", 150), b.input(dtype, *given[1].shape), b.input(dtype, 71)]
    right = b.op("transpose", values[1], axis_1=0, axis_2=1) if dot else values[1]
    product = b.op("matmul", values[0], right)
    function = b.output(b.op("relu", b.op("add", product, values[2])), product)
    model = load_on(gpu, on_gpu(function))
    (kernel,) = [s for s in model.plan.steps if s.kind == "contract"]
    own = template.own_bytes(template.blocks(1, 37, 71), parts)
    _take(kernel, variant, template.threads, template.shared, parts, own)
    for got, want in zip(run_on(gpu, model, given), interpret(function, given), strict=True):
        if dtype is DType.float32:
            same(got, want, rtol=2e-6, atol=2e-5)
        else:
            wide = np.abs(got.astype(np.float64) - want.astype(np.float64))
            assert wide.max() <= 2.0 ** (-6 if dtype is DType.bfloat16 else -9) * 32
    assert len(model.plan.steps) == 1, [s.name for s in model.plan.steps]
    assert kernel.gpu is not None
    assert (kernel.number, variant) in model.gpu_kernels


def test_products_of_one_model_meet_in_the_same_memory(gpu: Accelerator) -> None:
    """One after the other, with different numbers of tiles, and again in the next run."""
    rng = np.random.default_rng(3)
    x, v, w = (rng.standard_normal(s).astype("f4") for s in ((37, 150), (150, 200), (200, 30)))
    b = Builder()
    values = [b.input(DType.float32, *array.shape) for array in (x, v, w)]
    function = b.output(b.op("matmul", b.op("matmul", values[0], values[1]), values[2]))
    model = load_on(gpu, on_gpu(function))
    steps = [s for s in model.plan.steps if s.kind == "contract"]
    assert len(steps) == 2
    for step, n, parts in zip(steps, (200, 30), (2, 3), strict=True):
        template = gpu_templates.TILES[0]
        own = template.own_bytes(template.blocks(1, 37, n), parts)
        _take(step, 0, template.threads, template.shared, parts, own)
    (want,) = interpret(function, [x, v, w])
    for _ in range(2):
        same(run_on(gpu, model, [x, v, w])[0], want, rtol=1e-5, atol=1e-4)
    program = model.bind(tuple(array.shape for array in (x, v, w)))
    (frame,) = program.free
    assert len({frame.own[step.number] for step in steps}) == 1


SHAPES = [
    ((4, 3, 5, 8), (4, 3, 8, 6)),
    ((4, 1, 5, 8), (1, 3, 8, 6)),
    ((2, 5, 8), (8, 6)),
    ((5, 8), (2, 8, 6)),
    ((1, 0), (0, 4)),
    ((0, 7), (7, 4)),
    ((1, 300), (300, 1)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_shapes_and_strides(
    left: tuple[int, ...], right: tuple[int, ...], transposed: bool, gpu: Accelerator
) -> None:
    rng = np.random.default_rng(1)
    stored = (*right[:-2], right[-1], right[-2]) if transposed else right
    x, w = rng.standard_normal(left).astype("f4"), rng.standard_normal(stored).astype("f4")
    b = Builder()
    values = [b.input(DType.float32, *x.shape), b.input(DType.float32, *w.shape)]
    second = values[1]
    if transposed:
        second = b.op("transpose", second, axis_1=-1, axis_2=-2)
    function = b.output(b.op("tanh", b.op("matmul", values[0], second)))
    model = load_on(gpu, on_gpu(function))
    (got,) = run_on(gpu, model, [x, w])
    (want,) = interpret(function, [x, w])
    same(got, want, rtol=1e-5, atol=2e-6)


def test_integers_are_multiplied_too(gpu: Accelerator) -> None:
    x = np.arange(12, dtype=np.int64).reshape(3, 4) * 2**40
    b = Builder()
    v = b.input(DType.int64, 3, 4)
    function = b.output(b.op("matmul", v, b.op("transpose", v, axis_1=0, axis_2=1)))
    (got,) = run_on(gpu, load_on(gpu, on_gpu(function)), [x])
    (want,) = interpret(function, [x])
    same(got, want)


def chosen(
    dtype: DType, sizes: tuple[int, int, int, int], on: Properties = H200, dot: bool = False
) -> tuple[gpu_templates.ProductTemplate, int]:
    """The template for items, m, n and k, and how many blocks share a tile."""
    templates = gpu_templates.product_templates(dtype, dot)
    number, parts = choose_product(templates, sizes, on)
    return templates[number], parts


def test_few_rows_have_kernels_of_their_own() -> None:
    for (dtype, dot), most in gpu_templates.FEW_ROWS.items():
        for m in range(1, most + 1):
            template, parts = chosen(dtype, (1, m, 4096, 4096), dot=dot)
            assert (template.function, parts) == ("mx_gemv_dot" if dot else "mx_gemv_axpy", 1)
            assert m <= template.rows < 2 * m
        assert chosen(dtype, (1, most + 1, 4096, 4096), dot=dot)[0].depth


def test_every_multiprocessor_has_something_to_do() -> None:
    for dtype in (DType.float32, DType.bfloat16):
        for m, n, k in ((1, 4096, 4096), (16, 4096, 4096), (128, 4096, 4096), (1024, 1024, 1024)):
            for dot in (False, True):
                template, parts = chosen(dtype, (1, m, n, k), dot=dot)
                assert template.blocks(1, m, n) * parts >= 132 // 2, (dtype, m, dot)


def test_large_products_take_large_tiles_that_nobody_shares() -> None:
    assert chosen(DType.float32, (1, 4096, 4096, 4096)) == (gpu_templates.TILES[1], 1)
    template, parts = chosen(DType.bfloat16, (1, 4096, 4096, 4096))
    assert (template.config, parts) == ("mx_wgmma_128x256", 1)


def test_a_template_needs_its_instructions_and_its_shared_memory() -> None:
    older = Properties("test", "sm_80", 108, 163 << 10, False)
    small = Properties("test", "sm_89", 128, 99 << 10, False)
    for device in (older, small):
        for sizes in ((1, 8192, 8192, 8192), (1, 100, 512, 4096), (7, 20, 20, 20)):
            for dtype in (DType.float32, DType.bfloat16):
                template, _ = chosen(dtype, sizes, device)
                assert template.function != "mx_product_wgmma"
                assert template.shared <= device.shared_bytes


def test_a_part_is_at_least_two_steps_of_a_tile() -> None:
    for k in (0, 1, 31, 100, 700, 5000):
        template, parts = chosen(DType.float32, (1, 64, 64, k))
        assert parts == 1 or 2 * parts * template.depth <= k
    assert chosen(DType.float32, (1, 64, 64, 5000))[1] > 1
    simulated = Properties("test", "sm_90", 2, 227 << 10, True)
    assert chosen(DType.float32, (1, 64, 64, 5000), simulated)[1] == 1


# ---------------------------------------------------------------- attention
def attention(
    q: TensorValue, k: TensorValue, v: TensorValue, *, causal: str = "", offset: int = 0
) -> TensorValue:
    """softmax(mask(q k^T / sqrt(d))) v, the mask made of ranges and a choice."""
    size = int(q.shape[-1])
    scores = ops.matmul(q, ops.transpose(k, -1, -2)) * size**-0.5
    if causal:
        rows, keys = (ops.range(0, x.shape[-2], dtype=DType.int32, device=x.device) for x in (q, k))
        rows, keys = ops.unsqueeze(rows, -1) + offset, ops.unsqueeze(keys, 0)
        hidden = ops.constant(-np.inf, q.dtype, q.device)
        if causal == "keys <= rows":
            scores = ops.where(rows >= keys, scores, hidden)
        elif causal == "keys > rows":
            scores = ops.where(keys > rows, hidden, scores)
        else:
            scores = ops.where(rows + 1 > keys, scores, hidden)
    return ops.matmul(ops.softmax(scores), v)


def reference(q: Array, k: Array, v: Array, seen: Array | None) -> Array:
    """The same in float64."""
    scores = q.astype("f8") @ np.swapaxes(k.astype("f8"), -1, -2) / np.sqrt(q.shape[-1])
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return np.asarray(e / e.sum(-1, keepdims=True) @ v)


def attention_model(
    gpu: Accelerator,
    dim: int,
    heads: tuple[int, int] = (2, 3),
    dtype: DType = DType.float32,
    accuracy: Accuracy = "default",
    **options: object,
) -> Model:
    """A model of attention alone, its numbers of queries and keys symbolic."""
    types = [TensorType(dtype, [*heads, name, dim], DeviceRef.GPU()) for name in ("q", "k", "k")]
    with Graph("attention", input_types=types) as graph:
        graph.output(attention(*(v.tensor for v in graph.inputs), **options))  # type: ignore[arg-type]
    session = InferenceSession(devices=[gpu])
    return session.load(graph, options=Options(accuracy=accuracy))


@pytest.mark.parametrize("number", range(len(ATTENTION)))
@pytest.mark.parametrize("causal", ["", "keys <= rows", "keys > rows", "keys < rows + 1"])
def test_every_attention_template(number: int, causal: str, gpu: Accelerator) -> None:
    template = ATTENTION[number]
    dtype = DType.bfloat16 if template.on_tensor_cores else DType.float32
    dim = template.head - 3
    model = attention_model(gpu, dim, (1, 2), dtype, causal=causal, offset=5)
    assert [s.kind for s in model.plan.steps] == ["attention"]
    variant = gpu_templates.attention_templates(dim, dtype).index(template)
    _take(model.plan.steps[0], variant, template.threads, template.shared)
    rng = np.random.default_rng(number)
    q = rng.standard_normal((1, 2, 21, dim)).astype(dtype.ml_numpy)
    k, v = (rng.standard_normal((1, 2, 70, dim)).astype(dtype.ml_numpy) for _ in range(2))
    (got,) = run_on(gpu, model, [q, k, v])
    seen = np.arange(21)[:, None] + 5 >= np.arange(70) if causal else None
    want = reference(q, k, v, seen)
    if dtype is DType.float32:
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
    else:  # weights of the softmax and results are rounded to 16 bits, the scale is one of these
        assert np.linalg.norm(got.astype("f8") - want) <= 5e-3 * np.linalg.norm(want)


@pytest.mark.parametrize("dtype", [DType.float32, DType.bfloat16])
def test_keys_of_few_queries_are_shared_by_blocks(dtype: DType, gpu: Accelerator) -> None:
    """As on a device with many multiprocessors; run twice, since the blocks count themselves."""
    model = attention_model(gpu, 64, (1, 2), dtype)
    step = model.plan.steps[0]
    launches: list[GpuLaunch] = []

    def keep(usual: GpuLaunch) -> GpuLaunch:
        launches.append(usual)
        return usual

    launch_as(step, keep, lambda _: H200)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, 2, n, 64)).astype(dtype.ml_numpy) for n in (2, 900, 900)]
    want = reference(arrays[0], arrays[1], arrays[2], None)
    for _ in range(2):
        (got,) = run_on(gpu, model, arrays)
        limit = 1e-6 if dtype is DType.float32 else 5e-3
        assert np.linalg.norm(got.astype("f8") - want) <= limit * np.linalg.norm(want)
    assert launches[0].grid == (4, 3, 1)


@pytest.mark.parametrize("queries", [2, 9, 150])
def test_exact_attention_of_halves_rounds_where_the_ops_say(queries: int, gpu: Accelerator) -> None:
    """The weights of its softmax are not rounded for tensor cores, its scores are."""
    models = [
        attention_model(gpu, 64, (1, 1), DType.bfloat16, accuracy) for accuracy in ("exact", "fast")
    ]
    texts = []
    for model in models:
        gpu_kernels = model.plan.steps[0].gpu
        assert gpu_kernels is not None
        texts.append("".join(gpu_kernels.printed(n).text for n in range(len(gpu_kernels))))
    assert ["mx_attention_mma" in text for text in texts] == [False, True]
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal((1, 1, n, 64)).astype(DType.bfloat16.ml_numpy)
        for n in (queries, 80, 80)
    ]
    want = reference(arrays[0], arrays[1], arrays[2], None)
    for model in models:
        (got,) = run_on(gpu, model, arrays)
        assert np.linalg.norm(got.astype("f8") - want) <= 1e-2 * np.linalg.norm(want)


@pytest.mark.parametrize("dtype", [DType.bfloat16, DType.float16])
def test_attention_of_halves_stays_in_one_kernel(dtype: DType, gpu: Accelerator) -> None:
    """What is between the operands and the result is float32, the weights of the softmax aside."""
    b = Builder()
    q, k, v = (b.input(dtype, 2, 3, "t", 16) for _ in range(3))
    scores = b.op("matmul", q, b.op("transpose", k, axis_1=2, axis_2=3))
    scores = b.op("mul", scores, b.scalar(0.25, dtype))
    function = b.output(b.op("matmul", b.op("softmax", scores, axis=-1), v))
    model = load_on(gpu, on_gpu(function))
    assert [s.kind for s in model.plan.steps] == ["attention"]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 3, 37, 16)).astype(dtype.ml_numpy) for _ in range(3)]
    (got,) = run_on(gpu, model, arrays)
    exact = reference(arrays[0], arrays[1], arrays[2], None)
    (rounded,) = interpret(function, arrays)
    mine, theirs = (np.abs(x.astype(np.float64) - exact).max() for x in (got, rounded))
    assert mine <= 1.5 * theirs, (mine, theirs)


def test_keys_behind_a_causal_mask_are_not_read(gpu: Accelerator) -> None:
    model = attention_model(gpu, 32, causal="keys <= rows")
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 3, 130, 32)).astype("f4") for _ in range(3))
    # Were the last keys read for the first queries, 0 times infinity would make these NaN.
    v[:, :, 128:] = np.inf
    (got,) = run_on(gpu, model, [q, k, v])
    assert np.isfinite(got[:, :, :64]).all()
    seen = np.tril(np.ones((128, 128), bool))
    want = reference(q[:, :, :128], k[:, :, :128], v[:, :, :128], seen)
    np.testing.assert_allclose(got[:, :, :64], want[:, :, :64], rtol=2e-5, atol=2e-6)


def test_an_additive_mask_is_an_input(gpu: Accelerator) -> None:
    types = [TensorType(DType.float32, ["b", 4, "t", 16], GPU)] * 3
    types.append(TensorType(DType.float32, ["b", 1, 1, "t"], GPU))
    with Graph("masked", input_types=types) as graph:
        q, k, v, mask = (value.tensor for value in graph.inputs)
        scores = ops.matmul(q, ops.transpose(k, 2, 3)) * 0.25 + mask
        graph.output(ops.matmul(ops.softmax(scores), v))
    model = load_on(gpu, graph.function)
    assert [s.kind for s in model.plan.steps] == ["attention"]
    rng = np.random.default_rng(0)
    q0, k0, v0 = (rng.standard_normal((2, 4, 9, 16)).astype("f4") for _ in range(3))
    seen = rng.random((2, 1, 1, 9)) > 0.4
    mask0 = np.where(seen, 0, -np.inf).astype("f4")
    (got,) = run_on(gpu, model, [q0, k0, v0, mask0])
    np.testing.assert_allclose(got, reference(q0, k0, v0, seen), rtol=2e-5, atol=2e-6)


def test_heads_too_large_for_a_template_are_composed(gpu: Accelerator) -> None:
    model = attention_model(gpu, 300, (1, 1))
    assert "attention" not in [s.kind for s in model.plan.steps]
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, 7, 300)).astype("f4") for _ in range(3))
    (got,) = run_on(gpu, model, [q, k, v])
    np.testing.assert_allclose(got, reference(q, k, v, None), rtol=2e-5, atol=2e-6)


def test_the_choice_of_attention_follows_the_sizes() -> None:
    templates = gpu_templates.attention_templates(64)

    def chosen(heads: int, queries: int, device: Properties = H200) -> str:
        return templates[choose_attention(templates, (heads, queries), device)].config

    assert chosen(32, 2048) == "mx_attention_64"
    assert chosen(32, 2048, RTX) == "mx_attention_64_few"
    assert chosen(70, 128) == "mx_attention_64_few"
    assert chosen(12, 128) == "mx_attention_64_short"
    assert chosen(32, 1) == "mx_decode_64"
    assert chosen(1024, 16) == "mx_attention_64_short"
    templates = gpu_templates.attention_templates(64, DType.bfloat16)
    assert chosen(32, 2048) == "mx_mma_attention_64"
    assert chosen(12, 128) == "mx_mma_attention_64_few"
    assert chosen(1024, 16) == "mx_mma_attention_64_short"
    assert chosen(32, 1) == "mx_decode_64"
    templates = gpu_templates.attention_templates(30, DType.bfloat16)
    assert chosen(32, 2048) == "mx_mma_attention_32"
    templates = gpu_templates.attention_templates(200, DType.bfloat16)
    assert chosen(32, 20) == "mx_mma_attention_256"
    templates = gpu_templates.attention_templates(65, DType.float16, "exact")
    assert chosen(32, 2048) == "mx_attention_128"


def test_a_product_into_memory_of_another_model(gpu: Accelerator) -> None:
    """Outputs of one model are inputs of the next without leaving the device."""
    b = Builder()
    x = b.input(DType.float32, "n", 16)
    model = load_on(
        gpu, on_gpu(b.output(b.op("matmul", x, b.op("transpose", x, axis_1=0, axis_2=1))))
    )
    second = Builder()
    y = second.input(DType.float32, "n", "n")
    other = load_on(gpu, on_gpu(second.output(second.op("softmax", y, axis=-1))))
    data = np.random.default_rng(0).standard_normal((20, 16)).astype("f4")
    before = gpu.stats
    (found,) = other(*model(Tensor.from_numpy(data).to(gpu)))
    after = gpu.stats
    assert (after["launches"] - before["launches"], after["uploads"] - before["uploads"]) == (2, 1)
    assert (after["downloads"], after["waits"]) == (before["downloads"], before["waits"])
    e = data @ data.T
    e = np.exp(e - e.max(-1, keepdims=True))
    np.testing.assert_allclose(
        host(found.to(CPU())), e / e.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6
    )
