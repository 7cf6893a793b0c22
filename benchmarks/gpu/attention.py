"""Attention beside torch's, whose backend is named."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu import data, peers
from benchmarks.gpu.case import Bench, Goal
from benchmarks.gpu.launching import Array, Launches, load, up
from benchmarks.gpu.timing import Contender
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

F32, BF16 = DType.float32, DType.bfloat16
SHAPES = ((4, 16, 2048, 64), (1, 32, 8192, 128))
"""Batch, heads, queries (and keys), size of a head."""
TINY_SHAPES = ((1, 2, 40, 16),)
SDPA = "torch SDPA"
GOAL = Goal(SDPA, 0.85)


def run(bench: Bench) -> None:
    """Full and causal attention, float32 and bfloat16."""
    for dtype in (BF16, F32):
        for shape in TINY_SHAPES if bench.tiny else SHAPES:
            for causal in (False, True):
                kind = "causal" if causal else "full"
                title = f"{kind} {dtype.name} {'x'.join(map(str, shape))}"
                work = partial(measure, bench, title, dtype, shape, causal)
                bench.guarded("attention", title, work)


def measure(
    bench: Bench, title: str, dtype: DType, shape: tuple[int, int, int, int], causal: bool
) -> None:
    """One shape: softmax(q k^T / sqrt(d)) v, with what comes later hidden if it is causal."""
    batch, heads, length, size = shape
    arrays = [data.normal(n, shape, dtype) for n in range(3)]
    graph = attention_graph(dtype, shape, causal)
    model = load(bench.device, graph)
    launches = Launches(model, [up(bench.device, array) for array in arrays])
    (got,) = launches.results()
    check = partial(_check, arrays, causal, dtype)
    errors = {"maxlab": check(got, title)}
    kinds = ", ".join(step.kind for step in model.plan.steps)
    contenders = [Contender("maxlab", [launches], note=f"{kinds}: {launches.names[-1]}")]
    torch = peers.torch_on_a_gpu()
    if torch is not None:
        given = [peers.up(array) for array in arrays]

        def add_torch(name: str, backend: Any) -> None:
            work = partial(_sdpa, torch, given, causal, backend)
            errors[name] = check(peers.down(work()), f"{name} {title}")
            note = f"{backend.name}{', its own choice' if name == SDPA else ''}"
            contenders.append(peers.contender(bench.context, [work], name, note))

        def add_all() -> None:
            for name, backend in _backends(torch, given, causal):
                bench.guarded("attention", title, partial(add_torch, name, backend), name)

        bench.guarded("attention", title, add_all, SDPA)
    seen = length * (length + 1) / 2 if causal else length * length
    bench.compare(
        "attention", title, contenders, work=4.0 * batch * heads * seen * size, unit="TFLOP/s",
        goals=[("maxlab", GOAL)], errors=errors,
    )  # fmt: skip


def attention_graph(dtype: DType, shape: tuple[int, ...], causal: bool) -> Graph:
    """softmax(q kᵀ / sqrt(d)) v for ``[batch, heads, length, d]``."""
    place = DeviceRef.GPU()
    with Graph("attention", input_types=[TensorType(dtype, shape, place)] * 3) as graph:
        q, k, v = (value.tensor for value in graph.inputs)
        scores = ops.matmul(q, ops.transpose(k, -1, -2)) * shape[-1] ** -0.5
        if causal:
            places = ops.range(0, shape[-2], dtype=DType.int32, device=place)
            hidden = ops.constant(-np.inf, dtype, place)
            visible = ops.unsqueeze(places, -1) >= ops.unsqueeze(places, 0)
            scores = ops.where(visible, scores, hidden)
        graph.output(ops.matmul(ops.softmax(scores), v))
    return graph


def _backends(torch: Any, given: list[Any], causal: bool) -> list[tuple[str, Any]]:
    """torch's own choice, named, and the other fast ones that take these operands."""
    from torch.nn.attention import SDPBackend

    # What scaled_dot_product_attention itself asks before it dispatches.
    chosen = SDPBackend(torch._fused_sdp_choice(*given, None, 0.0, causal))
    found = [(SDPA, chosen)]
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        if backend == chosen:
            continue
        try:
            _sdpa(torch, given, causal, backend)
        except RuntimeError:  # not for this dtype, size or GPU
            continue
        found.append((f"torch {backend.name.removesuffix('_ATTENTION').lower()}", backend))
    return found


def _sdpa(torch: Any, given: list[Any], causal: bool, backend: Any) -> Any:
    from torch.nn.attention import sdpa_kernel

    with sdpa_kernel(backend):
        return torch.nn.functional.scaled_dot_product_attention(*given, is_causal=causal)


def _check(arrays: list[Array], causal: bool, dtype: DType, got: Array, what: str) -> float:
    """The error of some queries of some heads; all elements must be numbers."""
    if not data.finite(got):
        raise data.WrongResultError(f"{what}: elements were not written, or are not numbers")
    length, size = got.shape[-2:]
    q, k, v, out = (array.reshape(-1, length, size) for array in (*arrays, got))
    queries = data.sample(12, length)
    wanted, found = [], []
    for head in data.sample(3, len(q)):
        scores = q[head][queries].astype(np.float64) @ k[head].astype(np.float64).T * size**-0.5
        if causal:
            scores = np.where(queries[:, None] >= np.arange(length), scores, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        wanted.append(powers / powers.sum(-1, keepdims=True) @ v[head].astype(np.float64))
        found.append(out[head][queries])
    return data.check(np.stack(found), np.stack(wanted), dtype, what)
