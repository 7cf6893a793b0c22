"""The manager of pages, rotary embeddings and attention over pages together: what a layer computes
step by step, in batches, in chunks and behind prefixes of others, is what it computes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.driver import CPU, Tensor
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.nn import kernels
from maxlab.nn.attention import MHAMaskVariant
from maxlab.nn.kv_cache import (
    KVCacheParams,
    PagedCacheInputSymbols,
    PagedCacheValues,
    PagedKVCacheManager,
)
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.pipelines.core import TextContext

Array = np.ndarray[Any, Any]
F32, U32, HOST = DType.float32, DType.uint32, DeviceRef.CPU()
HIDDEN, HEADS, KEYS, SIZE, LAYERS, LONGEST = 24, 4, 2, 8, 2, 512
PARAMS = KVCacheParams(
    F32, n_kv_heads=KEYS, head_dim=SIZE, page_size=128, enable_prefix_caching=True
)
RNG = np.random.default_rng(3)
TABLE = RNG.standard_normal((50, HIDDEN)).astype(np.float32)
WEIGHTS = [
    (RNG.standard_normal(((HEADS + 2 * KEYS) * SIZE, HIDDEN)) / 5).astype(np.float32)
    for _ in range(LAYERS)
]
BACK = [(RNG.standard_normal((HIDDEN, HEADS * SIZE)) / 5).astype(np.float32) for _ in range(LAYERS)]


def rope() -> RotaryEmbedding:
    return RotaryEmbedding(
        HEADS * SIZE, HEADS, theta=10000.0, max_seq_len=LONGEST, head_dim=SIZE, interleaved=False
    )


@pytest.fixture(scope="module")
def model() -> engine.Model:
    """Two layers of attention over a paged cache, each added to its input."""
    symbols = PagedCacheInputSymbols.of(PARAMS, LAYERS, HOST)
    types = [TensorType(F32, ["tokens", HIDDEN], HOST), TensorType(U32, ["ends"], HOST), *symbols]
    with Graph("layers", input_types=types) as graph:
        x, offsets = (value.tensor for value in graph.inputs[:2])
        cache = PagedCacheValues.of(graph.inputs[2:])
        turns, scale = rope().freqs_cis, rope().compute_scale()
        for number, (weights, back) in enumerate(zip(WEIGHTS, BACK, strict=True)):
            layer = ops.constant(number, U32, HOST)
            q = kernels.fused_qkv_ragged_matmul(
                PARAMS, x, offsets, ops.constant(weights, F32, HOST), cache, layer, HEADS
            )
            q = ops.reshape(q, [-1, HEADS, SIZE])
            q = kernels.fused_qk_ragged_rope(
                PARAMS, q, offsets, cache, turns, layer, interleaved=False
            )
            y = kernels.flash_attention_ragged(
                PARAMS, q, offsets, cache, layer, MHAMaskVariant.CAUSAL_MASK, scale
            )
            y = ops.reshape(y, [-1, HEADS * SIZE])
            x = x + y @ ops.transpose(ops.constant(back, F32, HOST), 0, 1)
        graph.output(x)
    return engine.InferenceSession().load(graph)


def whole(tokens: Array) -> Array:
    """All layers for one sequence at once, in float64."""
    x = TABLE[tokens].astype(np.float64)
    places = np.arange(len(tokens))
    angles = places[:, None] * 10000.0 ** (-np.arange(0, SIZE, 2) / SIZE)

    def turned(heads: Array) -> Array:
        first, second = heads[..., : SIZE // 2], heads[..., SIZE // 2 :]
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    for weights, back in zip(WEIGHTS, BACK, strict=True):
        made = (x @ weights.T.astype(np.float64)).reshape(len(x), HEADS + 2 * KEYS, SIZE)
        q, k, v = np.split(made, [HEADS, HEADS + KEYS], axis=1)
        q, k = turned(q), np.repeat(turned(k), HEADS // KEYS, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(SIZE)
        scores[:, places[:, None] < places] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        y = np.einsum("hqk,khd->qhd", shares, np.repeat(v, HEADS // KEYS, axis=1))
        x = x + y.reshape(len(x), -1) @ back.T
    return x


class Run:
    """Sequences whose tokens are given, computed by the model with a cache."""

    def __init__(self, model: engine.Model, pages: int = 12) -> None:
        self.model = model
        self.manager = PagedKVCacheManager(
            PARAMS,
            max_batch_size=4,
            max_seq_len=LONGEST,
            num_layers=LAYERS,
            devices=[CPU()],
            available_cache_memory=pages * PARAMS.bytes_per_block(LAYERS),
            enable_runtime_checks=True,
            poison_free_pages=True,
        )
        self.computed = 0

    def begin(self, tokens: Sequence[int] | Array) -> TextContext:
        context = TextContext(max_length=LONGEST, tokens=np.asarray(tokens))
        self.manager.claim(context.request_id)
        return context

    def step(self, *contexts: TextContext, most: int | None = None) -> list[Array]:
        """What the layers make of the tokens that are next, of all or of ``most`` of each."""
        for context in contexts:
            self.manager.alloc(context)
            if most is not None and context.active_length > most:
                context.set_token_indices(active_idx=context.start_idx + most)
        parts = [context.next_tokens for context in contexts]
        offsets = np.cumsum([0, *map(len, parts)]).astype(np.uint32)
        self.computed += int(offsets[-1])
        (cache,) = self.manager.get_runtime_inputs(list(contexts))
        rows = TABLE[np.concatenate(parts)]
        (found,) = self.model(Tensor.from_numpy(rows), Tensor.from_numpy(offsets), *cache)
        for context in contexts:
            context.update(int(RNG.integers(50)))
        self.manager.step(list(contexts))
        return np.split(found.to_numpy(), offsets[1:-1])


def agree(found: Array, tokens: Array) -> None:
    np.testing.assert_allclose(found, whole(tokens)[-len(found) :], rtol=2e-4, atol=2e-5)


def test_steps_of_a_batch_are_what_is_computed_at_once(model: engine.Model) -> None:
    run = Run(model)
    contexts = [run.begin(RNG.integers(0, 50, length)) for length in (5, 130, 1)]
    for _ in range(6):
        before = [context.all_tokens.copy() for context in contexts]
        for found, tokens in zip(run.step(*contexts), before, strict=True):
            agree(found, tokens)
    assert run.computed == 5 + 130 + 1 + 5 * 3


def test_a_prompt_in_chunks_beside_others(model: engine.Model) -> None:
    run = Run(model)
    long, short = run.begin(RNG.integers(0, 50, 300)), run.begin(RNG.integers(0, 50, 7))
    prompt = long.all_tokens.copy()
    for end in (128, 256, 300):
        told = short.all_tokens.copy()
        first, second = run.step(long, short, most=128)
        agree(first, prompt[:end])
        agree(second, told)
    assert run.computed == 300 + 7 + 2


def test_a_prefix_of_another_sequence_is_not_computed_again(model: engine.Model) -> None:
    run = Run(model)
    shared = RNG.integers(0, 50, 256)
    first = run.begin(np.concatenate([shared, [1, 2, 3]]))
    run.step(first)
    second = run.begin(np.concatenate([shared, [4, 5]]))
    (found,) = run.step(second)
    assert len(found) == 2, "the tokens behind the prefix"
    agree(found, np.concatenate([shared, [4, 5]]))
    run.manager.release(first.request_id)
    tokens = second.all_tokens.copy()
    (found,) = run.step(second)
    agree(found, tokens)


def test_pages_that_are_given_back_are_used_again(model: engine.Model) -> None:
    """A pool of three pages serves sequences one after another, whatever the pages held."""
    run = Run(model, pages=3)
    for length in (300, 150, 380):
        context = run.begin(RNG.integers(0, 50, length))
        for _ in range(2):
            tokens = context.all_tokens.copy()
            (found,) = run.step(context)
            agree(found, tokens)
        run.manager.release(context.request_id)
    assert run.manager.num_free_blocks == 3
