"""Generated kernels under the address and undefined-behaviour sanitizers.

``scripts/sanitize`` runs many more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = [
    "tests/compiler/test_random_programs.py",
    "tests/compiler/test_fusion.py",
    "tests/engine/test_failures.py",
]
CHOICE = (
    "random_program and (5] or 9]) or pads or indices_out_of_range or slices_as_operands or empty"
)


def _library(name: str) -> bool:
    done = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=False
    )
    return os.path.isabs(done.stdout.strip())


@pytest.mark.slow
@pytest.mark.timeout(1500)  # the library of products takes gcc minutes with its sanitizers
def test_kernels_are_clean(tmp_path: Path) -> None:
    if shutil.which("gcc") is None or not _library("libasan.so") or not _library("libubsan.so"):
        pytest.skip("gcc has no sanitizers here")
    env = {**os.environ, "MAXLAB_CACHE_DIR": str(tmp_path), "PY": sys.executable}
    env.pop("MAXLAB_CC", None)
    done = subprocess.run(
        ["bash", "scripts/sanitize", "-q", "-x", "-p", "no:cacheprovider", *TESTS, "-k", CHOICE],
        env=env, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1400,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
