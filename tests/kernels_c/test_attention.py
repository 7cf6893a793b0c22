"""Fused attention against the composition in float64: shapes, strides, masks, infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels_c.conftest import Lab, prelude

KERNELS = (
    prelude("abi")
    + """
/* b = {mx_attention, mask}, d = {kind}: 0 only scale, 1 causal, 2 additive mask f32[tq,tk],
 * 3 an error */
static int score(void *const *b, const i64 *d, f32 *S, i64 lds, i64 batch, i64 head, i64 q0,
                 i64 q1, i64 k0, i64 k1, mx_ctx *ctx) {
  const mx_attention *a = b[0];
  const f32 *mask = b[1];
  (void)batch;
  if (d[0] == 3) { ctx->err[0] = head; return 6; }
  for (i64 i = q0; i < q1; i++)
    for (i64 j = k0; j < k1; j++) {
      f32 *s = &S[(i - q0) * lds + j - k0];
      *s *= a->scale;
      if (d[0] == 1 && j > i + a->tk - a->tq) *s = -__builtin_inff();
      if (d[0] == 2) *s += mask[i * a->tk + j];
    }
  return 0;
}
int k_attention(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  return ctx->lib->attention_f32(b[0], lo, hi, d[0] ? score : 0, b, d, ctx);
}
"""
)


class Attention:
    def __init__(self, lab: Lab, runtime: Any) -> None:
        self.kernels = lab.open_text(
            KERNELS, "int k_attention(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);"
        )
        self.lab, self.runtime, self.team = lab, runtime, runtime.mx_team_new(2)

    def __call__(
        self,
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        scale: float,
        kind: int = 0,
        mask: np.ndarray | None = None,
        cut: tuple[int, int, int] | None = None,
    ) -> np.ndarray:
        """q (b,h,t,d), k and v (b,hk,t,d) of any strides; the output lies as (b,t,h,d)."""
        ffi = self.lab.ffi
        (batch, heads, tq, dim), (_, kv_heads, tk, _), dim_v = q.shape, k.shape, v.shape[3]
        memory = np.full((batch, tq, heads, dim_v), 7, np.float32)
        out = memory.transpose(0, 2, 1, 3)
        plan = ffi.new("i64[3]")
        extent = self.runtime.mx_attention_plan(batch, heads, tq, tk, dim, dim_v, 2, plan)
        if cut is not None:
            self.runtime.mx_attention_cut(batch, heads, tq, 2, cut[0], plan)
            plan[1], plan[2] = cut[1:]
            extent = batch * heads * -(-tq // plan[0])
        a = ffi.new("mx_attention *")
        for name, array in (("q", q), ("k", k), ("v", v), ("o", out)):
            assert array.strides[3] == 4 or array.shape[3] <= 1 or array.size == 0
            setattr(a, name, ffi.cast("f32 *", array.ctypes.data))
            setattr(a, name + "s", [s // 4 for s in array.strides[:3]])
        a.batch, a.heads, a.group = batch, heads, heads // kv_heads
        a.tq, a.tk, a.dim, a.dim_v, a.plan, a.scale = tq, tk, dim, dim_v, plan, scale
        scratch = self.runtime.mx_attention_scratch(tk, dim, dim_v, plan)
        step = ffi.new("mx_step[]", [(self.kernels.k_attention, 0, 0, extent, 3, 0)])
        mask_p = ffi.NULL if mask is None else ffi.cast("void *", mask.ctypes.data)
        argp = ffi.new("void *[]", [ffi.cast("void *", a), mask_p])
        d, null, self.err = ffi.new("i64[]", [kind]), ffi.NULL, ffi.new("i64[6]")
        self.code = self.runtime.mx_execute(
            self.team, step, 1, argp, d, null, 0, null, scratch, null, self.err
        )
        return memory


def reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, mask: np.ndarray | None = None
) -> np.ndarray:
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    with np.errstate(all="ignore"):
        s = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 1, 3, 2) * scale
        s = s if mask is None else s + mask
        e = np.exp(s - s.max(-1, keepdims=True))
        out: np.ndarray = e / e.sum(-1, keepdims=True) @ v.astype(np.float64)
        return out.transpose(0, 2, 1, 3)


@pytest.fixture(scope="module")
def attention(lab: Lab, runtime: Any) -> Any:
    made = Attention(lab, runtime)
    yield made
    runtime.mx_team_free(made.team)


def draw(batch: int, heads: int, kv: int, tq: int, tk: int, dim: int, dim_v: int) -> Any:
    rng = np.random.default_rng(tq * 1000 + tk)

    def one(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return one(batch, heads, tq, dim), one(batch, kv, tk, dim), one(batch, kv, tk, dim_v)


SHAPES = [
    (8, 12, 12, 64, 64, 32, 32),
    (1, 12, 12, 16, 16, 32, 32),
    (2, 3, 3, 1, 1, 1, 1),
    (1, 2, 2, 7, 5, 33, 17),
    (2, 4, 2, 130, 70, 64, 64),
    (1, 8, 2, 1, 3000, 128, 128),
    (1, 2, 1, 4, 513, 40, 24),
    (1, 1, 1, 5, 20000, 16, 16),
    (1, 2, 2, 100, 1100, 80, 96),
    (1, 1, 1, 70, 512, 8, 200),
    (1, 1, 1, 3, 40, 0, 8),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_composition(attention: Attention, shape: Any) -> None:
    q, k, v = draw(*shape)
    scale = 1 / max(1, shape[5]) ** 0.5
    want = reference(q, k, v, scale)
    got = attention(q, k, v, scale)
    assert attention.code == 0
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)
    tq, tk = shape[3:5]
    rng = np.random.default_rng(0)
    mask = np.where(rng.random((tq, tk)) < 0.3, -np.inf, rng.standard_normal((tq, tk)))
    mask = mask.astype(np.float32)
    got = attention(q, k, v, scale, 2, mask)
    np.testing.assert_allclose(got, reference(q, k, v, scale, mask), rtol=2e-6, atol=1e-6)


WAYS = [(most, way) for most in (1, 13, 96, 500) for way in range(8)]


@pytest.mark.parametrize("shape", SHAPES)
def test_all_plans_with_blocks_of_as_many_keys_give_the_same_bits(
    attention: Attention, shape: Any
) -> None:
    q, k, v = draw(*shape)
    scale = 1 / max(1, shape[5]) ** 0.5
    mask = np.where(np.tri(shape[3], shape[4], shape[4] - shape[3]) > 0, 0, -np.inf)
    want = reference(q, k, v, scale, mask)
    for keys in (512, 96):
        found = [attention(q, k, v, scale, 1, cut=(most, keys, way)) for most, way in WAYS]
        np.testing.assert_allclose(found[0], want, rtol=2e-6, atol=1e-6)
        for other in found[1:]:
            assert np.array_equal(other.view(np.int32), found[0].view(np.int32))


def test_causal_over_many_blocks(attention: Attention) -> None:
    q, k, v = draw(1, 2, 2, 1300, 1300, 32, 32)
    mask = np.where(np.tri(1300) > 0, 0, -np.inf)
    got = attention(q, k, v, 0.2, 1)
    np.testing.assert_allclose(got, reference(q, k, v, 0.2, mask), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [0.0, -0.5, 2.0])
@pytest.mark.parametrize("tk", [1, 15, 16, 17, 31, 33, 48, 49, 64, 530])
def test_what_fills_a_row_up_is_not_scaled(attention: Attention, tk: int, scale: float) -> None:
    q, k, v = draw(1, 2, 2, 9, tk, 8, 8)
    want = reference(q, k, v, scale)
    np.testing.assert_allclose(attention(q, k, v, scale), want, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("tq", [3, 20])
def test_infinities_and_nan_as_in_the_plain_softmax(attention: Attention, tq: int) -> None:
    q, k, v = draw(1, 1, 1, tq, 1100, 16, 16)
    mask = np.zeros((tq, 1100), np.float32)
    mask[0, :] = -np.inf  # nothing to see: NaN
    mask[1, :1050] = -np.inf  # only the last block counts
    mask[2, 600] = np.nan
    want = reference(q, k, v, 0.25, mask)
    assert np.isnan(want[0, 0]).all()
    assert np.isnan(want[0, 2]).all()
    got = attention(q, k, v, 0.25, 2, mask)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)
    mask[2, 600] = np.inf
    got = attention(q, k, v, 0.25, 2, mask)
    np.testing.assert_allclose(got, reference(q, k, v, 0.25, mask), rtol=2e-6, atol=1e-6)


def test_large_scores_do_not_overflow(attention: Attention) -> None:
    q, k, v = draw(1, 1, 1, 20, 700, 16, 16)
    got = attention(q, k, v, 300.0)
    np.testing.assert_allclose(got, reference(q, k, v, 300.0), rtol=1e-3, atol=1e-4)


def test_strided_heads_of_one_projection(attention: Attention) -> None:
    rng = np.random.default_rng(0)
    qkv = rng.standard_normal((2, 40, 3, 4, 32)).astype(np.float32)
    q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    got = attention(q, k, v, 0.1)
    np.testing.assert_allclose(got, reference(q, k, v, 0.1), rtol=2e-6, atol=1e-6)


def test_no_keys_give_zero(attention: Attention) -> None:
    q, k, v = draw(1, 2, 2, 3, 0, 8, 8)
    assert (attention(q, k, v, 1.0) == 0).all()


def test_a_score_error_stops(attention: Attention) -> None:
    q, k, v = draw(1, 2, 2, 3, 9, 8, 8)
    attention(q, k, v, 1.0, 3)
    assert attention.code == 1
    assert attention.err[1] == 6
