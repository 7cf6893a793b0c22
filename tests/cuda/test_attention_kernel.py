"""Attention by hand-written CUDA, on the simulator against the plain softmax in float64."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.driver.sim import SimModule
from tests.cuda.device_text import (
    ARCHITECTURES,
    DTYPES,
    compile_by_nvrtc,
    compile_for_devices,
    module,
    stored,
)

Array = np.ndarray[Any, Any]

HEADERS = ("prelude.cuh", "tiles.cuh", "attention.cuh", "attention_mma.cuh")
MMA, DECODE = "mx_attention_mma", "mx_attention_decode"
PLAIN, CAUSAL, MASKED = range(3)


@dataclass(frozen=True)
class Template:
    """A template with its tile.

    Attributes:
        shared: The formula of its header, in bytes.
        cheaper: Whether a template for tensor cores is told how to make scores that nothing hides.
    """

    function: str
    tile: str
    dtype: str
    head: int
    threads: int
    shared: int
    cheaper: bool = True

    @property
    def name(self) -> str:
        """What its kernel is called."""
        return f"{self.tile}_{self.dtype}"

    def text(self, literal: bool = False) -> str:
        """Its kernel; ``counts`` sees how often each element is stored.

        With ``literal`` it is as generated kernels are: for one layout, size of heads and mask.
        """
        rows = [str(self.head)] * 3 if literal else [f"{x}_row" for x in "qkv"]
        columns = ["1"] * 3 if literal else [f"{x}_col" for x in "qkv"]
        (q_row, k_row, v_row), (q_col, k_col, v_col) = rows, columns
        strides = ", ".join(
            f"i64 {x}_at, i64 {x}_batch, i64 {x}_head, i64 {x}_row, i64 {x}_col" for x in "qkv"
        )
        t = stored(self.dtype)
        masked = f"(mode == {MASKED} ? mask[query * tk + key] : 0.0f)"
        scale, made, cheaper = "", f"raw * scale + {masked}", ""
        dims = f"{self.head}, {self.head}" if literal else "dim, dim_v"
        given, fixed = ("", f"constexpr int mode = {CAUSAL};") if literal else ("mode", "")
        own = ", own" if self.function == DECODE else ""
        if self.function == MMA:
            scale, made = " scale,", f"raw + {masked} / scale"
            cheaper = f"[=](i64, i64, i64 query, i64 key, f32 raw) {{ return {made}; }},"
            if not self.cheaper:
                cheaper = "mx_as_score(),"
        return f"""
