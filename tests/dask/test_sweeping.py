"""Grids: their points in order, their results as a table, and errors at a point."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest

from maxlab import dask
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import ExecutionError, InputError, InputTypeError
from maxlab.graph import Graph, TensorType


def product(n: int, scale: float = 1.0) -> dict[str, Any]:
    """The sum of the product of a matrix of ones with itself, by a graph that is compiled there."""
    graph = Graph("product", lambda x: (x @ x) * scale, [TensorType(DType.float32, [n, n])])
    (found,) = InferenceSession().load(graph)(np.ones((n, n), np.float32))
    return {"sum": np.float64(found.to_numpy().sum()), "kernels": n}


def fails(n: int) -> float:
    return 1 / n


def refuses(n: int) -> int:
    if n:
        raise InputError("ML981", "no")
    return n


def test_a_graph_at_every_point(client: Any) -> None:
    found = dask.sweep(client, product, {"n": [2, 3], "scale": [1.0, 0.5]})
    points = [(n, scale) for n in (2, 3) for scale in (1.0, 0.5)]
    assert [(row["n"], row["scale"]) for row in found] == points
    assert found.column("sum") == [n**3 * scale for n, scale in points]
    assert found.columns == ["n", "scale", "sum", "kernels", "seconds", "worker"]
    assert found.best("sum") == found[1]
    assert found.best("sum", largest=True)["n"] == 3
    assert all(row["seconds"] > 0 and row["worker"].startswith("tcp://") for row in found)
    rows = list(csv.reader(io.StringIO(found.to_csv())))
    assert rows[0] == ["n", "scale", "sum", "kernels", "seconds [s]", "worker"]
    assert [row[:3] for row in rows[1:]] == [
        [str(n), str(scale), str(n**3 * scale)] for n, scale in points
    ]
    lines = found.table(2).splitlines()
    assert lines[0].split() == found.columns
    assert len(lines) == 4
    assert lines[-1] == "… 2 more"


def test_points_one_by_one(client: Any) -> None:
    found = dask.sweep(client, fails, [{"n": 4}, {"n": 2}])
    assert found.column("value") == [0.25, 0.5]


def test_errors_at_a_point(client: Any) -> None:
    with pytest.raises(ExecutionError, match=r"tcp://127\S* raised ZeroDivisionError[^$]*ML882"):
        dask.sweep(client, fails, {"n": [1, 0, 2]})
    with pytest.raises(InputError, match=r"ML981[^$]*tcp://127"):
        dask.sweep(client, refuses, {"n": [0, 1]})
    found = dask.sweep(client, fails, {"n": [1, 0, 2]}, keep_errors=True)
    assert found.column("value") == [1.0, None, 0.5]
    assert found.columns[-1] == "error"
    assert "ZeroDivisionError" in found[1]["error"]
    assert found.best("value") == found[2]
    assert not client.futures


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"grid": {}}, InputError), ({"grid": []}, InputError), ({"grid": {"n": []}}, InputError),
        ({"grid": {"n": 3}}, InputTypeError), ({"grid": [3]}, InputTypeError),
        ({"grid": {"worker": [1]}}, InputError), ({"grid": {1: [1]}}, InputError),
        ({"prompts": "a"}, InputError), ({"max_length": 9}, InputError),
        ({"function": 3, "prompts": "a"}, InputTypeError),
        ({"function": "folder"}, InputTypeError),
        ({"function": "folder", "prompts": "a"}, (TypeError, ValueError)),
    ],
)  # fmt: skip
def test_arguments_are_checked(client: Any, given: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        dask.sweep(**{"client": client, "function": fails, "grid": {"n": [1]}, **given})
