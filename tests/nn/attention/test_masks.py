"""Masks of attention beside loops over positions, and those of transformers and torch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from maxlab.errors import MaxlabError
from maxlab.nn.attention import (
    AttentionMask,
    AttentionMaskVariant,
    MHAMaskConfig,
    MHAMaskVariant,
    PositionalEncodingVariant,
    alibi_slopes,
    attention_mask,
    mask_config,
)

NO_POS = PositionalEncodingVariant.NO_POS
TENSOR = MHAMaskConfig(AttentionMaskVariant.TENSOR_MASK, NO_POS)
WINDOWED = {MHAMaskVariant.CHUNKED_CAUSAL_MASK, MHAMaskVariant.SLIDING_WINDOW_CAUSAL_MASK}


def sees(variant: MHAMaskVariant, query: int, key: int, window: int) -> bool:
    """The rule in words of single positions."""
    if variant is MHAMaskVariant.NULL_MASK:
        return True
    if variant is MHAMaskVariant.CHUNKED_CAUSAL_MASK:
        first = 0
        while first + window <= query:
            first += window
        return first <= key <= query
    if variant is MHAMaskVariant.SLIDING_WINDOW_CAUSAL_MASK:
        return key in [query - n for n in range(window)]
    return key <= query


def test_every_variant_for_every_pair_of_positions() -> None:
    for variant, queries, cached, window in itertools.product(
        MHAMaskVariant, (1, 2, 7), (0, 1, 4, 6), (1, 2, 3, 100)
    ):
        size = window if variant in WINDOWED else -1
        found = attention_mask(variant, queries, cached=cached, local_window_size=size)
        assert isinstance(found, AttentionMask)
        assert found.allowed.shape == (queries, cached + queries)
        assert found.allowed.dtype == np.bool_
        for row, key in np.ndindex(*found.allowed.shape):
            assert found.allowed[row, key] == sees(variant, cached + row, key, window)
        assert found.allowed.diagonal(cached).all()  # a query sees itself
        bias = found.bias(2)
        assert np.array_equal(np.isneginf(bias[1]), ~found.allowed)
        if variant is not MHAMaskVariant.CAUSAL_ALIBI_MASK:
            assert not bias[:, found.allowed].any()


def test_a_whole_prefill_and_steps_of_one_see_the_same() -> None:
    for variant in MHAMaskVariant:
        size = 3 if variant in WINDOWED else -1
        whole = attention_mask(variant, 9, local_window_size=size)
        for at in range(9):
            step = attention_mask(variant, 1, 9, cached=at, local_window_size=size)
            assert np.array_equal(step.allowed[0], whole.allowed[at])
            assert np.array_equal(step.bias(4)[:, 0], whole.bias(4)[:, at])


def test_keys_may_be_of_another_sequence() -> None:
    assert attention_mask(MHAMaskVariant.NULL_MASK, 2, 5).allowed.all()
    assert attention_mask(MHAMaskVariant.NULL_MASK, 2, 5).allowed.shape == (2, 5)


def test_arrays_say_which_keys_are_seen() -> None:
    bools = np.array([[True, False, True]])
    found = attention_mask(TENSOR, 1, 3, mask=bools)
    assert np.array_equal(found.allowed, bools)
    numbers = np.array([[0.5, -np.inf, -1.0]])
    found = attention_mask(TENSOR, 1, 3, mask=numbers)
    assert np.array_equal(found.allowed, bools)
    assert np.array_equal(found.bias(2), np.tile(numbers, (2, 1, 1)))


def test_numbers_name_the_masks_of_kernels() -> None:
    numbers = {variant.name: variant.value for variant in MHAMaskVariant}
    assert numbers == {
        "CAUSAL_MASK": "0",
        "CAUSAL_ALIBI_MASK": "1",
        "NULL_MASK": "2",
        "CHUNKED_CAUSAL_MASK": "3",
        "SLIDING_WINDOW_CAUSAL_MASK": "4",
    }
    assert [variant.config.variant for variant in MHAMaskVariant] == list(MHAMaskVariant)
    assert mask_config.MHAMaskVariant("4") is MHAMaskVariant.SLIDING_WINDOW_CAUSAL_MASK


CAUSAL = MHAMaskVariant.CAUSAL_MASK
SLIDING = MHAMaskVariant.SLIDING_WINDOW_CAUSAL_MASK
REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("ML693", (CAUSAL, 0), {}),
    ("ML693", (CAUSAL, 1.5), {}),
    ("ML693", (CAUSAL, True), {}),
    ("ML693", (CAUSAL, 2, 0), {}),
    ("ML693", (CAUSAL, 2), {"cached": -1}),
    ("ML693", (CAUSAL, 2), {"local_window_size": 4}),
    ("ML693", (SLIDING, 2), {}),
    ("ML693", (SLIDING, 2), {"local_window_size": 0}),
    ("ML693", (SLIDING, 2), {"local_window_size": "3"}),
    ("ML694", ("causal", 2), {}),
    ("ML694", (None, 2), {}),
    ("ML694", (CAUSAL, 2), {"mask": np.ones((2, 2), np.bool_)}),
    ("ML694", (TENSOR, 2), {}),
    ("ML694", (TENSOR, 2), {"mask": np.ones((2, 3), np.bool_)}),
    ("ML694", (TENSOR, 2), {"mask": np.ones((2, 2), np.int32)}),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(number: int) -> None:
    code, args, given = REFUSED[number]
    with pytest.raises(MaxlabError) as caught:
        attention_mask(*args, **given)
    assert caught.value.code == code


def test_configurations_that_no_kernel_has() -> None:
    with pytest.raises(MaxlabError, match="ML694"):
        _ = TENSOR.variant
    with pytest.raises(MaxlabError, match="ML694"):
        MHAMaskConfig("causal", NO_POS)  # type: ignore[arg-type]
    with pytest.raises(MaxlabError, match="ML693"):
        attention_mask(CAUSAL, 2).bias(0)


# ---------------------------------------------------------------- display
def test_the_drawing_says_what_rows_and_columns_are() -> None:
    mask = attention_mask(SLIDING, 3, cached=2, local_window_size=2)
    page = mask._repr_html_()
    assert page.count("<rect") == 15
    assert page.count(" sees key ") == mask.allowed.sum()
    assert "query 2 does not see key 3" in page
    assert "A row is a query" in page
    assert "a column is a key" in page
    assert "stroke-dasharray" in page  # the end of the cache
    assert "prefers-color-scheme: dark" in page
    assert str(mask).splitlines()[2:] == [".##..", "..##.", "...##"]


def test_a_big_mask_is_drawn_in_part() -> None:
    mask = attention_mask(CAUSAL, 100, cached=50)
    assert mask._repr_html_().count("<rect") == 32 * 64
    assert "The last of 100 × 150 are drawn" in mask._repr_html_()
    assert len(repr(mask).splitlines()) == 34


# ---------------------------------------------------------------- others
@pytest.mark.oracle
def test_windows_and_chunks_are_those_of_transformers() -> None:
    import torch
    from transformers import masking_utils as theirs

    for window, cached in itertools.product((1, 3, 5), (0, 4)):
        q, k = cached + torch.arange(6)[:, None], torch.arange(cached + 6)[None]
        padding = torch.zeros(1, dtype=torch.int64)  # tokens of padding before each sequence
        for variant, rule in (
            (SLIDING, theirs.sliding_window_causal_mask_function(window)),
            (
                MHAMaskVariant.CHUNKED_CAUSAL_MASK,
                theirs.chunked_causal_mask_function(window, padding),
            ),
        ):
            want: Any = rule(torch.tensor(0), torch.tensor(0), q, k)
            found = attention_mask(variant, 6, cached=cached, local_window_size=window)
            assert np.array_equal(found.allowed, want.numpy())


@pytest.mark.oracle
@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12, 71])
def test_slopes_are_those_of_bloom(heads: int) -> None:
    import torch
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    want = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1].numpy()
    assert np.allclose(alibi_slopes(heads), want, rtol=1e-6)
    assert len(alibi_slopes(heads)) == heads


@pytest.mark.oracle
def test_the_bias_is_what_torch_adds() -> None:
    import torch

    rng = np.random.default_rng(5)
    q, k, v = rng.standard_normal((3, 4, 6, 8)).astype(np.float32)
    for variant in MHAMaskVariant:
        size = 2 if variant in WINDOWED else -1
        bias = attention_mask(variant, 6, local_window_size=size).bias(4)
        want = torch.nn.functional.scaled_dot_product_attention(
            *map(torch.from_numpy, (q, k, v)), attn_mask=torch.from_numpy(bias)
        )
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(8) + bias
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        found = shares / shares.sum(-1, keepdims=True) @ v
        assert np.allclose(found, want.numpy(), atol=1e-5)
