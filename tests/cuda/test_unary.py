"""Every unary op on float32 numbers of every exponent, on a GPU, against double precision.

Relative errors count: the tests of ops forgive what is small beside the largest of all results, and
so cannot see a function that loses its digits where it is small.
"""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import cffi
import numpy as np
import pytest

from maxlab import engine
from maxlab.compiler import Options
from maxlab.driver import CPU, Accelerator, Tensor
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType
from maxlab.graph.build import add
from maxlab.toolchain.flags import Accuracy
from scripts.exhaustive.cases import UnaryCase, unary_cases
from scripts.exhaustive.judge import Array, judge
from scripts.exhaustive.main import as_judged
from scripts.exhaustive.report import number
from tests.cuda.conftest import ON_A_GPU
from tests.kernels_c.test_exhaustive import WORST, every_exponent

CASES = list(unary_cases())
WRITTEN_OUT = ("silu", "gelu", "gelu_tanh", "gelu_quick")
"""Functions that are more than a line of CUDA's own, so that their left tails keep all digits."""


def inputs_of(name: str) -> Array:
    """Numbers of all exponents, and many where the functions go to 0 or to their limits."""
    rng = np.random.default_rng(7)
    spans = [(-110, 110), (-15, 1), (-1, 1)]
    dense = [rng.uniform(*span, 100_000).astype(np.float32) for span in spans]
    worst = np.array(WORST.get(name, []), np.float32)
    return np.concatenate([worst, -worst, every_exponent(400), *dense])


def results_on(
    gpu: Accelerator, case: UnaryCase, x: Array, accuracy: Accuracy = "default"
) -> Array:
    """What ``gpu`` computes for ``x``."""
    type = TensorType(DType.from_numpy(x.dtype), ["n"], DeviceRef.GPU())
    with Graph(f"gpu_{case.name}", input_types=[type]) as graph:
        op = case.row.name.removeprefix("mo.")
        graph.output(add(op, [graph.inputs[0].tensor], **case.attrs))
    options = Options(accuracy=accuracy)
    model = engine.InferenceSession(devices=[gpu]).load(graph, options=options)
    (made,) = model.execute(Tensor.from_numpy(x).to(gpu))
    assert isinstance(made, Tensor)
    return as_judged(made.to(CPU()))


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.exact], ids=lambda case: case.name
)
def test_exact_functions_are_within_a_unit(case: UnaryCase, gpu: Accelerator) -> None:
    x = inputs_of(case.name)
    found = judge(case)(x, results_on(gpu, case, x, "exact"))
    assert found.ulps < 1, (found.ulps, number(found.ulps_at))
    assert found.special == 0, (found.special, number(found.special_at))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_bounds_hold(case: UnaryCase, gpu: Accelerator) -> None:
    x = inputs_of(case.name)
    found = judge(case)(x, results_on(gpu, case, x))
    assert found.special == 0, (found.special, number(found.special_at))
    limit = 3.0 if case.name in WRITTEN_OUT and not ON_A_GPU else 4.0  # there exp is 1 ulp off
    limit = 0.0 if case.exact else limit
    assert found.ulps <= limit, (found.ulps, number(found.ulps_at))


WIDE = """
#include <math.h>
double worst(const double *x, const double *got, long long n) {
  double most = 0;
  for (long long i = 0; i < n; i++) {
    long double exact = 0.5L * x[i] * erfcl(x[i] * -0.70710678118654752440084436210484903928L);
    double near = fabs((double)exact), ulp = nextafter(near, INFINITY) - near;
    double off = (double)(fabsl(got[i] - exact) / ulp);
    most = off <= most ? most : off; /* a NaN too */
  }
  return most;
}
"""
"""The largest error in ulps of a double, by gelu in long double."""


def test_gelu_of_float64_keeps_its_left_tail(gpu: Accelerator, tmp_path: Path) -> None:
    source, library = tmp_path / "wide.c", tmp_path / "wide.so"
    source.write_text(WIDE)
    command = ["gcc", "-O1", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    ffi = cffi.FFI()
    ffi.cdef("double worst(const double *, const double *, long long);")
    x = np.random.default_rng(9).uniform(-37.5, 6, 100_000)
    case = next(case for case in CASES if case.name == "gelu")
    got = results_on(gpu, case, x)
    arguments = [ffi.from_buffer("double[]", array) for array in (x, got)]
    assert ffi.dlopen(str(library)).worst(*arguments, x.size) <= 8  # erfc may be 5 ulp off
    edges = np.array([-1e300, -50, -40, -39.9, -0.0, 0.0, 39.9, 40, 1e300, np.inf, np.nan])
    expected = np.where(edges < -39, -0.0, edges)
    got = results_on(gpu, case, edges)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got[:-1]), np.signbit(expected[:-1]))


def test_a_gelu_that_cancels_is_found() -> None:
    case = next(case for case in CASES if case.name == "gelu")
    x = np.linspace(-13.2, 0, 100_000, dtype=np.float32)
    erf = np.array([math.erf(v / math.sqrt(2)) for v in x], np.float32)
    assert judge(case)(x, np.float32(0.5) * x * (1 + erf)).ulps > 1e4