extern "C" __global__ void __launch_bounds__({self.tile}::THREADS, {self.tile}::BLOCKS)
    {self.name}(
    f32 *o, i32 *counts, const {t} *q, const {t} *k, const {t} *v, const f32 *mask, {strides},
    i64 batch, i64 heads, i64 group, i64 tq, i64 tk, i64 dim, i64 dim_v, i32 {given}, i64 offset,
    f32 scale, u8 *own) {{
  {fixed}
  MX_DYN_SHARED(f32, shared);
  {self.function}<{self.tile}, {self.dtype}>(
      shared, [=](i64 b, i64 h) {{ return q + q_at + b * q_batch + h * q_head; }}, {q_row}, {q_col},
      [=](i64 b, i64 h) {{ return k + k_at + b * k_batch + h / group * k_head; }}, {k_row}, {k_col},
      [=](i64 b, i64 h) {{ return v + v_at + b * v_batch + h / group * v_head; }}, {v_row}, {v_col},
      batch, heads, tq, tk, {dims},{scale}
      [=](i64, i64, i64 query, i64 key, f32 raw) {{
        if (mode == {CAUSAL} && key > query + offset) return -MX_INFINITY;
        return {made};
      }},
      {cheaper}
      [=](i64, i64, i64 query) {{ return mode == {CAUSAL} ? query + offset + 1 : tk; }},
      [=](i64 b, i64 h, i64 query, i64 d, f32 value) {{
        const i64 at = ((b * heads + h) * tq + query) * dim_v + d;
        o[at] = value;
        counts[at] += 1;
      }}{own});
}}
"""


def tiled(tile: str, queries: int, keys: int, head: int, threads: int, dtype: str) -> Template:
    """`mx_attention` with blocks of queries x keys."""
    floats = queries * (head + 4) + keys * (2 * head + 4) + keys * (queries + 4)
    return Template("mx_attention", f"mx_attention_{tile}", dtype, head, threads, 4 * floats)


def on_tensor_cores(
    tile: str, queries: int, keys: int, head: int, threads: int, dtype: str, *, cheaper: bool = True
) -> Template:
    """`mx_attention_mma` with two stages of keys and values."""
    chunks = 2
    while 8 * chunks < head:
        chunks *= 2
    panels = 2 * 8 * chunks * (queries + 2 * 2 * keys)
    shared = max(panels, 4 * threads // 2 * (head + 8))
    name = f"mx_mma_attention_{tile}"
    return Template(MMA, name, dtype, head, threads, shared, cheaper)


def decode(head: int, dtype: str) -> Template:
    """`mx_attention_decode` with 8 warps."""
    rows = 8 * (32 // min(32, head // 4))
    floats = 8 * 32 + head + rows * head + 2 * 8 + 1
    return Template(DECODE, f"mx_decode_{head}", dtype, head, 256, 4 * floats)


TEMPLATES = [
    tiled("16", 64, 64, 16, 128, "f32"),
    tiled("32", 64, 64, 32, 128, "f32"),
    tiled("64", 128, 128, 64, 256, "f32"),
    tiled("64", 128, 128, 64, 256, "mx_f16"),
    tiled("128", 128, 64, 128, 256, "f32"),
    tiled("128", 128, 64, 128, 256, "mx_bf16"),
    tiled("256", 32, 32, 256, 128, "f32"),
    tiled("64_few", 64, 64, 64, 128, "f32"),
    tiled("128_few", 64, 32, 128, 128, "f32"),
    tiled("32_short", 16, 32, 32, 64, "f32"),
    tiled("64_short", 16, 32, 64, 64, "mx_bf16"),
    tiled("128_short", 16, 32, 128, 64, "f32"),
    on_tensor_cores("32", 128, 64, 32, 128, "mx_bf16"),
    on_tensor_cores("64", 128, 64, 64, 128, "mx_bf16"),
    on_tensor_cores("64", 128, 64, 64, 128, "mx_f16", cheaper=False),
    on_tensor_cores("128", 128, 32, 128, 128, "mx_bf16"),
    on_tensor_cores("256", 64, 32, 256, 128, "mx_f16"),
    on_tensor_cores("64_few", 64, 64, 64, 128, "mx_f16"),
    on_tensor_cores("128_few", 64, 64, 128, 128, "mx_bf16"),
    on_tensor_cores("32_short", 16, 64, 32, 32, "mx_f16"),
    on_tensor_cores("64_short", 16, 64, 64, 32, "mx_bf16", cheaper=False),
    on_tensor_cores("128_short", 16, 32, 128, 32, "mx_bf16"),
    decode(32, "f32"),
    decode(64, "f32"),
    decode(64, "mx_f16"),
    decode(128, "mx_bf16"),
    decode(256, "f32"),
]
each_template = pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t.name)


@functools.cache
def compiled(check: bool) -> SimModule:
    """All kernels of this file in one module."""
    return module("".join(t.text() for t in TEMPLATES), HEADERS, check=check)


@dataclass
class Heads:
    """A tensor ``[batch, heads, tokens, head size]`` somewhere in an array, with its strides."""

    array: Array
    strides: list[int]
    place: Array

    @property
    def values(self) -> Array:
        """What it holds, in float64."""
        return self.array[self.place].astype(np.float64)


def heads_of(
    rng: np.random.Generator, shape: tuple[int, int, int, int], layout: str, dtype: str
) -> Heads:
    """Random heads whose axes lie in memory in the order of ``layout``, the last one contiguous.

    A ``+`` begins at an odd place, ``*`` leaves a gap behind every element.
    """
    order = [layout.index(axis) for axis in "bhtd"]
    step = 2 if "*" in layout else 1
    offset = 1 if "+" in layout else 0
    extents = [max(shape["bhtd".index(axis)], 1) for axis in layout if axis in "bhtd"]
    sizes = [int(np.prod(extents[n + 1 :])) * step for n in range(4)]
    strides = [sizes[n] for n in order]
    array = rng.standard_normal(offset + extents[0] * sizes[0] + 1).astype(np.float32)
    index = np.indices(shape).reshape(4, -1)
    place = (offset + np.array(strides) @ index).reshape(shape)
    return Heads(array.astype(DTYPES[dtype]), [offset, *strides], place)


def plain(q: Array, k: Array, v: Array, group: int, mode: int, offset: int, mask: Array) -> Array:
    """Softmax attention in float64; rows without any finite score are NaN, as 0/0 is."""
    tq, tk = q.shape[2], k.shape[2]
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * np.float32(q.shape[3] ** -0.5)
    if mode == CAUSAL:
        hidden = np.arange(tk) > np.arange(tq)[:, None] + offset
        scores[..., hidden] = -np.inf
    if mode == MASKED:
        scores = scores + mask
    if tk == 0:
        return np.zeros((*q.shape[:3], v.shape[3]))
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        result: Array = weights / weights.sum(-1, keepdims=True) @ v
    return result


def run(
    template: Template,
    tq: int,
    tk: int,
    *,
    batch: int = 1,
    heads: int = 1,
    group: int = 1,
    cut: tuple[int, int] = (0, 0),
    layout: str = "bhtd",
    mode: int = PLAIN,
    offset: int = 0,
    mask: Array | None = None,
    grid: int = 0,
    parts: int = 1,
    check: bool = False,
    edit: Any = None,
) -> tuple[Array, Array]:
    """What the kernel made and what it should have; every element is stored once."""
    dim, dim_v = template.head - cut[0], template.head - cut[1]
    rng = np.random.default_rng(tq * 1000 + tk)
    q = heads_of(rng, (batch, heads, tq, dim), layout, template.dtype)
    k = heads_of(rng, (batch, heads // group, tk, dim), layout, template.dtype)
    v = heads_of(rng, (batch, heads // group, tk, dim_v), layout, template.dtype)
    mask = np.zeros((tq, tk), np.float32) if mask is None else mask
    want = plain(q.values, k.values, v.values, group, mode, offset, mask)
    if edit is not None:
        edit(q, k, v)
    o = np.full((batch, heads, tq, dim_v), 7, np.float32)
    counts = np.zeros(o.shape, np.int32)
    arrays = [x.array if template.dtype == "f32" else x.array.view(np.uint16) for x in (q, k, v)]
    arguments: list[Any] = [o, counts, *arrays, mask, *q.strides, *k.strides, *v.strides]
    arguments += [batch, heads, group, tq, tk, dim, dim_v, mode, offset, float(dim**-0.5)]
    queries = batch * heads * tq
    own = np.zeros(8 * queries + 4 * queries * parts * (2 + template.head) + 8, np.uint8)
    blocks = grid or max(1, batch * heads)
    for _ in range(
        1 if parts == 1 else 2
    ):  # the second launch finds the counters as the first left them
        counts[:] = 0
        reports = compiled(check).launch(
            template.name, (blocks, parts), template.threads, [*arguments, own], template.shared
        )
    assert not own[: 8 * queries].any()
    assert not reports, "\n".join(map(str, reports))
    assert (counts == 1).all()
    return o, want


ROUNDED = {"mx_bf16": 2.0**-9, "mx_f16": 2.0**-12}
"""The most that rounding to 16 bits changes a weight, of itself."""


def close(template: Template, made: tuple[Array, Array]) -> None:
    """Equal, but for sums of float32 and, on tensor cores, weights that are rounded to 16 bits.

    Values are those of a normal distribution, of which the largest here is below 5.
    """
    atol = 2e-6
    if template.function == MMA:
        atol += 5 * ROUNDED[template.dtype]
    np.testing.assert_allclose(*made, rtol=2e-5, atol=atol)


@each_template
@pytest.mark.parametrize(("tq", "tk"), [(1, 1), (1, 300), (5, 70), (67, 33), (16, 16)], ids=str)
def test_attention(template: Template, tq: int, tk: int) -> None:
    close(template, run(template, tq, tk, batch=2, heads=2))


@each_template
@pytest.mark.parametrize("cut", [(3, 5), (4, 8), (8, 0), (0, 13)], ids=str)
def test_heads_smaller_than_the_tile(template: Template, cut: tuple[int, int]) -> None:
    close(template, run(template, 6, 45, heads=3, cut=cut, layout="bthd"))


@each_template
@pytest.mark.parametrize("layout", ["bthd", "bthd+", "bhdt", "tbhd*", "dbth"])
def test_every_layout(template: Template, layout: str) -> None:
    close(template, run(template, 9, 37, batch=2, heads=2, layout=layout))


@each_template
def test_query_heads_that_share_keys(template: Template) -> None:
    close(template, run(template, 4, 40, batch=2, heads=6, group=3))


@each_template
@pytest.mark.parametrize(
    ("tq", "tk", "offset"), [(70, 70, 0), (20, 90, 70), (3, 75, 40), (40, 25, -15)], ids=str
)
def test_causal(template: Template, tq: int, tk: int, offset: int) -> None:
    """With fewer keys than queries the first queries see none: their rows are NaN."""
    made, want = run(template, tq, tk, heads=2, mode=CAUSAL, offset=offset)
    assert np.isnan(want).any() == (offset < 0)
    close(template, (made, want))


@each_template
def test_keys_that_no_query_may_see_are_not_read(template: Template) -> None:
    def edit(q: Heads, k: Heads, v: Heads) -> None:
        del q
        for x in (k, v):
            x.array[x.place[:, :, 8 + 30 :]] = np.nan

    close(template, run(template, 8, 90, heads=2, mode=CAUSAL, offset=30, edit=edit))


@each_template
def test_rows_that_see_nothing_at_first_or_ever(template: Template) -> None:
    """Blocks of -inf before the first finite score, behind the last, and all over a row."""
    mask = np.zeros((5, 300), np.float32)
    mask[0, :290] = -np.inf
    mask[1, 3:] = -np.inf
    mask[2, :] = -np.inf
    mask[3, 40:280] = -np.inf
    made, want = run(template, 5, 300, heads=2, mode=MASKED, mask=mask)
    assert np.isnan(want[:, :, 2]).all()
    assert np.isfinite(want[:, :, [0, 1, 3, 4]]).all()
    close(template, (made, want))


@each_template
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, 150, 299])
def test_a_score_that_is_no_number_takes_its_row_along(
    template: Template, value: float, at: int
) -> None:
    mask = np.zeros((3, 300), np.float32)
    mask[1, at] = value
    made, want = run(template, 3, 300, mode=MASKED, mask=mask)
    assert np.isnan(want[:, :, 1]).all()
    assert np.isfinite(want[:, :, [0, 2]]).all()
    close(template, (made, want))


@each_template
def test_large_scores_do_not_overflow(template: Template) -> None:
    mask = np.linspace(-3e4, 3e4, 3 * 200, dtype=np.float32).reshape(3, 200)
    made, want = run(template, 3, 200, mode=MASKED, mask=mask[::-1].copy())
    assert np.isfinite(made).all()
    np.testing.assert_allclose(made, want, rtol=2e-3, atol=2e-3)  # a score is rounded to 2e-3


@each_template
def test_without_keys_the_result_is_zero(template: Template) -> None:
    made, _ = run(template, 5, 0, heads=2)
    assert (made == 0).all()


@each_template
@pytest.mark.parametrize(("batch", "tq", "cut"), [(0, 3, 0), (2, 0, 0), (1, 3, None)], ids=str)
def test_nothing_to_do(template: Template, batch: int, tq: int, cut: int | None) -> None:
    columns = template.head if cut is None else 0
    made, _ = run(template, tq, 5, batch=batch, cut=(0, columns))
    assert made.size == 0


@each_template
def test_the_grid_does_not_change_a_bit(template: Template) -> None:
    one, few, many = (
        run(template, 70, 50, batch=2, heads=3, mode=CAUSAL, grid=grid)[0] for grid in (1, 5, 99)
    )
    np.testing.assert_array_equal(one, few)
    np.testing.assert_array_equal(one, many)


DECODING = [t for t in TEMPLATES if t.function == DECODE]


@pytest.mark.parametrize("template", DECODING, ids=lambda t: t.name)
@pytest.mark.parametrize(("tk", "parts"), [(700, 3), (33, 2), (20, 5), (0, 2)], ids=str)
def test_blocks_that_share_the_keys_of_a_query(template: Template, tk: int, parts: int) -> None:
    """Blocks without keys too; they may come in any order and the counters are zero again."""
    made = run(template, 3, tk, batch=2, heads=2, parts=parts, cut=(1, 3), grid=5)
    close(template, made)
    alone = run(template, 3, tk, batch=2, heads=2, cut=(1, 3))
    np.testing.assert_allclose(made[0], alone[0], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("template", DECODING, ids=lambda t: t.name)
def test_shared_keys_with_every_access_seen(template: Template) -> None:
    """A causal mask that leaves the first query's second block without a key."""
    made = run(template, 2, 300, heads=2, parts=2, mode=CAUSAL, offset=40, grid=3, check=True)
    close(template, made)


