"""Products of matrices: own templates, what the dispatcher takes, cuBLASLt and torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu import data, peers
from benchmarks.gpu.case import Bench, Goal
from benchmarks.gpu.launching import Array, Launches, down, load, up
from benchmarks.gpu.timing import Contender, Launch
from maxlab.compiler.gpu_templates import ProductTemplate, choose_product, product_templates
from maxlab.compiler.plan import Env, GpuLaunch
from maxlab.driver import Accelerator, Tensor
from maxlab.driver.backend import Product, Properties, Queue
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.engine.launching import device_launch, grid_of
from maxlab.graph import DeviceRef, Graph, TensorType

F32, BF16 = DType.float32, DType.bfloat16
LARGE = (8192, 8192, 8192)
SHAPES = (
    LARGE,
    (4096, 4096, 4096),
    (1024, 1024, 1024),
    (1, 4096, 4096),
    (8, 4096, 4096),
    (16, 4096, 4096),
    (128, 4096, 4096),
)
"""m, k, n."""
TINY_SHAPES = ((48, 32, 64), (2, 32, 40))
DISPATCHER, OWN = Goal("cuBLASLt", 0.97), Goal("cuBLASLt", 0.6)


def run(bench: Bench) -> None:
    """Every shape in float32, strictly, and in bfloat16."""
    for dtype in (BF16, F32):
        for shape in TINY_SHAPES if bench.tiny else SHAPES:
            title = f"{dtype.name} {'x'.join(map(str, shape))}"
            bench.guarded("product", title, partial(measure, bench, title, dtype, shape))


def measure(bench: Bench, title: str, dtype: DType, shape: tuple[int, int, int]) -> None:
    """One shape: ``[m, k] @ [k, n]``, both by rows."""
    m, k, n = shape
    nbytes = (m * k + k * n + m * n) * dtype.size_in_bytes
    count = data.number_of_sets(nbytes, tiny=bench.tiny)
    pairs = [
        (
            data.normal(2 * number, (m, k), dtype),
            data.normal(2 * number + 1, (k, n), dtype, scale=k**-0.5),
        )
        for number in range(min(count, 4))
    ]
    while len(pairs) < count:  # other memory is enough: what is in it may be the same
        pairs.append(pairs[len(pairs) % 4])
    check = partial(_check, *pairs[0], dtype)
    operands = [(up(bench.device, a), up(bench.device, b)) for a, b in pairs]
    errors: dict[str, float] = {}
    contenders: list[Contender] = []

    def add(name: str, sets: list[Any], result: Callable[[], Array], note: str = "") -> None:
        errors[name] = check(result(), f"{name} {title}")
        contenders.append(Contender(name, sets, note=note))

    model = product_model(bench.device, dtype, shape)
    dispatched = [Launches(model, pair) for pair in operands]
    templates = _templates(bench, dtype, shape)
    by_library = dispatched[0].names == ["cuBLASLt"]
    taken = "cuBLASLt" if by_library else templates[0].template.config
    add("maxlab", dispatched, lambda: dispatched[0].results()[0], f"takes {taken}")
    for forced in templates:
        name = f"own {forced.template.config.removeprefix('mx_')}"
        if forced.parts > 1:
            name += f", {forced.parts} parts"
        own = product_model(bench.device, dtype, shape)
        force(own, forced)
        launches = [Launches(own, pair) for pair in operands]
        add(name, launches, lambda launches=launches: launches[0].results()[0])  # type: ignore[misc]
    library = _library(bench, dtype, shape, operands)
    if library is not None:
        sets, out = library

        def result() -> Array:
            bench.timer.once(sets[0])
            return down(out)

        add("cuBLASLt", list(sets), result)

    def add_torch() -> None:
        calls = [partial(_product, peers.up(a), peers.up(b)) for a, b in pairs]
        errors["torch"] = check(peers.down(calls[0]()), f"torch {title}")
        contenders.append(peers.contender(bench.context, calls))

    if peers.torch_on_a_gpu() is not None:
        bench.guarded("product", title, add_torch, "torch")
    goals = [(contenders[1].name, OWN)] if dtype is BF16 and shape == LARGE else []
    if shape == LARGE and dtype is BF16:
        goals.append(("maxlab", DISPATCHER))
    bench.compare(
        "product", title, contenders, work=2.0 * m * n * k, unit="TFLOP/s", goals=goals,
        errors=errors,
    )  # fmt: skip


def _product(a: Any, b: Any) -> Any:
    return a @ b


def product_model(device: Accelerator, dtype: DType, shape: tuple[int, int, int]) -> Model:
    """``[m, k] @ [k, n]``, both by rows."""
    m, k, n = shape
    place = DeviceRef.GPU()
    types = [TensorType(dtype, (m, k), place), TensorType(dtype, (k, n), place)]
    with Graph("product", input_types=types) as graph:
        a, b = (value.tensor for value in graph.inputs)
        graph.output(a @ b)
    return load(device, graph)


def _templates(bench: Bench, dtype: DType, shape: tuple[int, int, int]) -> list[Forced]:
    """The template of the rule first, and for large products the other tiles, to test the rule."""
    m, k, n = shape
    templates = product_templates(dtype, False)
    chosen, parts = choose_product(templates, (1, m, n, k), bench.context.properties)
    found = [(chosen, parts)]
    if templates[chosen].depth:
        found += [
            (number, 1)
            for number, template in enumerate(templates)
            if template.depth and number != chosen and template.rows <= 2 * m
        ]
    return [Forced(number, templates[number], parts, shape) for number, parts in found[:3]]


def force(model: Model, forced: Forced) -> None:
    """Let ``model``, a product ``[m, k] @ [k, n]``, be made by a template, whatever the rule and
    the library say.
    """
    (step,) = (step for step in model.plan.steps if step.gpu is not None)
    assert step.gpu is not None

    launch: Any = forced
    step.gpu.launch = launch
    step.gpu.library = None


@dataclass(frozen=True)
class Forced:
    """The launch of a template that no rule has chosen.

    Attributes:
        number: Of the template.
        template: It.
        parts: How many blocks share a tile.
        shape: m, k and n.
    """

    number: int
    template: ProductTemplate
    parts: int
    shape: tuple[int, int, int]


@device_launch.register
def _(formula: Forced, env: Env, properties: Properties) -> GpuLaunch:
    template, (m, _, n) = formula.template, formula.shape
    tiles = template.blocks(1, m, n)
    grid = (grid_of(tiles, properties)[0], formula.parts, 1)
    own = template.own_bytes(tiles, formula.parts)
    block = template.threads, 1, 1
    return GpuLaunch(formula.number, grid, block, template.shared, 0, m * n, own, meets=own > 0)


def _library(
    bench: Bench, dtype: DType, shape: tuple[int, int, int], operands: list[tuple[Tensor, Tensor]]
) -> tuple[list[Launch], Tensor] | None:
    """cuBLASLt for each pair of operands, and the first result; None where it is not."""
    context = bench.context
    blas = context.blas()
    m, k, n = shape
    product = Product(m, n, k, dtype)
    if blas is None or not context.call(lambda: blas.supports(product)):
        return None
    outputs = [Tensor.zeros([m, n], dtype, bench.device) for _ in operands]

    def launch(c: Tensor, a: Tensor, b: Tensor) -> Launch:
        def work(queue: Queue) -> None:
            blas.run(queue, product, c.address, a.address, b.address)

        return work

    made = [launch(c, a, b) for c, (a, b) in zip(outputs, operands, strict=True)]
    return made, outputs[0]


def _check(a: Array, b: Array, dtype: DType, got: Array, what: str) -> float:
    """The error of some rows and columns; all elements must be numbers."""
    if not data.finite(got):
        raise data.WrongResultError(f"{what}: elements were not written, or are not numbers")
    rows, columns = data.sample(64, len(a), 1), data.sample(64, b.shape[1], 2)
    want = a[rows].astype(np.float64) @ b[:, columns].astype(np.float64)
    return data.check(got[rows][:, columns], want, dtype, what)
