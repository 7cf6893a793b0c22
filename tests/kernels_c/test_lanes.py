"""Functions of whole vectors: the bits of the scalar ones, or their error."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.exhaustive.judge import judge
from scripts.exhaustive.tiers import case_of
from tests.kernels_c.conftest import Lab, prelude
from tests.kernels_c.test_prelude import every_exponent, ulps

TEXT = """
void by_vectors(f32 *RS y, const f32 *RS x, i64 n) {
  for (i64 i = 0; i + MX_LANES <= n; i += MX_LANES) {
    f32 v[MX_LANES];
    for (i64 l = 0; l < MX_LANES; l++) v[l] = x[i + l];
    mx_NAME_lanes_f32(v);
    for (i64 l = 0; l < MX_LANES; l++) y[i + l] = v[l];
  }
}
void one_by_one(f32 *RS y, const f32 *RS x, i64 n) {
  for (i64 i = 0; i < n; i++) y[i] = mx_NAME_f32(x[i]);
}
"""
DECLARED = "".join(
    f"void {name}(f32 *y, const f32 *x, i64 n);" for name in ("by_vectors", "one_by_one")
)
MARCHES = ["native", "x86-64-v3", "x86-64"]


def both(lab: Lab, name: str, *flags: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of every exponent, and what functions of vectors and of numbers give for them."""
    library = lab.open_text(prelude() + TEXT.replace("NAME", name), DECLARED, *flags)
    x = every_exponent()
    x = x[: x.size // 16 * 16]
    found = [np.zeros_like(x) for _ in range(2)]
    arrays = [lab.ffi.from_buffer("f32[]", one) for one in (*found, x)]
    library.by_vectors(arrays[0], arrays[2], x.size)
    library.one_by_one(arrays[1], arrays[2], x.size)
    return x, found[0], found[1]


@pytest.mark.parametrize("march", MARCHES)
@pytest.mark.parametrize(
    ("name", "flag"),
    [(name, "-DMX_EXACT") for name in ("exp", "erf", "gelu", "sigmoid", "silu", "tanh_sigmoid")]
    + [("gelu", "-DMX_FAST")],
)
def test_a_vector_has_the_bits_of_the_scalar_function(
    lab: Lab, march: str, name: str, flag: str
) -> None:
    _, got, want = both(lab, name, f"-march={march}", flag)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("march", MARCHES)
@pytest.mark.parametrize(
    ("name", "flag", "most"),
    [
        ("erf", "-DMX_DEFAULT", 0.64),
        ("erf", "-DMX_FAST", 0.64),
        ("gelu", "-DMX_DEFAULT", 3.1),
        ("sigmoid", "-DMX_DEFAULT", 1.3),
        ("silu", "-DMX_DEFAULT", 2.3),
        ("tanh_sigmoid", "-DMX_DEFAULT", 2.9),
    ],
)
def test_functions_by_tables_are_near_and_right_at_their_ends(
    lab: Lab, march: str, name: str, flag: str, most: float
) -> None:
    """NaN, infinities and signs of zero are those of the exact results, as the scalar ones' are."""
    x, got, one = both(lab, name, f"-march={march}", flag)
    for made in (got, one):
        found = judge(case_of(name))(x, made)
        assert 0.4 < found.ulps < most, found
        assert found.special == 0, found


@pytest.mark.parametrize("march", MARCHES)
def test_exp_of_a_vector_is_right_to_more_than_half_a_unit(lab: Lab, march: str) -> None:
    x, got, want = both(lab, "exp", f"-march={march}")
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64))
        error = ulps(got, exact)
        assert error[exact >= 2.0**-126].max() < 0.56
        assert error.max() < 0.77  # what becomes subnormal is rounded twice
    odd = ~np.isfinite(want) | (want == 0)
    np.testing.assert_array_equal(got[odd], want[odd])


@pytest.mark.parametrize("march", MARCHES)
@pytest.mark.parametrize(
    ("name", "most"), [("tanh", 4), ("sigmoid", 4), ("silu", 4), ("tanh_sigmoid", 6)]
)
def test_fast_functions_of_a_vector(lab: Lab, march: str, name: str, most: float) -> None:
    x, got, one = both(lab, name, f"-march={march}", "-DMX_FAST")
    near = np.abs(x) < 80
    with np.errstate(all="ignore"):
        w = x[near].astype(np.float64)
        sigmoid = 1 / (1 + np.exp(-w))
        exact = {
            "tanh": np.tanh(w), "sigmoid": sigmoid, "silu": w * sigmoid,
            "tanh_sigmoid": np.tanh(w) * sigmoid,
        }[name]  # fmt: skip
        for found in (got, one):
            assert ulps(found[near], exact).max() < most
    np.testing.assert_array_equal(np.isnan(got), np.isnan(one))
    far = ~near & np.isfinite(one) & (np.abs(one) > 1e-30)
    np.testing.assert_allclose(got[far], one[far], rtol=1e-5)
