"""The compiled files that all exported programs share."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from tests.exporting.programs import Builder, Program, make


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    if shutil.which("make") is None or shutil.which("gcc") is None:
        pytest.skip("needs make and gcc")
    folder = tmp_path_factory.mktemp("objects")

    def body(x: Any) -> Any:
        return x @ ops.constant(np.eye(4, dtype="f4"), DType.float32)

    graph = Graph("shared", body, [TensorType(DType.float32, [4, 4])])
    engine.InferenceSession(num_threads=1).load(graph).export_c(folder)
    make(folder, "-j2")
    return Builder(folder)


@pytest.fixture(scope="session")
def strict(builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A program that looks for every wrong access: it picks rows of a table, and scales them."""
    folder = tmp_path_factory.mktemp("strict")
    table = np.arange(40, dtype="f4").reshape(10, 4)

    def body(indices: Any, scale: Any) -> Any:
        rows = ops.gather(ops.constant(table, DType.float32), indices, axis=0)
        return rows * scale, ops.sum(rows, axis=1)

    types = [TensorType(DType.int64, ["n"]), TensorType(DType.float32, ["n", 4])]
    made = engine.InferenceSession(num_threads=2).load(Graph("picked", body, types))
    done = made.export_c(folder)
    make(folder, "-j2", "CC=gcc -fsanitize=address,undefined -fno-sanitize-recover=undefined -g")
    return Program(folder, done)
