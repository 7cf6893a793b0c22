"""Options of a compilation on a GPU: nothing fused, ops apart and fast math compute the same, and
an edited kernel is tried, kept and thrown away.
"""

from __future__ import annotations

import numpy as np
import pytest

from maxlab import engine
from maxlab.analysis.edit import edit_kernel
from maxlab.compiler import Options
from maxlab.driver import Accelerator
from maxlab.dtype import DType
from maxlab.ir import Function
from tests.compiler.interpret import Builder, interpret, same
from tests.compiler.programs import Generator
from tests.compiler.test_matrix import CASES, Case, build, compare_all
from tests.cuda.placing import load_on, on_gpu, run_on

F32 = DType.float32


@pytest.mark.parametrize("case", CASES[::16], ids=lambda c: c.id)
def test_op(case: Case, gpu: Accelerator) -> None:
    function, arrays = build(case)
    model = load_on(gpu, on_gpu(function))
    want = interpret(function, arrays)
    for options in (Options(fuse=False), Options(assert_level="warn", log_level="trace")):
        made = run_on(gpu, model.reload(options=options), arrays)
        compare_all(case, made, want, arrays)


@pytest.mark.parametrize("seed", range(200, 206))
def test_random_programs(seed: int, gpu: Accelerator) -> None:
    program = Generator(seed).make()
    with np.errstate(all="ignore"):
        want = interpret(program.function, program.inputs, program.weights)
    model = load_on(gpu, on_gpu(program.function), program.weights)
    ids = [op.id for op in program.function.ops if op.name != "mo.output"]
    some = frozenset(np.random.default_rng(seed).choice(ids, max(len(ids) // 3, 1)).tolist())
    for options in (Options(fuse=False), Options(apart=some, accuracy="fast")):
        got = run_on(gpu, model.reload(options=options), program.inputs)
        for g, w in zip(got, want, strict=True):
            finite = w[np.isfinite(w)] if w.dtype.kind == "f" else w
            scale = max(float(np.max(np.abs(finite.astype(np.float64)), initial=1.0)), 1.0)
            same(g, w, rtol=1e-3, atol=1e-4 * scale)


def scaled(b: Builder) -> Function:
    """Each row over its sum."""
    x = b.input(F32, "m", 48)
    return b.output(b.op("div", x, b.op("reduce.sum", x, axis=-1)))


def test_fast_is_near(gpu: Accelerator) -> None:
    x = np.random.default_rng(0).uniform(0.5, 2, (9, 48)).astype(np.float32)
    model = load_on(gpu, on_gpu(scaled(Builder())))
    (strict,) = run_on(gpu, model, [x])
    fast: engine.Model = model.reload(options=Options(accuracy="fast"))
    (got,) = run_on(gpu, fast, [x])
    same(got, strict, rtol=1e-6)
    assert fast.kernels["k0"].source != model.kernels["k0"].source


def test_an_edited_kernel(gpu: Accelerator) -> None:
    x = np.random.default_rng(0).uniform(0.5, 2, (9, 48)).astype(np.float32)
    model = load_on(gpu, on_gpu(scaled(Builder())))
    given = model.placed([x])
    (want,) = run_on(gpu, model, [x])
    source = model.kernels["k0"].source
    tried = edit_kernel(model, "k0", source + "\n// mine\n", *given, runs=3)
    assert tried.state == "measured", tried.log
    tried.keep()
    assert model.kernels["k0"].source.endswith("// mine\n")
    (got,) = run_on(gpu, model, [x])
    same(got, want)
    tried.discard()
    assert model.kernels["k0"].source == source
    text = source + "\nnonsense\n"
    broken = edit_kernel(model, "k0", text, *given)
    assert broken.state == "compile_error"
    assert broken.errors[0].line == text.splitlines().index("nonsense") + 1
