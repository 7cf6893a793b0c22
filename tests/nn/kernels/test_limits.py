"""Ragged batches and caches with wrong numbers, other types, and what their kernels move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import ExecutionError
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.nn import kernels
from tests.cpu_and_gpu import at, numpy, session
from tests.nn.kernels.caches import Array, Cache, Params, Values, run

CPU, F32, U32 = DeviceRef.CPU(), DType.float32, DType.uint32
RNG = np.random.default_rng(5)


def _random(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def _write_and_attend(
    values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
) -> list[TensorValue]:
    """Keys and values of the rows, then their attention; the order is that of the statements."""
    params, x = Params(), rest[0]
    number = layer.to(values.kv_blocks.device)
    given = (offsets, values.cache_lengths, values.lookup_table, number)
    ops.cache_store(values.kv_blocks, *given, x, part=0, parts=2)
    q = ops.reshape(x, [x.shape[0], 4, 8])
    before = kernels.flash_attention_ragged(params, q, offsets, values, layer, "0", 0.3)
    ops.cache_store(values.kv_blocks, *given, x * 2, part=0, parts=2)
    after = kernels.flash_attention_ragged(params, q, offsets, values, layer, "0", 0.3)
    return [before, after]


def test_writes_and_attention_keep_their_order(place: DeviceRef) -> None:
    cache, wanted = Cache(Params(), [5, 2], [3, 4]), Cache(Params(), [5, 2], [3, 4])
    x = _random(7, 32)
    found = run(cache, place, 1, [x], _write_and_attend)
    for factor, y in zip((1, 2), found, strict=True):
        wanted.stored(1, 0, factor * x[:, :16])
        wanted.stored(1, 1, factor * x[:, 16:])
        np.testing.assert_allclose(
            y, wanted.attended(x.reshape(7, 4, 8), 1, 0.3), rtol=1e-5, atol=1e-5
        )
    np.testing.assert_array_equal(cache.blocks, wanted.blocks)


def _page(cache: Cache) -> None:
    cache.table[1, 0] = len(cache.blocks)


def _far_page(cache: Cache) -> None:
    cache.table[:] = 2**32 - 1


def _long(cache: Cache) -> None:
    cache.lengths[0] = 2**32 - 1


def _full(cache: Cache) -> None:
    cache.lengths[0] = cache.table.shape[1] * 4


def _late(cache: Cache) -> None:
    cache.offsets[0] = 1


def _few(cache: Cache) -> None:
    cache.offsets[-1] -= 1


def _backwards(cache: Cache) -> None:
    cache.offsets[:] = cache.offsets[::-1].copy()


BROKEN = [_page, _far_page, _long, _full, _late, _few, _backwards]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda f: f.__name__)
def test_numbers_out_of_range_end_the_run(
    place: DeviceRef, broken: Callable[[Cache], None]
) -> None:
    cache = Cache(Params(), [5, 2], [3, 4])
    broken(cache)
    with pytest.raises(ExecutionError, match="ML652"):
        run(cache, place, 1, [_random(7, 32)], _write_and_attend)


@pytest.mark.parametrize("layer", [2, 2**32 - 1])
def test_a_layer_out_of_range_ends_the_run(place: DeviceRef, layer: int) -> None:
    with pytest.raises(ExecutionError, match="ML652"):
        run(Cache(Params(), [5, 2], [3, 4]), place, layer, [_random(7, 32)], _write_and_attend)


def test_no_rows(place: DeviceRef) -> None:
    cache = Cache(Params(), [5, 2], [0, 0])
    before = cache.blocks.copy()
    found = run(cache, place, 1, [_random(0, 32)], _write_and_attend)
    assert [y.shape for y in found] == [(0, 4, 8)] * 2
    np.testing.assert_array_equal(cache.blocks, before)


def test_sizes_of_another_batch_are_refused() -> None:
    cache = Cache(Params(), [5, 2], [3, 4])
    cache.lengths = np.zeros(3, np.uint32)
    with pytest.raises(ValueError, match="row offsets are not one more than cache lengths"):
        run(_Free(cache), CPU, 1, [_random(7, 32)], _write_and_attend)


class _Free(Cache):
    """The same cache, whose types say nothing of one batch."""

    def __init__(self, cache: Cache) -> None:
        vars(self).update(vars(cache))

    def types(self, place: DeviceRef) -> list[BufferType | TensorType]:
        found = super().types(place)
        return [*found[:1], TensorType(U32, ["one"], place), *found[2:]]


def test_no_kernel_moves_the_cache() -> None:
    """Neither what kernels touch nor the memory of a run depends on the number of pages."""
    cache = Cache(Params(), [5, 2], [3, 4])
    more = [TensorType(F32, ["tokens", 32], CPU)]
    with Graph("large", input_types=[*cache.types(CPU), *more]) as graph:
        pages, lengths, table, most, offsets, layer, x = graph.inputs
        values = Values(pages.buffer, lengths.tensor, table.tensor, most.tensor)
        graph.output(*_write_and_attend(values, offsets.tensor, layer.tensor, [x.tensor]))
    model = InferenceSession().load(graph)
    touches = [touch for step in model.plan.steps for touch in step.touched().values()]
    assert len(touches) > 20
    assert "pages" not in " ".join(str(touch.read + touch.written) for touch in touches)
    limits = np.array([[4, 8]], np.uint32)
    numbers = (cache.lengths, cache.table, limits, cache.offsets, np.array(1, np.uint32))
    rows = _random(7, 32)
    peaks = []
    for count in (64, 16384):
        blocks = np.zeros((count, *cache.blocks.shape[1:]), np.float32)
        cache.table %= 64
        model(blocks, *numbers, rows)
        env = {
            "pages": count, "batch": 2, "most": cache.table.shape[1], "steps": 1, "ends": 3,
            "tokens": 7,
        }  # fmt: skip
        peaks.append(sum(nbytes for _, nbytes in model.arenas(env) or []))
    assert peaks[0] == peaks[1] > 0


BAD: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("ML659", lambda s: s | {"input": s["input"][:, 0]}),
    ("ML659", lambda s: s | {"layer_idx": s["input_row_offsets"]}),
    ("ML659", lambda s: s | {"input_row_offsets": s["layer_idx"]}),
    ("ML659", lambda s: s | {"kv_params": Params(head_dim=16)}),
    ("ML659", lambda s: s | {"kv_params": Params(page_size=8)}),
    ("ML659", lambda s: s | {"input": s["input"][:, :3]}),
    ("ML659", lambda s: s | {"sink_weights": s["input"][0, 0]}),
    ("ML666", lambda s: s | {"kv_params": Params(DType.bfloat16)}),
    ("ML666", lambda s: s | {"input": ops.cast(s["input"], DType.float16)}),
    ("ML666", lambda s: s | {"layer_idx": ops.cast(s["layer_idx"], DType.int64)}),
    ("ML666", lambda s: s | {"input_row_offsets": ops.cast(s["input_row_offsets"], DType.int32)}),
    ("ML667", lambda s: s | {"mask_variant": "5"}),
    ("ML667", lambda s: s | {"mask_variant": None}),
    ("ML667", lambda s: s | {"mask_variant": "4"}),
    ("ML667", lambda s: s | {"mask_variant": "3", "local_window_size": 0}),
    ("ML667", lambda s: s | {"local_window_size": 4}),
    ("ML667", lambda s: s | {"local_window_size": -2}),
    ("ML667", lambda s: s | {"mask_variant": "4", "local_window_size": 2**70}),
    ("ML667", lambda s: s | {"scale": float("nan")}),
    ("ML667", lambda s: s | {"scale": "1"}),
    ("ML302", lambda s: s | {"local_window_size": 1.5}),
    ("ML317", lambda s: s | {"input": "x"}),
]


@pytest.mark.parametrize(("code", "changed"), BAD)
def test_what_does_not_fit_is_refused(
    code: str, changed: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    cache = Cache(Params(), [5, 2], [3, 4])
    with Graph("bad", input_types=[*cache.types(CPU), TensorType(F32, ["t", 4, 8])]) as graph:
        pages, lengths, table, most, offsets, layer, q = graph.inputs
        good: dict[str, Any] = {
            "kv_params": Params(), "input": q.tensor, "input_row_offsets": offsets.tensor,
            "kv_collection": Values(pages.buffer, lengths.tensor, table.tensor, most.tensor),
            "layer_idx": layer.tensor, "mask_variant": "0", "scale": 0.5,
        }  # fmt: skip
        kernels.flash_attention_ragged(**good)
        with pytest.raises((ValueError, TypeError), match=code):
            kernels.flash_attention_ragged(**changed(good))


@pytest.mark.parametrize(
    ("a", "b", "offsets"),
    [
        ([2, 4], [3, 1], [0, 5, 10]),
        ([2, 0, 4], [0, 3, 0], [0, 2, 5, 9]),
        ([0, 0], [1, 0], [0, 1, 1]),
        ([], [], [0]),
    ],
)
def test_merged_rows(
    place: DeviceRef, a: Sequence[int], b: Sequence[int], offsets: Sequence[int]
) -> None:
    rows = [_random(sum(each), 3) for each in (a, b)]
    starts = [np.cumsum([0, *each]).astype(np.uint32) for each in (a, b)]
    types = [TensorType(F32, ["a", 3], place), TensorType(F32, ["b", 3], place)]
    ends = [TensorType(U32, ["ends"], place)] * 2
    with Graph("merged", input_types=[*types, *ends]) as graph:
        x, y, x_ends, y_ends = (v.tensor for v in graph.inputs)
        graph.output(*kernels.merge_ragged_tensors(x, x_ends, y, y_ends))
    made, ends_made = (
        numpy(z) for z in session(place).load(graph)(*(at(z, place) for z in (*rows, *starts)))
    )
    wanted = [rows[n][starts[n][s] : starts[n][s + 1]] for s in range(len(a)) for n in (0, 1)]
    np.testing.assert_array_equal(made, np.concatenate([np.zeros((0, 3), np.float32), *wanted]))
    assert ends_made.tolist() == offsets


def test_places_are_filled(place: DeviceRef) -> None:
    types = [BufferType(F32, ["b", 5], place), TensorType(DType.int64, ["n", 2], place)]
    with Graph("fill", input_types=types) as graph:
        logits, places = graph.inputs[0].buffer, graph.inputs[1].tensor
        kernels.scatter_set_constant(logits, places, -7.5)
        graph.output()
        for bad, code in ((places[:, :1], "ML659"), (places[0], "ML659")):
            with pytest.raises(ValueError, match=code):
                kernels.scatter_set_constant(logits, bad, 1.0)
        with pytest.raises(ValueError, match="ML667"):
            kernels.scatter_set_constant(logits, places, "x")  # type: ignore[arg-type]
    wanted = _random(3, 5)
    held, rows = at(wanted, place), np.array([[0, 1], [2, 4], [2, 0], [0, 1]])
    session(place).load(graph)(held, at(rows, place))
    wanted[rows[:, 0], rows[:, 1]] = -7.5
    np.testing.assert_array_equal(numpy(held), wanted)


def test_gated_products(place: DeviceRef) -> None:
    types = [TensorType(F32, [rows, 6], place) for rows in ("rows", 4, 4)]
    with Graph("gated", input_types=types) as graph:
        a, b0, b1 = (v.tensor for v in graph.inputs)
        graph.output(kernels.swish_glu(a, b0, b1))
        with pytest.raises(ValueError, match="ML659"):
            kernels.swish_glu(a[0], b0, b1)
    x, gate, up = (_random(*shape) for shape in ((5, 6), (4, 6), (4, 6)))
    (y,) = session(place).load(graph)(*(at(each, place) for each in (x, gate, up)))
    product = x.astype(np.float64) @ gate.T
    wanted = product / (1 + np.exp(-product)) * (x @ up.T)
    np.testing.assert_allclose(numpy(y), wanted, rtol=1e-4, atol=1e-5)
