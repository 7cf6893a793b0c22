"""The runtime library, the C declarations, flags and the doctor."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from maxlab import trace
from maxlab.config import Config, config, set_config
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import ToolchainError
from maxlab.graph import Graph, TensorType, ops
from maxlab.toolchain import (
    Flags,
    KernelSource,
    abi,
    compile_units,
    doctor_rows,
    find_compiler,
    prebuilt,
    runtime,
    runtime_ahead,
)

ADD_ONE = """int k_rt_add(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  const f32 *RS x = b[0]; f32 *RS y = b[1];
#pragma omp simd
  for (i64 i = lo; i < hi; i++) y[i] = x[i] + 1.f;
  return 0;
}"""


def test_generated_declarations_are_current(tmp_path: Path) -> None:
    made = ast.parse(abi.generate(tmp_path).read_text())
    kept = ast.parse((Path(abi.__file__).parent / "cffi_abi.py").read_text())
    assert ast.dump(made) == ast.dump(kept), "run `python -m maxlab.toolchain.abi`"


def test_a_kernel_runs_through_the_executor() -> None:
    rt = runtime()
    ffi = rt.ffi
    assert rt is runtime()
    assert rt.products.mx_get_lib() != rt.ffi.NULL
    [kernel] = compile_units([KernelSource("k_rt_add", ADD_ONE)])
    n = 10_000
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    step = {"fn": ffi.cast("mx_fn", kernel.address), "extent": n, "grain": 1000}
    steps = ffi.new("mx_step[1]", [step])
    pointers = ffi.new("void *[2]", [ffi.cast("void *", a.ctypes.data) for a in (x, y)])
    sizes, errors = ffi.new("i64[1]"), ffi.new("i64[6]")
    for threads in (1, 2):
        y[:] = 0
        team = rt.team(threads)
        assert team is rt.team(threads)
        code = rt.lib.mx_execute(
            team, steps, 1, pointers, sizes, ffi.NULL, 0, ffi.NULL, 0, ffi.NULL, errors
        )
        assert code == 0
        np.testing.assert_array_equal(y, x + 1)


def test_models_run_after_their_team_has_ended_its_threads() -> None:
    """Those that have run before too: what a process does at its end may run them again."""
    types = [TensorType(DType.float32, ["n"])]
    model = InferenceSession(num_threads=3).load(Graph("f", lambda x: ops.tanh(x) + 1, types))
    x = np.linspace(-2, 2, 1 << 18, dtype=np.float32)
    want = model(x)[0].to_numpy().copy()
    team = runtime().team(3)
    for _ in range(20):
        runtime().rest_teams()
        np.testing.assert_array_equal(model(x)[0].to_numpy(), want)
    assert runtime().team(3) == team


def test_addresses() -> None:
    assert runtime().address("mx_k_pack_b_f32") != 0
    with pytest.raises(ToolchainError, match=r"no symbol mx_nothing.*ML503"):
        runtime().address("mx_nothing")


@pytest.fixture
def nothing_brought(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installation without machine code, whoever made some in this checkout."""
    monkeypatch.setattr(prebuilt, "folder", lambda: tmp_path / "nothing")


@pytest.mark.usefixtures("nothing_brought")
def test_the_library_is_prepared_ahead(tmp_path: Path) -> None:
    now = config()
    rest = (None, now.num_threads, now.trace_events, now.keep_source)
    old = set_config(Config(tmp_path, *rest))
    try:
        thread = runtime_ahead()
        assert thread is not None
        made = runtime()
        thread.join(60)
        assert not made.hit
        assert runtime() is made
        assert runtime_ahead() is None
        set_config(Config(tmp_path / "other", "no-such-cc", *rest[1:]))
        assert runtime_ahead() is None, "the call that needs it says what is wrong"
        with pytest.raises(ToolchainError, match="ML501"):
            runtime()
    finally:
        set_config(old)


@pytest.mark.usefixtures("nothing_brought")
def test_the_products_are_compiled_ahead_once(tmp_path: Path) -> None:
    now = config()
    old = set_config(Config(tmp_path, None, now.num_threads, now.trace_events, now.keep_source))
    try:
        before = len(trace.recorder().events("compile"))
        thread = runtime_ahead(products=True)
        assert thread is not None
        library = runtime()
        assert library.lacks_products
        assert library.products.mx_pack_b_size(3, 33) == 2 * 32 * 3
        thread.join(60)
        names = [e.name for e in trace.recorder().events("compile")[before:]]
        assert sorted(names) == ["products", "runtime"]
        assert runtime_ahead(products=True) is None
    finally:
        set_config(old)


def test_flags() -> None:
    compiler = find_compiler()
    strict = Flags().arguments(compiler)
    assert "-O1" in strict
    assert "-fopenmp-simd" in strict
    assert not any(a.endswith(("-only", "-math")) and not a.startswith("-fno") for a in strict)
    fast = Flags(accuracy="fast").arguments(compiler)
    assert "-freciprocal-math" in fast
    assert "-ffinite-math-only" not in fast  # masks are made of infinities
    variants = [
        Flags(), Flags(optimize=3), Flags(accuracy="fast"), Flags(debug=True),
        Flags(defines=(("A", "1"),)), Flags(extra=("-funroll-loops",)),
    ]  # fmt: skip
    assert len({f.digest(compiler) for f in variants}) == len(variants)


def test_doctor_finds_everything_here() -> None:
    rows = {row.name: row for row in doctor_rows()}
    assert list(rows) == [
        "C compiler", "compiling", "C headers", "CPU", "kernel sources", "kernel cache",
        "CUDA compiler", "threads",
    ]  # fmt: skip
    assert all(row.found and row.detail and not row.fix for row in rows.values()), rows


def test_doctor_says_how_to_mend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    now = config()
    old = set_config(
        Config(Path("/sys/nowhere"), None, now.num_threads, now.trace_events, now.keep_source)
    )
    try:
        rows = {row.name: row for row in doctor_rows()}
    finally:
        set_config(old)
    assert not rows["C compiler"].found
    assert "apt-get install gcc" in rows["C compiler"].fix
    assert not rows["kernel cache"].found
    assert "MAXLAB_CACHE_DIR" in rows["kernel cache"].fix
