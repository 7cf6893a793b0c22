"""The prelude: sections, f32 math within its stated error, exact conversions and integers."""

from __future__ import annotations

import importlib.util
import math
import operator
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kernels_c.conftest import FLAGS, SOURCES, Lab, prelude, sections

# float32 NaNs of every kind, overflow and division by zero are the subject here
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "log": np.log, "log1p": np.log1p, "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
    "acos": np.arccos, "atanh": np.arctanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sigmoid": lambda x: np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x))),
}  # fmt: skip
GELU = ("gelu", "gelu_tanh", "gelu_quick", "silu")
LIMIT_ULP = {
    "exp": 0.51, "log": 0.9, "log1p": 0.52, "tanh": 0.51, "sin": 0.51, "cos": 0.51, "acos": 0.6,
    "atanh": 0.7, "erf": 0.53, "sigmoid": 0.51, "gelu": 3.1, "gelu_tanh": 0.51, "gelu_quick": 0.51,
    "silu": 0.51,
}  # fmt: skip
INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
NUMPY = dict(zip(INTS, "bhiqBHIQ", strict=True)) | {"f32": "f", "f64": "d"}


def loops() -> tuple[str, str]:
    """C text with one vectorised loop per prelude function, and its declarations."""
    text, declared = [prelude()], []

    def add(name: str, out: str, inputs: list[str], call: str) -> None:
        arguments = ", ".join(f"const {t} *RS x{i}" for i, t in enumerate(inputs))
        head = f"void {name}({out} *RS y, {arguments}, i64 n)"
        text.append(
            f"{head} {{\n#pragma omp simd\n for (i64 i = 0; i < n; i++) y[i] = {call};\n}}\n"
        )
        declared.append(head.replace("RS", "") + ";")

    for name in [*UNARY, *GELU, "sqrt", "rsqrt", "floor", "ceil", "trunc", "rint"]:
        for t in ("f32", "f64"):
            add(f"v_{name}_{t}", t, [t], f"mx_{name}_{t}(x0[i])")
    add("v_gelu_fast_f32", "f32", ["f32"], "mx_gelu_fast_f32(x0[i])")
    for name in ("pow", "mod", "floordiv", "max", "min"):
        for t in ("f32", "f64"):
            add(f"v_{name}_{t}", t, [t, t], f"mx_{name}_{t}(x0[i], x1[i])")
    for t in INTS:
        for name in ("pow", "mod", "floordiv"):
            add(f"v_{name}_{t}", t, [t, t], f"mx_{name}_{t}(x0[i], x1[i])")
        for name in ("shl", "shr"):
            add(f"v_{name}_{t}", t, [t, "i64"], f"mx_{name}_{t}(x0[i], x1[i])")
        add(f"v_abs_{t}", t, [t], f"mx_abs_{t}(x0[i])")
        for f in ("f32", "f64"):
            add(f"v_{f}_to_{t}", t, [f], f"mx_{f}_to_{t}(x0[i])")
    for half in ("f16", "bf16"):
        add(f"v_{half}_to_f32", "f32", ["u16"], f"mx_{half}_to_f32(x0[i])")
        for f in ("f32", "f64"):
            add(f"v_{f}_to_{half}", "u16", [f], f"mx_{f}_to_{half}(x0[i])")
    return "".join(text), "".join(declared)


@pytest.fixture(scope="module", params=["native", "x86-64"])
def apply(request: pytest.FixtureRequest, lab: Lab) -> Callable[..., np.ndarray]:
    text, declared = loops()
    library = lab.open_text(text, declared, f"-march={request.param}")

    def call(name: str, out: str, *arrays: np.ndarray) -> np.ndarray:
        result = np.empty(arrays[0].shape, NUMPY[out])
        kept = [np.ascontiguousarray(a) for a in arrays]
        pointers = [
            lab.ffi.from_buffer(f"{t}[]", a) for a, t in zip(kept, types(kept), strict=True)
        ]
        getattr(library, name)(lab.ffi.from_buffer(f"{out}[]", result), *pointers, result.size)
        return result

    def types(arrays: list[np.ndarray]) -> list[str]:
        names = {np.dtype(v): k for k, v in NUMPY.items()} | {np.dtype(np.longlong): "i64"}
        return [names[a.dtype] for a in arrays]

    return call


