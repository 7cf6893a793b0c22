"""Compilers of other families than gcc: what they make of the C sources, and of graphs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from maxlab.toolchain import KernelSource, find_compiler, zig
from maxlab.toolchain.prelude import kernels_dir, prelude
from maxlab.toolchain.units import unit_text
from tests.toolchain.small import settings

SOURCES = sorted((kernels_dir() / "c").glob("*.c"))
STRICT = (
    *("-std=gnu11", "-O1", "-march=native", "-fopenmp-simd", "-fno-math-errno", "-fPIC"),
    *("-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-Wno-unused-function"),
)
FAMILIES = ("clang", "zig")


def command_of(family: str) -> str:
    """The command of a compiler of ``family``, as MAXLAB_CC takes it; skips the test where there
    is none."""
    found = shutil.which(family) or (zig.packaged() if family == "zig" else None)
    if found is None:
        pytest.skip(f"needs {family}")
    return shlex.join([found, *["cc"] * (family == "zig")])


@pytest.fixture(scope="module")
def clang() -> str:
    return command_of("clang")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that the tests of this file share: zig prepares itself once."""
    return tmp_path_factory.mktemp("families") / "cache"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_clang_takes_the_runtime(clang: str, source: Path, tmp_path: Path) -> None:
    command = [clang, *STRICT, f"-I{source.parent}", "-c", str(source), "-o", "made.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def test_clang_takes_all_sections_of_the_prelude(clang: str, tmp_path: Path) -> None:
    text = "\n".join(section.text for section in prelude().sections.values())
    (tmp_path / "all.c").write_text(text)
    command = [clang, *STRICT, "-c", "all.c", "-o", "all.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def graphs() -> dict[str, tuple[Graph, list[np.ndarray]]]:
    """Graphs by name, with their inputs: each kind of kernel is among them."""
    rng = np.random.default_rng(7)
    x, w = rng.normal(size=(48, 96)).astype("f4"), rng.normal(size=(96, 64)).astype("f4")
    image = rng.normal(size=(2, 20, 20, 8)).astype("f4")
    taps = rng.normal(size=(3, 3, 8, 16)).astype("f4")
    rows = TensorType(DType.float32, ["n", 96])
    made: dict[str, tuple[Graph, list[np.ndarray]]] = {}

    def keep(name: str, function: object, types: list[TensorType], *inputs: np.ndarray) -> None:
        made[name] = Graph(name, function, types), list(inputs)  # type: ignore[arg-type]

    keep("maps", lambda a: ops.tanh(a) + ops.exp(a) * ops.sin(a), [rows], x)
    keep("softmax", lambda a: ops.softmax(ops.gelu(a)), [rows], x)
    keep(
        "extremes",
        lambda a: (ops.max(a, axis=1), ops.min(a, axis=1), ops.argmax(a, axis=1)),
        [rows],
        x,
    )
    keep(
        "sums",
        lambda a: (ops.sum(a, axis=1), ops.mean(a, axis=0), ops.cumsum(a, axis=1)),
        [rows],
        x,
    )
    keep("product", lambda a: ops.relu(a @ ops.constant(w, DType.float32)), [rows], x)
    keep("top", lambda a: ops.top_k(a, 5, axis=1), [rows], x)
    keep(
        "turned",
        lambda a: ops.transpose(a, 0, 1) * 2,
        [TensorType(DType.float32, [48, 96])],
        x,
    )
    keep(
        "conv",
        lambda a: ops.conv2d(a, ops.constant(taps, DType.float32), padding=(1, 1, 1, 1)),
        [TensorType(DType.float32, [2, 20, 20, 8])],
        image,
    )
    keep(
        "halves",
        lambda a: ops.cast(
            ops.cast(a, DType.bfloat16) @ ops.constant(w, DType.bfloat16), DType.float32
        ),
        [rows],
        x,
    )
    keep(
        "integers",
        lambda a: (a // 7, a % 7, ops.max(a, axis=1), ops.cast(a, DType.float32)),
        [TensorType(DType.int32, ["n", 96])],
        rng.integers(-1000, 1000, (48, 96)).astype("i4"),
    )
    return made


GRAPHS = graphs()


def results(name: str) -> list[np.ndarray]:
    graph, inputs = GRAPHS[name]
    model = engine.InferenceSession(num_threads=2).load(graph)
    return [np.array(one.to_numpy()) for one in model.execute(*inputs)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", GRAPHS)
def test_others_compute_what_gcc_does(family: str, name: str, place: Path) -> None:
    cc = command_of(family)
    wanted = results(name)
    with settings(cc=cc, cache_dir=place):
        assert find_compiler().family == family
        found = results(name)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        if one.dtype.kind == "f":
            loose = 2e-2 if name == "halves" else 2e-5
            np.testing.assert_allclose(one, other, rtol=loose, atol=loose)
        else:
            np.testing.assert_array_equal(one, other)


def test_clang_makes_vectors_of_maxima(clang: str, tmp_path: Path) -> None:
    """Of a maximum of floats it does not, unless NaN and the sign of zero do not matter."""
    types = [TensorType(dtype, ["n", 4096]) for dtype in (DType.float32, DType.float64)]
    graph = Graph(
        "rows", lambda a, b: (ops.softmax(a), ops.max(b, axis=1), ops.min(a, axis=1)), types
    )
    model = engine.InferenceSession(num_threads=1).load(graph)
    printed = [step.printed for step in model.plan.steps if step.printed is not None]
    assert any("reduction(max" in one.text for one in printed)
    assert any("mx_lanes_max" in one.text for one in printed)
    for one in printed:
        text = unit_text([KernelSource(one.symbol, one.text)])
        (tmp_path / "unit.c").write_text(text)
        command = [
            clang,
            *STRICT,
            "-Wno-unused-parameter",
            "-Werror=pass-failed",
            "-c",
            "unit.c",
            "-o",
            "unit.o",
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.parametrize("dtype", [DType.float32, DType.float64], ids=str)
def test_extremes_of_odd_numbers(clang: str, dtype: DType, place: Path) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(8, 67)).astype(dtype.to_numpy())
    inf, nan = float("inf"), float("nan")
    x[1, 3], x[2, 66], x[3, :], x[4, :], x[5, 0], x[6, :] = nan, -nan, inf, -inf, -inf, -0.0
    x[7, ::2], x[7, 1::2] = -1e-310, 5e-320 if dtype is DType.float64 else 1e-42
    graph = Graph(
        "odd", lambda a: (ops.max(a, axis=1), ops.min(a, axis=1)), [TensorType(dtype, ["n", 67])]
    )
    with settings(cc=clang, cache_dir=place), np.errstate(all="ignore"):
        model = engine.InferenceSession(num_threads=1).load(graph)
        most, least = (one.to_numpy()[:, 0] for one in model.execute(x))
    np.testing.assert_array_equal(most, x.max(1))
    np.testing.assert_array_equal(least, x.min(1))


def test_no_word_that_only_gcc_knows() -> None:
    for file in sorted((kernels_dir() / "c").rglob("*.[ch]")):
        lines = file.read_text().splitlines()
        found = [n for n, line in enumerate(lines, 1) if re.search(r"__builtin_shuffle\b", line)]
        assert len(found) <= (file.name == "vectors.h"), f"{file.name}: lines {found}"
