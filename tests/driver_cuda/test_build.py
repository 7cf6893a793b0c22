"""The parts of scripts/build_pycuda.py that take no minutes."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build_pycuda.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_pycuda", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stub_has_every_function_of_the_header(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "cuda.h").write_text(
        "#define cuMemAlloc cuMemAlloc_v2\n"
        "typedef unsigned int cuuint32_t;\n"
        "CUresult CUDAAPI cuInit(unsigned int Flags);\n"
        "CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);\n"
    )
    stub = script.make_stub(tmp_path, tmp_path / "stub")
    library = ctypes.CDLL(str(stub))
    for name in ("cuInit", "cuMemAlloc", "cuMemAlloc_v2"):
        assert getattr(library, name)() == 100  # CUDA_ERROR_NO_DEVICE
    assert not hasattr(library, "cuuint32_t")
    readelf = shutil.which("readelf")
    if readelf is not None:
        done = subprocess.run(
            [readelf, "-d", str(stub)], capture_output=True, text=True, check=True
        )
        assert "[libcuda.so.1]" in done.stdout  # what PyCUDA will ask the loader for


def test_headers_of_cuda_home_come_first(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert script.find_headers() != tmp_path / "include"  # there is no cuda.h
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda.h").write_text("")
    assert script.find_headers() == tmp_path / "include"


def test_a_command_that_fails_ends_the_build(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match="failed with status 3"):
        script.call(["sh", "-c", "exit 3"])
