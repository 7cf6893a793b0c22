"""Every function of `maxlab.nn.kernels` with arguments that do not fit: a typed error, a graph as
it was, and a cache with the bytes that it had."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from maxlab.engine import InferenceSession, Model
from maxlab.errors import MaxlabError
from maxlab.nn import kernels
from tests.nn.kernels.caches import Array, Cache, Params
from tests.nn.kernels.calls import CALLS, called, misfits, setting, swept

FITTING = {
    "cross_attention_ragged(q_max_seq_len)": "a bound that rows do not need may be of any size",
    "flash_attention_ragged_gpu(max_seq_len)": "the same",
    "flash_attention_ragged_gpu(input_row_offsets)": "it says how many sequences there are",
    "flare_mla_decompress_k_cache(weight)": "it says how much of a vector is used",
    "grouped_matmul_ragged(weight)": "there may be more experts than are chosen",
    "matmul_k_cache_ragged_scaled_float8(input_scale)": "scales may have a padding",
    "matmul_static_scaled_float8(input_scale)": "one number in any number of dims",
    "matmul_static_scaled_float8(weight_scale)": "the same",
    "matmul_static_scaled_float8(weight)": "a product of any number of columns",
    "quantize_static_scaled_float8(scale)": "one number in any number of dims",
    "quantize_static_scaled_float8(x)": "numbers of any shape",
    "quantize_dynamic_scaled_float8(input)": "a matrix of any sizes",
    "batched_quantize_dynamic_scaled_float8(input)": "matrices of any sizes",
    "normalize_e4m3fn_to_e4m3fnuz(weight)": "numbers of any shape",
    "normalize_e4m3fn_to_e4m3fnuz(weight_scale)": "the same",
    "convert_weights_to_fp8_fnuz_if_needed(weight)": "nothing is done with it but on some GPUs",
    "convert_weights_to_fp8_fnuz_if_needed(weight_scale)": "the same",
    "moe_create_indices(topk_ids)": "a list of any length",
    "swish_glu(a)": "operands are promoted, and products have any number of rows",
    "swish_glu(b0)": "operands are promoted",
    "swish_glu(b1)": "the same",
    "topk_fused_sampling(logits)": "a vocabulary of any size",
    "scatter_set_constant(indices)": "any number of places",
    "fused_qk_ragged_rope(freqs_cis)": "a table of any number of positions",
    "apply_penalties_to_logits(frequency_data)": "any number of counts",
}
"""What may be another tensor than that of the good call, and why."""

IN_A_RUN = "one row more"
"""How many rows a batch has is in its offsets, which a run alone knows."""


def test_every_function_has_a_call() -> None:
    assert set(kernels.__all__) - set(CALLS) == {"needs_fp8_fnuz_conversion"}  # no arguments


@pytest.mark.parametrize("name", CALLS)
def test_whatever_is_passed_gives_a_result_or_a_typed_error(name: str) -> None:
    assert [str(finding) for finding in swept(name)] == []


@pytest.mark.parametrize("name", CALLS)
def test_tensors_of_other_ranks_dtypes_and_sizes_are_refused(name: str) -> None:
    accepted = set()
    for key, label, error in misfits(name):
        if error is None:
            if label != IN_A_RUN:
                accepted.add(f"{name}({key})")
        else:
            assert isinstance(error, MaxlabError), (key, label)
            assert isinstance(error, ValueError), (key, label)
    assert accepted - set(FITTING) == set()


def test_a_function_that_fails_late_leaves_the_graph_as_it_was() -> None:
    """The keys of the first function are right, and its values have the wrong size."""
    s = setting("unfused_qkv_ragged_matmul_gguf_quantized")
    with s.graph as graph:
        good = CALLS["unfused_qkv_ragged_matmul_gguf_quantized"](s)
        before = len(graph.function.ops)
        wrong = {**good, "layer_idx": good["input_row_offsets"]}
        with pytest.raises(ValueError, match="ML659"):
            called("unfused_qkv_ragged_matmul_gguf_quantized", wrong)
        assert len(graph.function.ops) == before


# ---------------------------------------------------------------- numbers that a run brings
def _unassigned(cache: Cache) -> None:
    cache.table[1, 0] = len(cache.blocks)


def _far(cache: Cache) -> None:
    cache.table[:] = 2**32 - 1


def _beyond_the_table(cache: Cache) -> None:
    cache.lengths[0] = cache.table.shape[1] * 4


def _longest(cache: Cache) -> None:
    cache.lengths[1] = 2**32 - 1


def _late(cache: Cache) -> None:
    cache.offsets[0] = 1


def _many(cache: Cache) -> None:
    cache.offsets[-1] += 1


def _few(cache: Cache) -> None:
    cache.offsets[-1] -= 1


def _backwards(cache: Cache) -> None:
    cache.offsets[:] = cache.offsets[::-1].copy()


BROKEN: list[Callable[[Cache], None]] = [
    _unassigned, _far, _beyond_the_table, _longest, _late, _few, _backwards,
]  # fmt: skip

PAGED = sorted(set(CALLS) - {"flare_mla_prefill_plan", "kv_cache_get_max_seq_len"})


def _paged(name: str) -> bool:
    s = setting(name)
    with s.graph:
        return "kv_collection" in CALLS[name](s)


@pytest.mark.parametrize("name", [name for name in PAGED if _paged(name)])
def test_runs(name: str) -> None:
    """A run of numbers that fit has no NaN of a free page in its results; one of numbers that do
    not fit is an error, and writes nothing."""
    s = setting(name)
    with s.graph as graph:
        made = called(name, CALLS[name](s))
        graph.output(*(made if isinstance(made, tuple) else () if made is None else (made,)))
    model = InferenceSession().load(graph, weights_registry=s.weights)
    cache = _filled(s.params)
    before = cache.blocks.copy()
    for found in _run(model, cache, 1):
        assert np.isfinite(found).all()
    assert (np.isnan(cache.blocks) == np.isnan(before)).all(), "free pages stay as they were"
    changes = not np.array_equal(cache.blocks, before, equal_nan=True)
    for broken in BROKEN + [_many] * changes:
        cache = _filled(s.params)
        broken(cache)
        _refused(model, cache, 1, broken.__name__)
    if name != "kv_cache_ragged_radd":  # its layer is not a number of the run
        for layer in (2, 2**32 - 1):
            _refused(model, _filled(s.params), layer, f"layer {layer}")


def _filled(params: Params) -> Cache:
    """A cache with keys and values of all tokens, and NaN elsewhere."""
    cache = Cache(params, [5, 2], [3, 4])
    rng = np.random.default_rng(4)
    for layer in range(cache.layers):
        for part in range(cache.blocks.shape[1]):
            shape = (cache.tokens, *cache.blocks.shape[4:])
            cache.stored(layer, part, rng.standard_normal(shape).astype(np.float32))
    return cache


def _refused(model: Model, cache: Cache, layer: int, why: str) -> None:
    before = cache.blocks.tobytes()
    try:
        _run(model, cache, layer)
    except MaxlabError as error:
        code = error.code
    else:
        code = "no error"
    assert code == "ML652", why
    assert cache.blocks.tobytes() == before, why


def _run(model: Model, cache: Cache, layer: int) -> list[Array]:
    limits = np.array([[4, 8]], np.uint32)
    numbers = (cache.lengths, cache.table, limits, cache.offsets, np.array(layer, np.uint32))
    others = (np.zeros((2, 9), np.float32), np.zeros((3, 2), np.int32))
    found = model(cache.blocks, *numbers, *others)
    return [each.to_numpy() for each in found]
