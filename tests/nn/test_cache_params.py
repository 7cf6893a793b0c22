"""The parameters of key-value caches: what they refuse, and the sizes that follow from them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError
from maxlab.nn.kv_cache import KVCacheParams, KVCacheStrategy

GIVEN: dict[str, Any] = {
    "dtype": DType.float32,
    "n_kv_heads": 8,
    "head_dim": 64,
    "page_size": 128,
}


def params(**changed: Any) -> KVCacheParams:
    """The parameters of a small cache, with some of them changed."""
    return KVCacheParams(**{**GIVEN, **changed})


@pytest.mark.parametrize(
    ("devices", "data_parallel", "is_mla", "heads"),
    [
        (1, 1, False, 8),
        (2, 1, False, 4),
        (8, 1, False, 1),
        (2, 2, False, 8),
        (4, 4, True, 8),
        # A latent vector is no head: each device of a group has all of it.
        (4, 1, True, 8),
    ],
)
def test_heads_are_divided_among_the_devices_of_a_group(
    devices: int, data_parallel: int, is_mla: bool, heads: int
) -> None:
    made = params(n_devices=devices, data_parallel_degree=data_parallel, is_mla=is_mla)
    assert made.n_kv_heads_per_device == heads


def test_a_value_given_for_the_heads_of_a_device_is_computed_anew() -> None:
    assert params(n_kv_heads_per_device=3).n_kv_heads_per_device == 8


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"n_kv_heads": 0}, "ML165", "n_kv_heads"),
        ({"n_kv_heads": -2}, "ML165", "n_kv_heads"),
        ({"head_dim": 0}, "ML165", "head_dim"),
        ({"n_devices": 0}, "ML165", "n_devices"),
        ({"data_parallel_degree": 0}, "ML165", "data_parallel_degree"),
        ({"page_size": 0}, "ML165", "page_size"),
        ({"page_size": None}, "ML165", "page_size"),
        (
            {"host_kvcache_swap_space_gb": -1.0, "enable_prefix_caching": True},
            "ML165",
            "host_kvcache_swap_space_gb",
        ),
        ({"host_kvcache_swap_space_gb": float("nan")}, "ML165", "host_kvcache_swap_space_gb"),
        ({"n_devices": 3}, "ML166", "divided"),
        ({"n_devices": 1, "data_parallel_degree": 2}, "ML166", "2"),
        ({"n_devices": 4, "data_parallel_degree": 2}, "ML166", "n_devices"),
        (
            {"enable_prefix_caching": True, "cache_strategy": KVCacheStrategy.MODEL_DEFAULT},
            "ML166",
            "enable_prefix_caching",
        ),
        (
            {
                "enable_kvcache_swapping_to_host": True,
                "cache_strategy": KVCacheStrategy.MODEL_DEFAULT,
            },
            "ML166",
            "enable_kvcache_swapping_to_host",
        ),
        (
            {"enable_kvcache_swapping_to_host": True, "host_kvcache_swap_space_gb": 1.0},
            "ML166",
            "enable_prefix_caching",
        ),
        (
            {"enable_kvcache_swapping_to_host": True, "enable_prefix_caching": True},
            "ML166",
            "host_kvcache_swap_space_gb",
        ),
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        params(**changed)
    assert (caught.value.code, isinstance(caught.value, ValueError)) == (code, True)
    assert said in caught.value.what
    assert caught.value.fix


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dtype", "float32"),
        ("dtype", np.float32),
        ("n_kv_heads", 8.0),
        ("n_kv_heads", True),
        ("head_dim", "64"),
        ("page_size", 128.0),
        ("n_devices", None),
        ("enable_prefix_caching", 1),
        ("enable_kvcache_swapping_to_host", None),
        ("host_kvcache_swap_space_gb", "1"),
        ("is_mla", 0),
        ("cache_strategy", "continuous"),
        ("cache_strategy", None),
    ],
)
def test_a_value_of_another_type_is_refused(field: str, value: object) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        params(**{field: value})
    assert caught.value.code == "ML167"
    assert field in caught.value.what


def test_a_strategy_may_be_given_by_its_value() -> None:
    assert params(cache_strategy="paged").cache_strategy is KVCacheStrategy.PAGED


def test_a_cache_that_is_not_paged_needs_no_page_size() -> None:
    made = params(cache_strategy=KVCacheStrategy.MODEL_DEFAULT, page_size=None)
    assert made.page_size is None
    with pytest.raises(ArgumentError) as caught:
        made.shape_per_block(2)
    assert caught.value.code == "ML165"


@pytest.mark.parametrize("page_size", [1, 4, 100, 128])
@pytest.mark.parametrize(
    ("devices", "data_parallel", "is_mla"), [(1, 1, False), (2, 1, False), (2, 2, True)]
)
def test_the_sizes_are_those_of_an_array(
    page_size: int, devices: int, data_parallel: int, is_mla: bool
) -> None:
    made = params(
        page_size=page_size,
        n_devices=devices,
        data_parallel_degree=data_parallel,
        is_mla=is_mla,
        dtype=DType.bfloat16,
    )
    shape = made.shape_per_block(3)
    assert shape == (1 if is_mla else 2, 3, page_size, made.n_kv_heads_per_device, 64)
    block = np.zeros(shape, np.float16)  # two bytes each, as bfloat16
    assert made.bytes_per_block(3) == block.nbytes
    assert made.bytes_per_token(3) * page_size == block.nbytes


@pytest.mark.parametrize("layers", [0, -1, 1.0, True, None])
def test_a_cache_has_layers(layers: Any) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        params().bytes_per_token(layers)


@pytest.mark.parametrize(
    ("dtype", "short"),
    [(DType.bfloat16, "bf16"), (DType.float32, "f32"), (DType.float8_e4m3fn, "f32")],
)
def test_a_dtype_has_a_short_name(dtype: DType, short: str) -> None:
    assert params(dtype=dtype).dtype_shorthand == short


def test_the_dims_of_a_static_cache_have_names() -> None:
    names = ("num_layers", "batch_size", "seq_len", "n_kv_heads", "head_dim")
    assert params().static_cache_shape == names


def test_a_copy_for_one_device_of_data_parallelism() -> None:
    made = params(n_devices=4, data_parallel_degree=4, enable_prefix_caching=True)
    copy = made.copy_as_dp_1()
    assert (copy.n_devices, copy.data_parallel_degree) == (1, 1)
    assert dataclasses.replace(copy, n_devices=4, data_parallel_degree=4) == made
    assert params(n_devices=2).copy_as_dp_1() == params(n_devices=2)


def test_a_copy_is_refused_when_the_devices_do_not_divide() -> None:
    made = params(n_devices=4, data_parallel_degree=4)
    made.n_devices = 6
    with pytest.raises(ArgumentError) as caught:
        made.copy_as_dp_1()
    assert caught.value.code == "ML166"


@pytest.mark.parametrize("strategy", KVCacheStrategy)
def test_a_strategy_names_its_kernels(strategy: KVCacheStrategy) -> None:
    assert strategy.kernel_substring() == strategy.value == str(strategy)
    assert strategy.uses_opaque()
