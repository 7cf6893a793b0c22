"""Machines with GPUs that are not there: the vendors' real Python packages over libraries of ours.

A test runs its program in a process of its own, whose library path holds a ``libnvidia-ml.so.1``
and a ``libamd_smi.so`` built from the C files beside this one. So nothing is mocked in Python, and
the process of the tests never loads a vendor's library.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def build(source: str, library: Path, *options: str) -> Path:
    """``library``, built by gcc from ``source`` of this folder."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc, which builds the stand-ins for the vendors' libraries")
    library.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden",
         f"-Wl,-soname,{library.name}", "-o", library, HERE / source, *options],
        check=True,
    )  # fmt: skip
    return library


def need(module: str, package: str) -> None:
    """Skip, and say why, where the vendor's package is not installed."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"needs {package}: pip install {package}")


class Machine:
    """A machine whose vendors' libraries are in ``libraries``, and whose GPUs a text describes."""

    def __init__(self, folder: Path, libraries: Path) -> None:
        self.folder = folder
        self.libraries = libraries
        self.gpus_file = folder / "gpus.txt"
        self.log_file = folder / "log.txt"
        self.gpus("")

    def gpus(self, text: str) -> None:
        """The machine has the GPUs of ``text`` from now on."""
        new = self.folder / "gpus.new"
        new.write_text("".join(f"{line.strip()}\n" for line in text.strip().splitlines()))
        new.replace(self.gpus_file)

    @property
    def log(self) -> list[str]:
        """The starts and stops of the libraries so far, without the process."""
        if not self.log_file.exists():
            return []
        return [line.rsplit(" ", 1)[0] for line in self.log_file.read_text().splitlines()]

    @property
    def environment(self) -> dict[str, str]:
        """What a process on this machine finds in its environment."""
        gone = ("ROCM_HOME", "LD_PRELOAD", "PYTHONSAFEPATH")
        kept = {name: value for name, value in os.environ.items() if name not in gone}
        return kept | {
            "FAKE_GPUS": str(self.gpus_file),
            "FAKE_GPUS_LOG": str(self.log_file),
            "LD_LIBRARY_PATH": str(self.libraries),
            "ROCM_PATH": str(self.folder / "no-rocm"),
            "PYTHONPATH": str(ROOT),
        }

    def start(self, program: str, **options: Any) -> subprocess.Popen[str]:
        """``program`` running on this machine; it is read from standard input."""
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.folder,
            **options,
        )
        assert process.stdin is not None
        process.stdin.write(_PRELUDE + textwrap.dedent(program))
        process.stdin.close()
        return process

    def run(self, program: str) -> Any:
        """What ``program`` handed to ``tell``."""
        process = self.start(program)
        assert process.stdout is not None
        with process, process.stdout:
            said = process.stdout.read()
        assert process.returncode == 0, said
        return json.loads(said)

    def read(self) -> tuple[dict[str, Any], dict[str, str]]:
        """One snapshot of this machine's GPUs: six numbers for each, and the problems."""
        stats, problems = self.run(
            """
            with GPUDiagContext() as context:
                stats = context.get_stats()
            tell([flat(stats), context.problems])
            """
        )
        return stats, problems


# What every program starts with. `flat` keeps the numbers in the order of the records.
_PRELUDE = """
import json, os, sys, time
from dataclasses import astuple
from pathlib import Path
from maxlab.diagnostics.gpu import *

def flat(stats):
    return {gpu_id: [*astuple(gpu.memory), *astuple(gpu.utilization)]
            for gpu_id, gpu in stats.items()}

def tell(what):
    print(json.dumps(what), flush=True)

def gpus(text):
    Path("gpus.new").write_text("".join(f"{line.strip()}\\n" for line in text.splitlines()))
    os.replace("gpus.new", os.environ["FAKE_GPUS"])

"""


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a ``libnvidia-ml.so.1``; skips without ``nvidia-ml-py``."""
    need("pynvml", "nvidia-ml-py")
    folder = tmp_path_factory.mktemp("nvml")
    build("fake_nvml.c", folder / "libnvidia-ml.so.1")
    return folder


@pytest.fixture(scope="session")
def amdsmi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a ``libamd_smi.so``; skips without ``amdsmi``."""
    need("amdsmi", "amdsmi")
    folder = tmp_path_factory.mktemp("amdsmi")
    spec = importlib.util.find_spec("amdsmi")
    assert spec is not None
    assert spec.origin is not None
    wrapper = (Path(spec.origin).parent / "amdsmi_wrapper.py").read_text()
    wanted = set(re.findall(r"_libraries\['libamd_smi\.so'\]\.(\w+)", wrapper))
    written = set(re.findall(r"API unsigned (\w+)\(", (HERE / "fake_amdsmi.c").read_text()))
    rest = folder / "rest.c"
    rest.write_text(
        "".join(
            f'__attribute__((visibility("default"))) unsigned {name}(void) {{ return 2; }}\n'
            for name in sorted(wanted - written)
        )
    )
    build("fake_amdsmi.c", folder / "libamd_smi.so", str(rest))
    return folder


@pytest.fixture
def machine(nvml: Path, tmp_path: Path) -> Machine:
    """A machine with the NVIDIA GPUs that the test gives it."""
    return Machine(tmp_path, nvml)


@pytest.fixture
def amd_machine(amdsmi: Path, tmp_path: Path) -> Machine:
    """A machine with the AMD GPUs that the test gives it."""
    return Machine(tmp_path, amdsmi)


@pytest.fixture
def bare_machine(tmp_path: Path) -> Machine:
    """A machine without a vendor's library, wherever the tests run."""
    empty = tmp_path / "no-libraries"
    empty.mkdir()
    # Found before the system's own, and no libraries: loading them fails.
    for name in ("libnvidia-ml.so.1", "libamd_smi.so"):
        (empty / name).touch()
    return Machine(tmp_path, empty)


MakeMachine = Callable[[Path], Machine]


@pytest.fixture
def machine_with(tmp_path: Path) -> MakeMachine:
    """Makes a machine whose libraries are in a folder of the test's own."""
    return lambda libraries: Machine(tmp_path, libraries)
