"""The memory of attention over long sequences: it grows with the tokens, not with their square.

A matrix of all scores of 4096 tokens is 16 times that of 1024. What a run needs besides
its inputs is what its counters say: the arenas of its intermediate values, the scratch memory of
its threads, and its results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.engine.segments import HostSegment
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.nn import kernels
from maxlab.nn.attention.latent_attention import LatentAttentionWithRope
from maxlab.nn.kv_cache import KVCacheParams
from maxlab.nn.rotary_embedding import RotaryEmbedding
from tests.nn.kernels.caches import Array, Cache, Params, Values

CPU, F32, U32 = DeviceRef.CPU(), DType.float32, DType.uint32
SIZES = (1024, 2048, 4096)
Run = tuple[Model, Callable[[list[int]], list[Array]]]
"""A model, and its inputs for sequences of some lengths, which are new."""


def _zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def _offsets(lengths: list[int]) -> Array:
    return np.cumsum([0, *lengths]).astype(np.uint32)


def _ragged() -> Run:
    """Attention of a ragged batch without a cache."""
    rows = [TensorType(F32, ["tokens", heads, 8]) for heads in (2, 1, 1)]
    with Graph(
        "ragged", input_types=[*rows, TensorType(U32, ["ends"]), TensorType(U32, [1])]
    ) as graph:
        q, k, v, offsets, most = (value.tensor for value in graph.inputs)
        graph.output(kernels.flash_attention_ragged_gpu(q, k, v, offsets, most, "0", 0.3))

    def inputs_of(lengths: list[int]) -> list[Array]:
        made = [_zeros(sum(lengths), heads, 8) for heads in (2, 1, 1)]
        return [*made, _offsets(lengths), np.array([max(lengths)], np.uint32)]

    return InferenceSession().load(graph), inputs_of


def _cached(params: Params, lengths: list[int]) -> list[Array]:
    """Pages, lengths, table, longest lengths, offsets and layer of sequences that are new."""
    page, heads, dim = params.page_size or 1, params.n_kv_heads_per_device, params.head_dim
    counts = [-(-length // page) for length in lengths]
    pages, batch, longest = sum(counts), len(lengths), max(lengths)
    table = np.full((batch, max(counts)), pages, np.uint32)
    for row, count, end in zip(table, counts, np.cumsum(counts), strict=True):
        row[:count] = np.arange(end - count, end)
    return [
        _zeros(pages, 2 - params.is_mla, 1, page, heads, dim), np.zeros(batch, np.uint32), table,
        np.array([[longest, longest]], np.uint32), _offsets(lengths), np.array(0, np.uint32),
    ]  # fmt: skip


def _paged() -> Run:
    """Attention over the pages of a cache."""
    params = Params(n_kv_heads_per_device=1, page_size=128)
    types = Cache(params, [0], [1], layers=1).types(CPU)
    with Graph("paged", input_types=[*types, TensorType(F32, ["tokens", 2, 8])]) as graph:
        pages, lengths, table, most, offsets, layer, q = graph.inputs
        values = Values(pages.buffer, lengths.tensor, table.tensor, most.tensor)
        graph.output(
            kernels.flash_attention_ragged(
                params, q.tensor, offsets.tensor, values, layer.tensor, "0", 0.3
            )
        )

    def inputs_of(lengths: list[int]) -> list[Array]:
        return [*_cached(params, lengths), _zeros(sum(lengths), 2, 8)]

    return InferenceSession().load(graph), inputs_of


def _latent() -> Run:
    """A layer of latent attention, whose keys and values are made again, 256 tokens at a time."""
    real = KVCacheParams(F32, n_kv_heads=1, head_dim=10, page_size=128, is_mla=True)
    layer = LatentAttentionWithRope(
        rope=RotaryEmbedding(4, 1, 100.0, SIZES[-1], head_dim=4), num_attention_heads=1,
        num_key_value_heads=1, hidden_size=8, kv_params=real, dtype=F32, kv_lora_rank=6,
        qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=4, buffer_size=256,
        graph_mode="prefill",
    )  # fmt: skip
    params = Params(n_kv_heads_per_device=1, head_dim=10, page_size=128, is_mla=True)
    types = Cache(params, [0], [1], layers=1).types(CPU)
    with Graph("latent", input_types=[*types, TensorType(F32, ["tokens", 8])]) as graph:
        pages, lengths, table, most, offsets, number, x = graph.inputs
        values: Any = Values(pages.buffer, lengths.tensor, table.tensor, most.tensor)
        graph.output(layer(number.tensor, x.tensor, values, layer.rope.freqs_cis, offsets.tensor))

    def inputs_of(lengths: list[int]) -> list[Array]:
        return [*_cached(params, lengths), _zeros(sum(lengths), 8)]

    return InferenceSession().load(graph, weights_registry=layer.state_dict()), inputs_of


def _peak(run: Run, *lengths: int) -> int:
    """The bytes that a run of sequences of ``lengths`` needs besides its inputs."""
    model, inputs_of = run
    model.runner.programs.clear()
    results = model(*inputs_of(list(lengths)))
    programs = list(model.runner.programs.values())
    while programs and programs[-1].later:
        programs.extend(programs[-1].later.values())
    total = sum(math.prod(x.shape) * 4 for x in results)
    for program in programs:
        total += sum(arena.nbytes for arena in program.arenas)
        host = [part.steps for part in program.segments if isinstance(part, HostSegment)]
        total += max((steps.scratch for steps in host), default=0)
    return total


@pytest.mark.parametrize("make", [_ragged, _paged, _latent], ids=["ragged", "paged", "latent"])
def test_no_matrix_of_scores(make: Callable[[], Run]) -> None:
    run = make()
    one, two, four = (_peak(run, tokens) for tokens in SIZES)
    assert 0 < one < two
    assert four <= 1.2 * _line(one, two)
    assert four < SIZES[-1] ** 2, "a byte for each pair of tokens"


def test_a_matrix_of_scores_would_be_seen() -> None:
    with Graph("scores", input_types=[TensorType(F32, ["tokens", 8])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.softmax(ops.matmul(x, x.T)) @ x)
    run = InferenceSession().load(graph), lambda lengths: [_zeros(sum(lengths), 8)]
    one, two, four = (_peak(run, tokens) for tokens in (64, 128, 256))
    assert four > 1.2 * _line(one, two)


def _line(one: int, two: int) -> int:
    """What four times as many tokens need as the first ones, if memory grows linearly."""
    return two + 2 * (two - one)


@pytest.mark.parametrize("make", [_ragged, _paged, _latent], ids=["ragged", "paged", "latent"])
def test_short_sequences_are_not_padded(make: Callable[[], Run]) -> None:
    """One sequence of 500 tokens beside 31 of one token needs no more than one of 531."""
    run = make()
    among_others = _peak(run, *[1] * 15, 500, *[1] * 16)
    assert 0 < among_others <= 1.05 * _peak(run, 531)