@each_template
@pytest.mark.parametrize("layout", ["bthd", "bhdt"])
def test_no_race_and_no_stray_access(template: Template, layout: str) -> None:
    """Several heads a block and ragged edges, several keys a warp; with every access seen."""
    tq, tk = (2, 600) if template.function == DECODE else (9, 75)
    made = run(
        template, tq, tk, heads=3, cut=(3, 2), layout=layout, mode=CAUSAL, offset=tk - tq - 6,
        grid=2, check=True,
    )  # fmt: skip
    close(template, made)


def test_shared_memory_and_threads_are_what_the_types_say() -> None:
    text = 'extern "C" __global__ void sizes(i32 *out) {\n'
    for at, template in enumerate(TEMPLATES):
        text += f"  out[{2 * at}] = {template.tile}::SHARED;\n"
        text += f"  out[{2 * at + 1}] = {template.tile}::THREADS;\n"
    out = np.zeros((len(TEMPLATES), 2), np.int32)
    module(text + "}\n", HEADERS).launch("sizes", 1, 1, [out])
    assert out.tolist() == [[t.shared, t.threads] for t in TEMPLATES]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_devices_get_no_warning_and_no_spill(tmp_path: Path, architecture: str) -> None:
    text = "".join(t.text(literal=True) for t in TEMPLATES)
    made = compile_for_devices(text, HEADERS, tmp_path, architecture)
    assert set(made) == {t.name for t in TEMPLATES}
    for name, resources in made.items():
        assert (resources.stack, resources.spilled) == (0, 0), (name, resources)


def test_nvrtc_takes_the_headers() -> None:
    compile_by_nvrtc(TEMPLATES[2].text() + TEMPLATES[-1].text(), HEADERS)
