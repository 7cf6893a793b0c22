"""What the start of a process does not import: what its first use does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]

CHAIN = """
import numpy as np
from maxlab.experimental import functional as F
from maxlab.experimental.tensor import Tensor
x = Tensor.from_dlpack(np.ones(7, np.float32))
y = F.relu(x * 1.5 + x)
assert y.numpy()[0] == 2.5
"""
KEPT = """
import os, sys
from maxlab.__main__ import main
assert main(["run", "a.mlmodel", "--input", "x.npy", "--output", "y.npy", "--trusted"]) == 0
"""

PROCESSES = {"subprocess", "tempfile", "random", "socket", "multiprocessing"}
"""What starts and speaks to other processes."""
READERS = {"zipfile", "csv", "html", "difflib", "secrets", "uuid"}
EDITING = {
    f"maxlab.graph.{name}"
    for name in (
        "clip", "clipping", "conflicts", "document", "document_json", "editing", "grouped", "kept",
        "lesson", "notes", "noting", "resolving", "weights",
    )
}  # fmt: skip
USERS_KERNELS = {
    f"maxlab.opset.{name}"
    for name in (
        "conditions", "custom_binding", "custom_parts", "custom_text", "declarations", "declared",
        "declared_checks", "macros", "opaques",
    )
}  # fmt: skip
COMPILING = {
    f"maxlab.compiler.{name}"
    for name in ("passes", "codegen", "schedule", "planner", "lower", "compiling", "steps_host")
}
KEEPING = {
    f"maxlab.engine.kept.{name}" for name in ("archive", "manifest", "opening", "loading", "saving")
}
STARTS: dict[str, tuple[str, set[str]]] = {
    "maxlab": ("import maxlab", PROCESSES | READERS | {"numpy", "hashlib", "shutil", "json"}),
    "interfaces": ("import maxlab.interfaces", {"hashlib", "maxlab.driver", "maxlab.toolchain"}),
    "graph": (
        "import maxlab.graph, maxlab.engine.session",
        PROCESSES | READERS | EDITING | USERS_KERNELS | COMPILING | KEEPING
        | {"hashlib", "shutil"},
    ),
    "tensor": (
        "import maxlab.experimental.tensor",
        PROCESSES | READERS | EDITING | USERS_KERNELS | COMPILING | KEEPING
        | {"hashlib", "shutil"},
    ),
    "a chain that is seen": (
        CHAIN,
        PROCESSES | READERS | EDITING | USERS_KERNELS | COMPILING | KEEPING | {"hashlib"},
    ),
    "a kept model": (
        KEPT,
        PROCESSES | READERS | EDITING | USERS_KERNELS | COMPILING
        | {"maxlab.graph", "maxlab.opset.core", "maxlab.ir.core", "maxlab.ir.function"},
    ),
}  # fmt: skip
"""By what is started: the program, and the modules that it must not import."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a kept model and its input, and a cache that has the plan of the chain."""
    from maxlab import engine
    from maxlab.dtype import DType
    from maxlab.graph import Graph, TensorType

    folder = tmp_path_factory.mktemp("starts")
    graph = Graph("twice", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
    engine.InferenceSession().load(graph).save(folder / "a.mlmodel")
    np.save(folder / "x.npy", np.ones(3, np.float32))
    for program in (CHAIN, KEPT):
        modules_of(program, folder)
    return folder


def modules_of(program: str, folder: Path) -> set[str]:
    """The modules that a process has when it has run ``program``."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint()\nprint(*sys.modules)"],
        cwd=folder,
        env={**environment(), "MAXLAB_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("start", STARTS)
def test_a_start_imports_no_more_than_it_needs(start: str, place: Path) -> None:
    program, unneeded = STARTS[start]
    found = modules_of(program, place)
    assert found & unneeded == set()
    if "import numpy" in program or start in ("graph", "tensor"):
        assert {"numpy", "maxlab.graph.graph"} <= found  # the names above are such as a process has


def test_what_is_imported_later_is_there_when_it_is_asked_for() -> None:
    program = (
        "import maxlab.graph as graph\n"
        "from maxlab.graph import *\n"
        "assert graph.weights.load_weights and graph.Editor and graph.Document and Place and Case\n"
        "assert {'Editor', 'Lesson', 'Graph'} <= set(dir(graph))\n"
        "try:\n"
        "    graph.nothing\n"
        "except AttributeError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "module 'maxlab.graph' has no attribute 'nothing'\n"


def test_the_names_of_the_table_are_modules() -> None:
    """A module that was renamed would never be found, whatever imports it."""
    from importlib.util import find_spec

    for _, unneeded in STARTS.values():
        for name in unneeded:
            assert find_spec(name) is not None, name
