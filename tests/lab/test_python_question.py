"""The question ``python``: the program of the graph that a view shows."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import GraphError
from maxlab.graph import Graph, TensorType, ops
from maxlab.lab.questions.answering import handlers

ROW = TensorType(DType.float32, ["n", 4])


def test_the_program_of_what_is_shown() -> None:
    graph = Graph("scores", lambda x: ops.softmax(x * 2), [ROW])
    _, answer = handlers()["python"]
    told = answer(graph, {}).data
    assert told["text"] == graph.to_python()
    assert told["said"] == f"copied {told['text'].count(chr(10))} lines of Python"


def test_a_long_constant_says_how_it_is_written() -> None:
    graph = Graph("table", lambda x: x @ np.arange(4000.0, dtype=np.float32).reshape(4, -1), [ROW])
    _, answer = handlers()["python"]
    with pytest.raises(GraphError, match=r"graph.to_python\('net.py'\)"):
        answer(graph, {})