def every_exponent(per_exponent: int = 400) -> np.ndarray:
    """float32 values of every exponent and sign, with the ends of each mantissa range."""
    rng = np.random.default_rng(0)
    mantissa = np.concatenate(
        [rng.integers(0, 1 << 23, (256, per_exponent)),
         np.tile([0, 1, (1 << 23) - 1, 1 << 22], (256, 1))], axis=1
    )  # fmt: skip
    bits = (mantissa | (np.arange(256)[:, None] << 23)).ravel().astype(np.uint32)
    x = np.concatenate([bits, bits | np.uint32(0x80000000)]).view(np.float32)
    near = [rng.uniform(-10, 10, 300_000), rng.uniform(-110, 95, 100_000)]
    return np.concatenate([x, *(part.astype(np.float32) for part in near)])


def ulps(got: np.ndarray, exact: np.ndarray, floor: np.ndarray | float = 0.0) -> np.ndarray:
    """The error in units of the float32 spacing at the exact value; equal and NaN pairs count 0."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        size = np.maximum(np.abs(exact), floor)
        unit = np.maximum(2.0 ** (np.floor(np.log2(size)) - 23), 2.0**-149)
        return np.where(same, 0, np.abs(got - exact) / unit)


@pytest.mark.parametrize("name", UNARY)
def test_f32_math_error(apply: Any, name: str) -> None:
    x = every_exponent()
    with np.errstate(all="ignore"):
        exact = UNARY[name](x.astype(np.float64))
    error = ulps(apply(f"v_{name}_f32", "f32", x), exact)
    worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
    assert error[worst] <= LIMIT_ULP[name], (name, x[worst], exact[worst])


@pytest.mark.parametrize("name", UNARY)
def test_f64_math_error(apply: Any, name: str) -> None:
    x = every_exponent(20).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = UNARY[name](x)
    np.testing.assert_allclose(apply(f"v_{name}_f64", "f64", x), exact, rtol=1e-15, atol=0)


def test_signed_zero_and_monotone_ends(apply: Any) -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    for name in (
        "tanh",
        "erf",
        "sin",
        "log1p",
        "atanh",
        "gelu",
        "gelu_tanh",
        "gelu_quick",
        "silu",
        "rint",
        "trunc",
    ):
        assert (np.signbit(apply(f"v_{name}_f32", "f32", zeros)) == [False, True]).all(), name
    x = np.linspace(3, 100, 100_001).astype(np.float32)
    for name in ("tanh", "erf"):
        assert (np.abs(apply(f"v_{name}_f32", "f32", np.concatenate([x, -x]))) <= 1).all(), name
    assert (apply("v_sigmoid_f32", "f32", x) <= 1).all()


def test_the_fast_gelu_is_off_by_a_fraction_of_its_input(apply: Any) -> None:
    x = every_exponent()
    w = x[np.isfinite(x)].astype(np.float64)
    exact = 0.5 * w * np.vectorize(math.erfc, otypes=[np.float64])(-w / math.sqrt(2))
    apart = np.abs(apply("v_gelu_fast_f32", "f32", w.astype(np.float32)) - exact)
    assert (apart <= 4.2e-7 * np.abs(w) + 2.0**-149).all()
    ends = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0], np.float32)
    found = apply("v_gelu_fast_f32", "f32", ends)
    assert np.isnan(found[:2]).all()  # -inf * 0, as composed
    assert found[2] == np.inf
    assert np.signbit(found[3:]).tolist() == [False, True]


def test_gelu_family(apply: Any) -> None:
    x = every_exponent()
    x = x[np.isfinite(x)]
    w = x.astype(np.float64)
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    sigmoid = UNARY["sigmoid"]
    with np.errstate(all="ignore"):
        exact = {
            "gelu": 0.5 * w * erfc(-w / math.sqrt(2)),
            "gelu_tanh": w * sigmoid(2 * math.sqrt(2 / math.pi) * (w + 0.044715 * w**3)),
            "gelu_quick": w * sigmoid(1.702 * w),
            "silu": w * sigmoid(w),
        }
    for name, want in exact.items():
        error = ulps(apply(f"v_{name}_f32", "f32", x), want)
        assert error.max() <= LIMIT_ULP[name], (name, x[error.argmax()], error.max())
        got = apply(f"v_{name}_f64", "f64", w)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-305)
    ends = np.array([np.nan, np.inf, -np.inf], np.float32)
    for name in exact:
        found = apply(f"v_{name}_f32", "f32", ends)
        assert np.isnan(found[[0, 2]]).all(), name  # -inf * 0, as composed
        assert found[1] == np.inf, name


def test_pow(apply: Any) -> None:
    rng = np.random.default_rng(0)
    special = np.array(
        [0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e30, 1e-30, 1e-42, np.inf, -np.inf, np.nan,
         2**24 + 2, -(2**24) - 1, 101, -101, 1.5, 126.5, -149, 127, 128]
    ).astype(np.float32)  # fmt: skip
    x, y = (g.ravel() for g in np.meshgrid(special, special))
    base = np.exp(rng.uniform(-80, 80, 200_000))
    near = 1 + rng.uniform(-0.01, 0.01, 200_000)
    x = np.concatenate([x, base, near, -base]).astype(np.float32)
    y = np.concatenate([y, rng.uniform(-3, 3, 200_000), rng.uniform(-9000, 9000, 200_000),
                        rng.integers(-5, 6, 200_000)]).astype(np.float32)  # fmt: skip
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
        got = apply("v_pow_f32", "f32", x, y)
        error = ulps(got, exact)
        zero = (exact == 0) & (got == 0)
        assert (np.signbit(exact) == np.signbit(got))[zero].all()
        both = apply("v_pow_f64", "f64", x.astype(float), y.astype(float))
        np.testing.assert_allclose(both, exact, rtol=1e-14)
    assert error.max() <= 1, (x[error.argmax()], y[error.argmax()])


def test_float_mod_and_rounding(apply: Any) -> None:
    rng = np.random.default_rng(0)
    special = np.array([0, -0.0, 1, -1, 5.5, -5.5, 3, -3, 0.1, np.inf, -np.inf, np.nan, 1e30])
    x, y = (g.ravel() for g in np.meshgrid(special, special))
    x = np.concatenate([x, rng.uniform(-100, 100, 1000)])
    y = np.concatenate([y, rng.uniform(-10, 10, 1000)])
    for t in ("f32", "f64"):
        a, b = x.astype(NUMPY[t]), y.astype(NUMPY[t])
        with np.errstate(all="ignore"):
            finite = np.isfinite(b) | np.isnan(b)
            np.testing.assert_array_equal(
                apply(f"v_mod_{t}", t, a, b)[finite], np.mod(a, b)[finite]
            )
            np.testing.assert_array_equal(
                apply(f"v_floordiv_{t}", t, a, b)[finite], np.floor_divide(a, b)[finite]
            )
            np.testing.assert_array_equal(apply(f"v_max_{t}", t, a, b), np.maximum(a, b))
            np.testing.assert_array_equal(apply(f"v_min_{t}", t, a, b), np.minimum(a, b))
            for name in ("floor", "ceil", "trunc", "rint", "sqrt"):
                got = apply(f"v_{name}_{t}", t, a)
                np.testing.assert_array_equal(got, getattr(np, name)(a))
            rsqrt = (1 / np.sqrt(a.astype(np.float64))).astype(a.dtype)
            np.testing.assert_allclose(apply(f"v_rsqrt_{t}", t, a), rsqrt, rtol=6e-8)


@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_half_types(apply: Any, half: str) -> None:
    kind = np.float16 if half == "f16" else ml_dtypes.bfloat16
    every = np.arange(65536, dtype=np.uint16)
    want = every.view(kind).astype(np.float32)
    wide = apply(f"v_{half}_to_f32", "f32", every)
    np.testing.assert_array_equal(wide, want)
    assert (np.signbit(wide) == np.signbit(want)).all()
    number = ~np.isnan(want)
    assert (apply(f"v_f32_to_{half}", "u16", want)[number] == every[number]).all()
    rng = np.random.default_rng(0)
    between = np.concatenate([every_exponent(), rng.uniform(-7e4, 7e4, 100_000).astype("f")])
    # exact ties and their neighbours
    finite = want[np.isfinite(want)].astype(np.float64)
    ties = (np.sort(finite)[1:] + np.sort(finite)[:-1]) / 2
    for x in (between, ties.astype(np.float32)):
        with np.errstate(all="ignore"):
            expected = x.astype(kind)
        got = apply(f"v_f32_to_{half}", "u16", x).view(kind)
        np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))
    around = np.concatenate(
        [ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), between]
    )
    with np.errstate(all="ignore"):
        narrow = apply(f"v_f64_to_{half}", "u16", around).view(kind).astype(np.float64)
        ordered = np.unique(finite)
        # nearest with ties to even, by the exact distances
        upper = np.clip(np.searchsorted(ordered, around), 1, len(ordered) - 1)
        low, high = ordered[upper - 1], ordered[upper]
        inside = (around > ordered[0]) & (around < ordered[-1])
    nearest = np.where(around - low < high - around, low, high)
    tie = around - low == high - around
    assert (narrow == nearest)[inside & ~tie].all()
    even = (low.astype(kind).view(np.uint16) & 1) == 0
    assert (narrow == np.where(even, low, high))[inside & tie].all()


@pytest.mark.parametrize("t", INTS)
def test_integers(apply: Any, t: str) -> None:
    info = np.iinfo(NUMPY[t])
    rng = np.random.default_rng(0)
    some = [info.min, info.min + 1, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7, info.max - 1, info.max]
    values = np.array([v for v in some if info.min <= v <= info.max], NUMPY[t])
    values = np.concatenate([values, rng.integers(info.min, info.max, 40, NUMPY[t])])
    a, b = (g.ravel() for g in np.meshgrid(values, values))
    width = info.bits

    def wrap(v: int) -> int:
        v &= (1 << width) - 1
        return v - (1 << width) if info.min < 0 and v >> (width - 1) else v

    def check(name: str, second: np.ndarray, rule: Callable[[int, int], int]) -> None:
        want = [wrap(rule(int(p), int(q))) for p, q in zip(a, second, strict=True)]
        got = apply(f"v_{name}_{t}", t, a, second)
        assert (got == np.array(want, NUMPY[t])).all(), name

    check("floordiv", b, lambda p, q: p // q if q else 0)
    check("mod", b, lambda p, q: p % q if q else 0)
    check("pow", b, lambda p, q: pow(p, q, 1 << width) if q >= 0 else 0)
    counts = np.resize(np.arange(-3, 70, dtype=np.int64), a.size)
    check("shl", counts, lambda p, n: p << n if 0 <= n < width else 0)
    check("shr", counts, lambda p, n: p >> n if 0 <= n < width else (-1 if p < 0 else 0))
    assert (apply(f"v_abs_{t}", t, a) == [wrap(abs(int(p))) for p in a]).all()


@pytest.mark.parametrize("t", INTS)
@pytest.mark.parametrize("f", ["f32", "f64"])
def test_casts_truncate_and_never_trap(apply: Any, t: str, f: str) -> None:
    powers = [s * (2.0**p + d) for p in (7, 8, 15, 16, 31, 32, 53, 63, 64, 70) for s in (1, -1)
              for d in (0, -1, 1, 0.5)]  # fmt: skip
    x = np.array([0, -0.0, 0.9, -0.9, 1.5, -1.5, 100.7, np.nan, np.inf, -np.inf, *powers])
    x = x.astype(NUMPY[f])
    bits = np.iinfo(NUMPY[t]).bits

    def rule(v: float) -> int:
        wide = 64 if t in ("i64", "u32", "u64") else 32
        top = 2 ** (wide - 1)
        if t == "u64" and math.isfinite(v) and top <= v < 2 * top:
            return int(v)
        whole = math.trunc(v) if math.isfinite(v) else top
        return whole if -top <= whole < top else top

    want = [operator.and_(rule(float(v)), (1 << bits) - 1) for v in x]
    got = apply(f"v_{f}_to_{t}", t, x)
    assert [int(g) & ((1 << bits) - 1) for g in got] == want


def test_row_reductions(lab: Lab) -> None:
    text = (
        prelude("rows")
        + """
    f32 r_sum(const f32 *x, i64 n) { return mx_row_sum_f32(x, n); }
    f32 r_max(const f32 *x, i64 n) { return mx_row_max_f32(x, n); }
    f32 r_min(const f32 *x, i64 n) { return mx_row_min_f32(x, n); }
    f32 r_dot(const f32 *x, const f32 *y, i64 n) { return mx_dot_f32(x, y, n); }
    """
    )
    library = lab.open_text(
        text,
        "f32 r_sum(const f32 *, i64); f32 r_max(const f32 *, i64); f32 r_min(const f32 *, i64);"
        "f32 r_dot(const f32 *, const f32 *, i64);",
        "-march=x86-64",
        "-Wno-psabi",
    )
    rng = np.random.default_rng(0)
    for n in [0, 1, 15, 16, 17, 31, 32, 33, 64, 1000]:
        x = rng.integers(-50, 50, n).astype(np.float32)
        p = lab.ffi.from_buffer("f32[]", x)
        assert library.r_sum(p, n) == x.sum()
        assert library.r_dot(p, p, n) == (x * x).sum()
        assert library.r_max(p, n) == x.max(initial=-np.inf)
        assert library.r_min(p, n) == x.min(initial=np.inf)
        for spot in range(n):
            y = x.copy()
            y[spot] = np.nan
            q = lab.ffi.from_buffer("f32[]", y)
            assert math.isnan(library.r_max(q, n))
            assert math.isnan(library.r_min(q, n))


def test_coefficients_come_from_the_fits() -> None:
    spec = importlib.util.spec_from_file_location("fits", SOURCES / "fits.py")
    assert spec is not None
    assert spec.loader is not None
    fits = importlib.util.module_from_spec(spec)
    sys.modules["fits"] = fits
    spec.loader.exec_module(fits)
    fast, _ = fits.coefficients(fits.FITS["gelu fast"], points=2000)
    names = ("exp", "exp wide", "exp of lanes", "erf", "log", "log wide", "gelu near")
    made = {name: fits.coefficients(fits.FITS[name], points=2000) for name in names}
    for wide in (False, True):
        p, q, error = fits.gelu_tail(wide)
        made["gelu wide" if wide else "gelu"] = np.concatenate([p, q]), error
    made["gelu fast"] = fast, 0.0
    for name, section in (
        ("exp", "exp_f32"), ("exp wide", "exp_wide"),
        ("exp of lanes", "exp_lanes"), ("erf", "erf_f32"),
        ("log", "log_f32"), ("log wide", "log1p_f32"), ("gelu", "gelu_f32"),
        ("gelu near", "gelu_f32"),
        ("gelu wide", "gelu_f32"), ("gelu fast", "gelu_f32"),
    ):  # fmt: skip
        found, error = made[name]
        assert error < 2**-25
        numbers = re.findall(r"-?\d+\.\d+(?:e-?\d+)?", sections()[section][1])
        written = np.array([float(n) for n in numbers])
        for c in found:
            assert np.abs(written / c - 1).min() < 2e-3, (name, c)


def test_what_macros_define_is_named() -> None:
    for t in INTS:
        for name in ("floordiv", "mod", "pow", "abs", "shl", "shr"):
            assert f"INL {t} mx_{name}_{t}(" in sections()[f"int_{t}"][1]


def test_sections_compile_alone(lab: Lab) -> None:
    assert next(iter(sections())) == "abi"
    seen: set[str] = set()
    for name, (needs, text) in sections().items():
        assert set(needs) <= seen, f"{name} needs something further down"
        seen.add(name)
        assert "#include" not in text
        (lab.folder / "one.c").write_text(prelude(name))
        lab.compile([lab.folder / "one.c"], f"section_{name}", "-std=gnu11")


def test_math_loops_are_vectorised(lab: Lab) -> None:
    """gcc reports each f32 loop as vectorised at -O1 under `#pragma omp simd`."""
    names = [*UNARY, *GELU, "sqrt", "rsqrt", "floor", "rint"]
    lines = [prelude()]
    lines += [
        f"void v_{name}(f32 *RS y, const f32 *RS x, i64 n) {{\n#pragma omp simd\n"
        f"for (i64 i = 0; i < n; i++) y[i] = mx_{name}_f32(x[i]); }}\n"
        for name in names
    ]
    lines.append(
        "void v_pow(f32 *RS y, const f32 *RS x, i64 n) {\n#pragma omp simd\n"
        "for (i64 i = 0; i < n; i++) y[i] = mx_pow_f32(x[i], y[i]); }\n"
        "void v_f16(u16 *RS y, const f32 *RS x, i64 n) {\n#pragma omp simd\n"
        "for (i64 i = 0; i < n; i++) y[i] = mx_f32_to_f16(x[i]); }\n"
        "void v_bf16(u16 *RS y, const f32 *RS x, i64 n) {\n#pragma omp simd\n"
        "for (i64 i = 0; i < n; i++) y[i] = mx_f32_to_bf16(x[i]); }\n"
        "void v_i32(i32 *RS y, const f32 *RS x, i64 n) {\n#pragma omp simd\n"
        "for (i64 i = 0; i < n; i++) y[i] = mx_f32_to_i32(x[i]); }\n"
    )
    file = lab.folder / "vectorised.c"
    file.write_text("".join(lines))
    flags = [f for f in FLAGS if f != "-shared"]
    done = subprocess.run(
        [
            "gcc",
            "-O1",
            "-mavx2",
            "-mfma",
            *flags,
            "-fopt-info-vec",
            "-c",
            str(file),
            "-o",
            str(file) + ".o",
        ],
        capture_output=True,
        check=True,
    )
    report = done.stderr.decode()
    assert report.count("loop vectorized") >= len(names) + 4, report
