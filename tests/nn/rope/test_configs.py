"""Rotary embeddings of configs: what is chosen, and what is refused."""

from __future__ import annotations

import contextlib
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from maxlab.errors import MaxlabError
from maxlab.nn import rotary_embedding as rope

BASE: dict[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0] * 8,
    "long_factor": [2.0] * 8,
    "original_max_position_embeddings": 64,
}


def of(scaling: Any = None, **more: Any) -> rope.RotaryEmbedding:
    return rope.rotary_embedding_of({**BASE, "rope_scaling": scaling, **more})


def test_a_config_without_scaling() -> None:
    layer = of()
    assert type(layer) is rope.RotaryEmbedding
    assert repr(layer) == (
        "RotaryEmbedding(head_dim=16, n_heads=4, theta=10000, max_seq_len=256, interleaved=False)"
    )
    assert of(head_dim=32).head_dim == 32
    assert rope.rotary_embedding_of(SimpleNamespace(**BASE), 8, True).max_seq_len == 8
    assert rope.rotary_embedding_of(BASE, 8, True).interleaved


def test_the_newer_name_comes_with_the_base() -> None:
    layer = rope.rotary_embedding_of(
        {**BASE, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
    )
    assert layer.theta == 5e5


def test_a_description_for_each_type_of_layer() -> None:
    both = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    config = {**BASE, "rope_parameters": both}
    full = rope.rotary_embedding_of(config, layer_type="full_attention")
    near = rope.rotary_embedding_of(config, layer_type="sliding_attention")
    assert (full.theta, near.theta) == (1e6, 1e4)
    assert isinstance(full, rope.Llama3RotaryEmbedding)
    with pytest.raises(MaxlabError, match="full_attention, sliding_attention"):
        rope.rotary_embedding_of(config)


def test_older_names_of_types() -> None:
    assert type(of({"type": "mrope", "mrope_section": [2, 3, 3]})) is rope.RotaryEmbedding
    assert isinstance(of({**LONG, "rope_type": "su"}), rope.LongRoPERotaryEmbedding)


def test_lengths_make_the_factor_where_there_is_none() -> None:
    long = of(LONG)
    assert isinstance(long, rope.LongRoPERotaryEmbedding)
    assert long.scaling_params is not None
    assert long.scaling_params.max_position_embeddings == 256
    given = of({**LONG, "factor": 2.0, "attention_factor": math.sqrt(1 + math.log(2, 64))})
    assert isinstance(given, rope.LongRoPERotaryEmbedding)
    assert given.scaling_params is not None
    assert given.scaling_params.max_position_embeddings == 128
    short = {key: value for key, value in YARN.items() if key != "factor"}
    assert np.array_equal(of(short).inverse_frequencies(), of(YARN).inverse_frequencies())


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ({"rope_type": "proportional"}, {}, "ML689"),
    ({"rope_type": ["yarn"]}, {}, "ML689"),
    ("yarn", {}, "ML689"),
    ({"rope_type": "linear"}, {}, "ML689"),
    ({"rope_type": "linear", "factor": "2"}, {}, "ML689"),
    ({"rope_type": "dynamic", "factor": 0.5}, {}, "ML689"),
    ({"rope_type": "llama3", "factor": 8.0}, {}, "ML689"),
    ({**YARN, "factor": "4"}, {}, "ML689"),
    ({**YARN, "original_max_position_embeddings": 0}, {}, "ML689"),
    ({**YARN, "original_max_position_embeddings": "64"}, {}, "ML689"),
    ({**YARN, "attention_factor": 3.0}, {}, "ML689"),
    ({**YARN, "attention_factor": "3"}, {}, "ML689"),
    ({**YARN, "mscale": 2.0, "mscale_all_dim": 1.0}, {}, "ML689"),
    ({**YARN, "truncate": False}, {"qk_rope_head_dim": 8}, "ML689"),
    ({**YARN, "attention_factor": 3.0}, {"qk_rope_head_dim": 8}, "ML689"),
    (YARN, {"qk_rope_head_dim": "8"}, "ML689"),
    (YARN, {"qk_rope_head_dim": 8, "qk_nope_head_dim": "8"}, "ML689"),
    ({**LONG, "factor": 1.01}, {}, "ML689"),
    ({**LONG, "long_factor": None}, {}, "ML689"),
    ({**LONG, "long_factor": [1.0], "short_factor": [1.0]}, {}, "ML690"),
    ({"rope_type": "default", "partial_rotary_factor": 0.5}, {}, "ML689"),
    (None, {"partial_rotary_factor": 0.25}, "ML689"),
    ({"rope_type": "default", "mrope_interleaved": True}, {}, "ML689"),
    (None, {"max_position_embeddings": None}, "ML689"),
    (None, {"hidden_size": None}, "ML689"),
    (None, {"num_attention_heads": "4"}, "ML716"),
    (None, {"rope_theta": "10000"}, "ML688"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(number: int) -> None:
    scaling, more, code = REFUSED[number]
    with pytest.raises(MaxlabError) as caught:
        of(scaling, **more)
    assert caught.value.code == code, caught.value
    assert caught.value.fix


ALL = {
    **YARN,
    **LONG,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "beta_fast": 32,
    "beta_slow": 1,
    "attention_factor": None,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "truncate": True,
    "partial_rotary_factor": 1.0,
}
KINDS = ["default", "linear", "dynamic", "llama3", "yarn", "longrope"]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 300),
    st.floats(),
    st.sampled_from(["", "8", [], [1.0] * 8, {}, {"a": 1}, "yarn", 10**400]),
)


@settings(max_examples=80, deadline=None)
@drawn(
    st.sampled_from(KINDS),
    st.sampled_from([*ALL, *BASE, "qk_rope_head_dim", "rope_theta"]),
    VALUES,
    st.booleans(),
)
def test_whatever_stands_in_a_config_is_read_or_refused(
    kind: str, name: str, value: Any, deepseek: bool
) -> None:
    scaling = {**ALL, "rope_type": kind}
    config: dict[str, Any] = {**BASE, **({"qk_rope_head_dim": 8} if deepseek else {})}
    (scaling if name in ALL else config)[name] = value
    with contextlib.suppress(MaxlabError):
        found = rope.rotary_embedding_of({**config, "rope_scaling": scaling})
        assert np.isfinite(found.inverse_frequencies()).all()
        assert found.compute_scale() > 0
        assert found.frequencies.table()
