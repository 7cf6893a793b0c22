"""Every op of the table as generated CUDA, run on the simulator against its NumPy reference."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from maxlab.driver.sim import SimModule
from maxlab.toolchain import kernels_dir
from tests.compiler.interpret import interpret, sizes_of
from tests.compiler.test_matrix import CASES, Case, build, compare
from tests.cuda.simulate import Program, module_of

FAMILIES = sorted({case.name for case in CASES})
PARTS = 6
"""Modules that the kernels are divided into: g++ needs more than linear time for one text."""


@pytest.fixture(scope="module")
def modules() -> dict[int, tuple[SimModule, dict[str, Program]]]:
    """Filled as tests ask: the cases of one part share a compilation."""
    return {}


def part_of(case: Case) -> int:
    """The part that ``case`` belongs to."""
    return FAMILIES.index(case.name) % PARTS


BY_PART: list[Case] = sorted(CASES, key=part_of)


@pytest.mark.parametrize("case", BY_PART, ids=lambda c: c.id)
def test_op_on_the_simulator(
    case: Case, modules: dict[int, tuple[SimModule, dict[str, Program]]]
) -> None:
    part = part_of(case)
    if part not in modules:
        programs = {c.id: Program(build(c)[0]) for c in CASES if part_of(c) == part}
        modules[part] = module_of(list(programs.values())), programs
    module, programs = modules[part]
    function, arrays = build(case)
    inputs = [np.require(a, requirements="C") for a in arrays]
    (got,) = programs[case.id].run(module, inputs, sizes_of(function, inputs))
    (want,) = interpret(function, arrays)
    compare(case.name.removeprefix("mo."), got, want, arrays)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_all_kernels_compile_for_a_device(tmp_path: Path) -> None:
    """One text with every kernel, for sm_90: no error, no warning."""
    texts = {
        launch.printed.symbol: launch.printed.text
        for case in CASES
        for launch in Program(build(case)[0]).launches
    }
    folder = kernels_dir() / "cuda"
    file = tmp_path / "kernels.cu"
    headers = '#include "mx_device.cuh"\n#include "prelude.cuh"\n'
    file.write_text(headers + "\n".join(texts.values()))
    done = subprocess.run(
        ["nvcc", "-cubin", "-arch=sm_90", f"-I{folder}", "-o", tmp_path / "kernels.cubin", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr[:2000]
    assert len(texts) > 400


CHECKED = ("reduce.max-nan", "softmax-last", "layer_norm-f32", "gather-rows", "pad-0", "concat-0")


def test_generated_kernels_have_no_races_and_stay_in_bounds() -> None:
    """The checking simulator sees every access of fused row kernels, folds and copies."""
    cases = [case for case in CASES if case.id in CHECKED]
    assert len(cases) == len(CHECKED)
    programs = [Program(build(case)[0]) for case in cases]
    module = module_of(programs, check=True)
    for case, program in zip(cases, programs, strict=True):
        function, arrays = build(case)
        inputs = [np.require(a, requirements="C") for a in arrays]
        (got,) = program.run(module, inputs, sizes_of(function, inputs))  # asserts no report
        (want,) = interpret(function, arrays)
        compare(case.name.removeprefix("mo."), got, want, arrays)
