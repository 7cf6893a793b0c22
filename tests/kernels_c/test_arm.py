"""The library of products for ARM, compiled by a cross compiler and run by an emulator of one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.kernels_c.conftest import FLAGS, SOURCES

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
FILES = ("gemm.c", "halves.c", "taps.c", "int8.c")
KINDS = ("bfloat16", "float16", "float32", "bytes")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program ``arm.c``, which makes a product of arrays in a file."""
    for tool in (COMPILER, EMULATOR):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}: apt-get install qemu-user gcc-aarch64-linux-gnu")
    out = tmp_path_factory.mktemp("arm") / "product"
    plain = [flag for flag in FLAGS if not flag.startswith("-m") and flag != "-shared"]
    sources = [str(SOURCES / name) for name in FILES]
    text = str(Path(__file__).parent / "arm.c")
    command = [COMPILER, "-static", "-O2", "-std=gnu11", *plain, "-Wno-psabi", f"-I{SOURCES}"]
    subprocess.run([*command, text, *sources, "-o", str(out), "-lm"], check=True)
    return out


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 67, 33), (13, 130, 64), (33, 300, 40)])
def test_products_are_exact(
    program: Path, tmp_path: Path, kind: int, m: int, k: int, n: int
) -> None:
    rng = np.random.default_rng(m)
    x, w = (rng.integers(-100, 101, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    given, made = tmp_path / "in", tmp_path / "out"
    given.write_bytes(x.tobytes() + w.tobytes())
    sizes = (str(size) for size in (kind, m, k, n))
    subprocess.run([EMULATOR, str(program), *sizes, str(given), str(made)], check=True)
    found = np.frombuffer(made.read_bytes(), np.float32).reshape(m, n)
    assert np.array_equal(found, x.astype(np.float64) @ w.astype(np.float64))
