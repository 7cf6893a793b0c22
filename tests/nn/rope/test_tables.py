"""The tables of rotary embeddings beside formulas in Python floats."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import Graph, TensorType, ops
from maxlab.nn import rotary_embedding as rope
from tests.nn.rope import formulas

Array = np.ndarray[Any, Any]

LLAMA3 = rope.Llama3RopeScalingParams(8.0, 1.0, 4.0, 64)
YARN = rope.YarnScalingParams(8.0, 32.0, 1.0, 512, False)
DEEPSEEK = rope.DeepseekYarnRopeScalingParams(40.0, 256, 32, 1, 0.7, 1.1)
LONG = rope.LongRoPEScalingParams([1.0, 1.1, 1.2, 1.5], [1.0, 4.0, 16.0, 64.0], 20, 160)


def tables(*layers: rope.RotaryEmbedding) -> list[Array]:
    """``freqs_cis_base()`` of each, computed by one model."""
    with Graph("tables", input_types=[]) as graph:
        graph.output(*(layer.freqs_cis_base() for layer in layers))
    return [y.to_numpy() for y in engine.InferenceSession().load(graph)()]


def test_every_variant_has_the_table_of_its_formula() -> None:
    size = (32, 4, 1e4, 50, 8)
    yarn_scale = 0.1 * math.log(8) + 1
    deepseek_scale = (0.07 * math.log(40) + 1) / (0.11 * math.log(40) + 1)
    long_scale = math.sqrt(1 + math.log(8) / math.log(20))
    cut = rope.YarnScalingParams(8.0, 32.0, 1.0, 512, True)
    plain = formulas.plain(8, 1e4)
    cases: list[tuple[rope.RotaryEmbedding, list[float], float]] = [
        (rope.RotaryEmbedding(*size), plain, 1),
        (rope.DynamicRotaryEmbedding(*size), plain, 1),
        (rope.Llama3RotaryEmbedding(*size), plain, 1),
        (
            rope.Llama3RotaryEmbedding(*size, scaling_params=LLAMA3),
            formulas.llama3(8, 1e4, 8, 1, 4, 64),
            1,
        ),
        (
            rope.Llama3RotaryEmbedding(*size, scaling_params=rope.LinearScalingParams(2.5)),
            [f / 2.5 for f in plain],
            1,
        ),
        (rope.YarnRotaryEmbedding(*size), plain, 1),
        (
            rope.YarnRotaryEmbedding(*size, scaling_params=YARN),
            formulas.yarn(8, 1e4, 8, 32, 1, 512, False),
            yarn_scale,
        ),
        (
            rope.YarnRotaryEmbedding(*size, scaling_params=cut),
            formulas.yarn(8, 1e4, 8, 32, 1, 512, True),
            yarn_scale,
        ),
        (
            rope.DeepseekYarnRotaryEmbedding(8, 4, 1e4, 50, scaling_params=DEEPSEEK),
            formulas.yarn(8, 1e4, 40, 32, 1, 256, True),
            deepseek_scale,
        ),
        (rope.LongRoPERotaryEmbedding(*size), plain, 1),
        (
            rope.LongRoPERotaryEmbedding(*size, scaling_params=LONG),
            [f / s for f, s in zip(plain, LONG.short_factor, strict=True)],
            long_scale,
        ),
    ]
    made = tables(*(layer for layer, _, _ in cases))
    for (layer, frequencies, scale), found in zip(cases, made, strict=True):
        rows = 50 if isinstance(layer, rope.DeepseekYarnRotaryEmbedding) else 100
        assert found.shape == (rows, 4, 2)
        assert found.dtype == np.float32
        want = formulas.table(frequencies, range(rows), scale)
        if layer is cases[-1][0]:  # stitched: from token 20 on by the long factors
            long = [f / s for f, s in zip(plain, LONG.long_factor, strict=True)]
            want[20:] = formulas.table(long, range(20, rows), scale)
        assert np.abs(found - want).max() < 1e-6, layer


def test_truncated_bounds_are_not_those_of_exact_ones() -> None:
    exact, cut = (
        rope.YarnRotaryEmbedding(
            64, 1, 1e4, 8, scaling_params=rope.YarnScalingParams(8.0, 32.0, 1.0, 512, truncate)
        ).inverse_frequencies()
        for truncate in (False, True)
    )
    assert not np.allclose(exact, cut, rtol=1e-3)


def test_late_positions_are_as_exact_as_early_ones() -> None:
    layer = rope.RotaryEmbedding(4, 1, 1e4, 70_000)
    (found,) = tables(layer)
    rows = [0, 1, 131_071, 139_999]
    assert np.abs(found[rows] - formulas.table(formulas.plain(4, 1e4), rows)).max() < 1e-6


def test_freqs_cis_has_cosine_and_sine_side_by_side() -> None:
    layer = rope.RotaryEmbedding(8, 2, 1e4, 6)
    with Graph("flat", input_types=[]) as graph:
        graph.output(layer.freqs_cis_base(), layer.freqs_cis)
    base, flat = engine.InferenceSession().load(graph)()
    assert flat.shape == (12, 4)
    assert np.array_equal(flat.to_numpy(), base.to_numpy().reshape(12, 4))


def test_one_layer_serves_two_graphs() -> None:
    layer = rope.RotaryEmbedding(8, 2, 1e4, 6)
    first, second = tables(layer), tables(layer)
    assert np.array_equal(first[0], second[0])


def constants(graph: Graph) -> list[Array]:
    """The arrays of the constants of ``graph`` that are tables."""
    values = [op.attrs["value"] for op in graph.function.ops if op.name == "mo.constant"]
    return [value.array for value in values if value.array.ndim == 3]


def test_a_run_computes_no_cosine() -> None:
    """A table of a long context takes a second; each step of a generation would wait for it."""
    layers = [
        rope.LongRoPERotaryEmbedding(32, 4, 1e4, 50, 8, scaling_params=LONG) for _ in range(2)
    ]
    queries = TensorType(DType.float32, ["tokens", 4, 8])
    graph = Graph("two", lambda x: layers[1](layers[0](x)), [queries])
    assert not {"mo.cos", "mo.sin"} & {op.name for op in graph.function.ops}
    one, other = constants(graph)
    assert np.shares_memory(one, other)  # equal tables are one, and no graph has a copy


def test_tables_of_layers_that_differ_are_not_shared() -> None:
    made = (
        rope.RotaryEmbedding(32, 4, 1e4, 50, 8),
        rope.RotaryEmbedding(32, 4, 1e4, 51, 8),
        rope.RotaryEmbedding(32, 4, 1e5, 50, 8),
    )
    with Graph("three", input_types=[]) as graph:
        graph.output(*(layer.freqs_cis for layer in made))
    found = constants(graph)
    assert len(found) == 3
    assert not any(np.shares_memory(a, b) for a, b in itertools.combinations(found, 2))


@pytest.mark.parametrize("flat", [False, True])
def test_a_given_table_is_used(flat: bool) -> None:
    given = np.arange(5 * 4, dtype=np.float32).reshape(5, 2, 2)
    array = given.reshape(5, 4) if flat else given
    for table in (array, array.tolist()):
        (found,) = tables(rope.RotaryEmbedding(8, 2, 1e4, 6, _freqs_cis=table))
        assert np.array_equal(found, given)


def test_a_given_table_may_be_a_value_of_the_graph() -> None:
    given = np.random.default_rng(0).random((5, 4), np.float32)
    with Graph("given", input_types=[TensorType(DType.float32, ["rows", 4])]) as graph:
        layer = rope.RotaryEmbedding(8, 2, 1e4, 6, _freqs_cis=graph.inputs[0].tensor)
        graph.output(layer.freqs_cis)
    (found,) = engine.InferenceSession().load(graph)(given)
    assert np.array_equal(found.to_numpy(), given)


SCALES: list[tuple[rope.RotaryEmbedding, float, float]] = [
    (rope.RotaryEmbedding(64, 4, 1e4, 8), 0.25, 1),
    (rope.YarnRotaryEmbedding(64, 4, 1e4, 8, scaling_params=YARN), 0.25, 1),
    (rope.LongRoPERotaryEmbedding(32, 4, 1e4, 8, scaling_params=LONG), 8**-0.5, 1),
    (
        rope.DeepseekYarnRotaryEmbedding(16, 4, 1e4, 8, scaling_params=DEEPSEEK),
        0.25 * (0.11 * math.log(40) + 1) ** 2,
        (0.11 * math.log(40) + 1) ** 2,
    ),
    (
        rope.DeepseekYarnRotaryEmbedding(16, 4, 1e4, 8, head_dim=64, scaling_params=DEEPSEEK),
        0.125 * (0.11 * math.log(40) + 1) ** 2,
        (0.11 * math.log(40) + 1) ** 2,
    ),
    (rope.DeepseekYarnRotaryEmbedding(16, 4, 1e4, 8), 0.25, 1),
]


@pytest.mark.parametrize("number", range(len(SCALES)))
def test_compute_scale(number: int) -> None:
    layer, alone, factor = SCALES[number]
    assert layer.compute_scale() == pytest.approx(alone, rel=1e-12)
    assert layer.compute_scale(0.5) == pytest.approx(0.5 * factor, rel=1e-12)


# ---------------------------------------------------------------- refusals
Making = Callable[[], object]
SIZE = (8, 2, 1e4, 6)
REFUSED: dict[str, tuple[str, Making]] = {
    "no dim": ("ML716", lambda: rope.RotaryEmbedding(0, 2, 1e4, 6)),
    "half a head": ("ML716", lambda: rope.RotaryEmbedding(8, 2.0, 1e4, 6)),  # type: ignore[arg-type]
    "heads above dims": ("ML716", lambda: rope.RotaryEmbedding(2, 4, 1e4, 6)),
    "no rows": ("ML716", lambda: rope.RotaryEmbedding(8, 2, 1e4, -6)),
    "a bool": ("ML716", lambda: rope.RotaryEmbedding(8, True, 1e4, 6)),
    "odd": ("ML688", lambda: rope.RotaryEmbedding(6, 2, 1e4, 6)),
    "a huge head": ("ML688", lambda: rope.RotaryEmbedding(10**400, 2, 1e4, 6)),
    "a huge table": ("ML688", lambda: rope.RotaryEmbedding(8, 2, 1e4, 10**400)),
    "a huge factor": ("ML689", lambda: rope.LinearScalingParams(10**400)),
    "a huge length": ("ML689", lambda: rope.Llama3RopeScalingParams(8.0, 1.0, 4.0, 10**400)),
    "theta 0": ("ML688", lambda: rope.RotaryEmbedding(8, 2, 0, 6)),
    "theta nan": ("ML688", lambda: rope.RotaryEmbedding(8, 2, math.nan, 6)),
    "theta text": ("ML688", lambda: rope.RotaryEmbedding(8, 2, "1e4", 6)),  # type: ignore[arg-type]
    "theta 1": ("ML688", lambda: rope.YarnRotaryEmbedding(8, 2, 1.0, 6, scaling_params=YARN)),
    "one pair": ("ML688", lambda: rope.DynamicRotaryEmbedding(4, 2, 1e4, 6)),
    "shrinking": ("ML689", lambda: rope.DynamicRotaryEmbedding(*SIZE, scaling_factor=0.5)),
    "no position": ("ML688", lambda: rope.DynamicRotaryEmbedding(*SIZE).maybe_update_freqs([])),
    "half a position": (
        "ML109",
        lambda: rope.DynamicRotaryEmbedding(*SIZE).maybe_update_freqs([0.5]),
    ),
    "params of another": (
        "ML689",
        lambda: rope.YarnRotaryEmbedding(*SIZE, scaling_params=LLAMA3),  # type: ignore[arg-type]
    ),
    "params as a dict": (
        "ML689",
        lambda: rope.LongRoPERotaryEmbedding(*SIZE, scaling_params={}),  # type: ignore[arg-type]
    ),
    "factors": ("ML690", lambda: rope.LongRoPERotaryEmbedding(*SIZE, scaling_params=LONG)),
    "factor 0": ("ML689", lambda: rope.LinearScalingParams(0)),
    "factor inf": ("ML689", lambda: rope.LinearScalingParams(math.inf)),
    "low above high": ("ML689", lambda: rope.Llama3RopeScalingParams(8.0, 4.0, 1.0, 64)),
    "low is high": ("ML689", lambda: rope.Llama3RopeScalingParams(8.0, 4.0, 4.0, 64)),
    "slow above fast": ("ML689", lambda: rope.YarnScalingParams(8.0, 1.0, 32.0, 64, True)),
    "truncate": ("ML689", lambda: rope.YarnScalingParams(8.0, 32.0, 1.0, 64, 1)),  # type: ignore[arg-type]
    "half a token": (
        "ML689",
        lambda: rope.YarnScalingParams(8.0, 32.0, 1.0, 64.5, True),  # type: ignore[arg-type]
    ),
    "mscale": (
        "ML689",
        lambda: rope.DeepseekYarnRopeScalingParams(40.0, 64, 32, 1, -1.0, 1.0),
    ),
    "uneven lists": ("ML689", lambda: rope.LongRoPEScalingParams([1.0], [1.0, 2.0], 64, 128)),
    "no list": ("ML689", lambda: rope.LongRoPEScalingParams(1.0, [1.0], 64, 128)),  # type: ignore[arg-type]
    "a bad factor": ("ML689", lambda: rope.LongRoPEScalingParams([1.0, 0.0], [1.0, 2.0], 64, 128)),
    "one token": ("ML689", lambda: rope.LongRoPEScalingParams([1.0], [1.0], 1, 128)),
    "no graph": ("ML313", lambda: rope.RotaryEmbedding(*SIZE).freqs_cis),
    "a table": ("ML692", lambda: tables(rope.RotaryEmbedding(*SIZE, _freqs_cis=np.ones((5, 3))))),
    "a flat table": ("ML692", lambda: tables(rope.RotaryEmbedding(*SIZE, _freqs_cis=[1.0]))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    code, make = REFUSED[name]
    with pytest.raises(MaxlabError) as caught:
        make()
    assert caught.value.code == code
    assert caught.value.fix


# ---------------------------------------------------------------- following the length
def dynamic_plain(dim: int, theta: float, n: int, original: int, factor: float) -> list[float]:
    n = max(n, original)
    base = theta * (factor * n / original - (factor - 1)) ** (dim / (dim - 2))
    return formulas.plain(dim, base)


def test_dynamic_frequencies_grow_stay_and_go_back() -> None:
    layer = rope.DynamicRotaryEmbedding(8, 1, 1e4, 16, scaling_factor=2.0)
    # (longest position, the length that frequencies are for afterwards)
    for position, length in [(3, 16), (15, 16), (16, 17), (40, 41), (20, 41), (15, 41), (14, 16)]:
        layer.maybe_update_freqs(np.array([[0, position]], np.int32))
        assert layer.max_seq_len_cached == length
        assert np.allclose(layer.inv_freq, dynamic_plain(8, 1e4, length, 16, 2.0), rtol=1e-12)
    layer.maybe_update_freqs([99])
    (found,) = tables(layer)
    assert np.abs(found - formulas.table(list(layer.inv_freq), range(100))).max() < 1e-6


def test_dynamic_frequencies_of_a_run_follow_its_positions() -> None:
    layer = rope.DynamicRotaryEmbedding(8, 1, 1e4, 16, scaling_factor=2.0)
    with Graph("dynamic", input_types=[TensorType(DType.int32, ["seq"])]) as graph:
        layer.maybe_update_freqs(graph.inputs[0].tensor)
        graph.output(layer.freqs_cis_base(), ops.neg(layer.freqs_cis))
    model = engine.InferenceSession().load(graph)
    for n in (1, 16, 17, 33, 70, 5):
        base, negative = (y.to_numpy() for y in model(np.arange(n, dtype=np.int32)))
        assert len(base) == max(32, n)
        want = formulas.table(dynamic_plain(8, 1e4, n, 16, 2.0), range(len(base)))
        assert np.abs(base - want).max() < 1e-6
        assert np.array_equal(-negative, base.reshape(len(base), 8))
    assert layer.max_seq_len_cached == 16  # a run leaves the layer as it was
    assert tables(layer)[0].shape == (32, 4, 2)


def test_dynamic_positions_of_a_graph_are_integers() -> None:
    layer = rope.DynamicRotaryEmbedding(8, 1, 1e4, 16)
    with Graph("g", input_types=[TensorType(DType.float32, ["seq"])]) as graph:
        with pytest.raises(MaxlabError, match="ML109"):
            layer.maybe_update_freqs(graph.inputs[0].tensor)
        graph.output(layer.freqs_cis)


# ---------------------------------------------------------------- display
def test_frequencies_are_shown_as_a_table() -> None:
    layer = rope.LongRoPERotaryEmbedding(8, 1, 1e4, 64, scaling_params=LONG)
    found = layer.frequencies
    rows = found.to_csv().splitlines()
    assert rows[0].split(",")[1] == "wavelength [tokens]"
    wave = [float(row.split(",")[1]) for row in rows[1:]]
    assert wave == pytest.approx([2 * math.pi / f for f in layer.inverse_frequencies()])
    later = [float(row.split(",")[4]) for row in rows[1:]]
    assert later == pytest.approx([1 / s for s in LONG.long_factor])
    page = layer._repr_html_()
    assert page.count("<tr>") == 5
    assert "prefers-color-scheme: dark" in page


def test_many_pairs_are_thinned_out_in_displays_alone() -> None:
    layer = rope.RotaryEmbedding(128, 1, 1e4, 64)
    assert layer._repr_html_().count("<tr>") == 17
    assert "16 of 64 pairs" in layer._repr_html_()
    assert len(layer.frequencies.to_csv().splitlines()) == 65
    shown = str(layer.frequencies).splitlines()
    assert shown[2].split()[0] == "0"
    assert shown[-1].split()[0] == "63"


def test_it_is_a_layer_without_weights() -> None:
    layer = rope.RotaryEmbedding(8, 2, 1e4, 6, interleaved=False)
    assert layer.state_dict() == {}
    assert isinstance(layer.frequencies, rope.Frequencies)
    assert repr(layer) == (
        "RotaryEmbedding(head_dim=4, n_heads=2, theta=10000, max_seq_len=6, interleaved=False)"
    )
