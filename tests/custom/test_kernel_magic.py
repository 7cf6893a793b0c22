"""``%%kernel`` in an IPython shell."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import DeviceRef, Graph, KernelLibrary, TensorType, ops
from tests.shells import shell_with_maxlab

VECTOR = TensorType(DType.float32, ["n"])
CELL = "// @op add_one(x: float32[n]) -> (y: float32[n])\n// @both\nstore(y, i, load(x, i) + 1);\n"


@pytest.fixture(scope="module")
def shell() -> Iterator[Any]:
    with shell_with_maxlab() as shell:
        yield shell


def run(shell: Any, code: str) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        return shell.run_cell(code, store_history=True)


def value_of(library: KernelLibrary) -> float:
    with Graph("g", input_types=[VECTOR], custom_extensions=library) as graph:
        graph.output(*ops.custom("add_one", DeviceRef.CPU(), [graph.inputs[0]], [VECTOR]))
    (y,) = engine.InferenceSession().load(graph)(np.zeros(1, np.float32))
    return float(y.to_numpy()[0])


def test_a_cell_is_a_library_and_may_be_run_again(shell: Any) -> None:
    done = run(shell, "%%kernel mine\n" + CELL)
    assert isinstance(done.result, KernelLibrary)
    mine = shell.user_ns["mine"]
    assert value_of(mine) == 1
    assert mine["add_one"].line == 2
    assert mine["add_one"].file.startswith("In[")
    run(shell, "%%kernel mine\n" + CELL.replace("+ 1", "+ 5"))
    assert shell.user_ns["mine"] is mine
    assert value_of(mine) == 5
    run(shell, "%%kernel mine\n" + CELL.replace("add_one", "more"))
    assert list(mine) == ["add_one", "more"]


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("%%kernel\n// @op bad\nx", "ML761"),
        ("%%kernel\nint x;", "ML763"),
        ("%%kernel\n" + CELL + CELL.replace("+ 1", "+ 2"), "ML762"),
        ("%%kernel two words\n" + CELL, "ML820"),
        ("%%kernel taken\n" + CELL, "ML821"),
    ],
)
def test_errors(shell: Any, code: str, wanted: str) -> None:
    shell.user_ns["taken"] = 3
    done = run(shell, code)
    assert isinstance(done.error_in_exec, MaxlabError)
    assert done.error_in_exec.code == wanted
    if wanted == "ML761":
        assert done.error_in_exec.at is not None
        assert done.error_in_exec.at.line == 2
    assert shell.user_ns["taken"] == 3
