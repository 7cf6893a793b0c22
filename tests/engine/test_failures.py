"""What is found wrong while a model is compiled or runs: the place, the words, nothing broken."""

from __future__ import annotations

import dataclasses
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from maxlab.config import config, set_config
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import DeviceError, ExecutionError, GraphError, MaxlabError, ToolchainError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.toolchain import units

F32 = DType.float32
I64 = DType.int64


# ---------------------------------------------------------------- indices
@pytest.mark.parametrize("bad", [5, -6, 2**40, -(2**62)])
@pytest.mark.parametrize("axis", [0, 1])
def test_indices_out_of_range(bad: int, axis: int) -> None:
    with Graph("g", input_types=[TensorType(F32, [5, 5]), TensorType(I64, ["n"])]) as graph:
        x, at = (v.tensor for v in graph.inputs)
        graph.output(ops.gather(x, at, axis) * 2)
    model = InferenceSession().load(graph)
    table = np.arange(25, dtype=np.float32).reshape(5, 5)
    for place in (0, 1, 2):
        at0 = np.array([0, 4, -5])
        np.testing.assert_array_equal(
            model(table, at0)[0].to_numpy(), 2 * np.take(table, at0, axis)
        )
        at0[place] = bad
        with pytest.raises(
            ExecutionError, match=f"the index {bad} is out of range for a dim of size 5"
        ) as caught:
            model(table, at0)
        assert caught.value.at is not None
        assert "ops.gather" in caught.value.at.text


def test_the_gather_that_failed_is_named() -> None:
    with Graph("g", input_types=[TensorType(I64, ["n"]), TensorType(I64, ["n"])]) as graph:
        a, b = (v.tensor for v in graph.inputs)
        first = ops.constant(np.ones((3, 4), np.float32), F32, DeviceRef.CPU())
        second = ops.constant(np.ones((7, 4), np.float32), F32, DeviceRef.CPU())
        x = ops.gather(first, a, 0)
        y = ops.gather(second, b, 0)
        graph.output(ops.softmax(x + y))
    model = InferenceSession().load(graph)
    for inputs, size, text in (
        (([3], [0]), 3, "x = ops.gather(first"),
        (([0], [7]), 7, "y = ops.gather(second"),
    ):
        with pytest.raises(ExecutionError, match=f"size {size}") as caught:
            model(*(np.array(i) for i in inputs))
        assert caught.value.at is not None
        assert text in caught.value.at.text


def test_indices_out_of_range_inside_of_other_kernels() -> None:
    with Graph("g", input_types=[TensorType(F32, ["v", 4]), TensorType(I64, ["n"])]) as graph:
        x, at = (v.tensor for v in graph.inputs)
        g = ops.gather(x, at, 0)
        graph.output(
            ops.pad(ops.relu(g), [1, 1, 0, 0]), ops.sum(ops.gather(x, at, 1), 0), ops.softmax(g)
        )
    model = InferenceSession().load(graph)
    table = np.ones((4, 4), np.float32)
    assert model(table, np.array([3, 0]))[0].shape == (4, 4)
    for _ in range(3):
        with pytest.raises(ExecutionError):
            model(table, np.array([3, 4]))
        with pytest.raises(ExecutionError, match="size 0"):
            model(table[:0], np.array([0]))
    assert model(table[:0], np.zeros(0, np.int64))[0].shape == (2, 4)


def test_an_index_that_is_known_to_be_out_of_range() -> None:
    with Graph("g", input_types=[TensorType(F32, [5])]) as graph:
        at = ops.constant(np.array([7]), I64, DeviceRef.CPU())
        table = ops.constant(np.arange(5, dtype=np.float32), F32, DeviceRef.CPU())
        graph.output(graph.inputs[0].tensor, ops.gather(table, at, 0))
    model = InferenceSession().load(graph)
    with pytest.raises(ExecutionError, match="the index 7"):
        model(np.ones(5, np.float32))


# ---------------------------------------------------------------- graphs
def test_no_output() -> None:
    with pytest.raises(GraphError) as caught:
        InferenceSession().load(Graph("g", input_types=[TensorType(F32, [2])]))
    assert caught.value.code == "ML322"


def test_values_of_another_graph() -> None:
    with Graph("one", input_types=[TensorType(F32, [2])]) as one:
        x = one.inputs[0].tensor
        one.output(x)
    with Graph("two", input_types=[TensorType(F32, [2])]) as two:
        with pytest.raises(GraphError, match="another graph"):
            two.output(two.inputs[0].tensor + x)
        two.output(two.inputs[0].tensor * 3)
    np.testing.assert_array_equal(
        InferenceSession().load(two)(np.ones(2, np.float32))[0].to_numpy(), 3
    )


def test_graphs_for_the_gpu() -> None:
    gpu = DeviceRef.GPU(0)
    with Graph("g", input_types=[TensorType(F32, [2], device=gpu)]) as graph:
        graph.output(graph.inputs[0].tensor * 2)
    with pytest.raises(DeviceError, match="gpu:0"):
        InferenceSession().load(graph)
    with Graph("h", input_types=[TensorType(F32, [2], device=DeviceRef.CPU())]) as graph:
        graph.output(ops.transfer_to(graph.inputs[0].tensor, gpu))
    with pytest.raises(DeviceError) as caught:
        InferenceSession().load(graph)
    assert caught.value.at is not None
    assert "transfer_to" in caught.value.at.text


def test_dtypes_the_cpu_cannot_compute_with() -> None:
    with Graph("g", input_types=[TensorType(DType.float8_e5m2, [2])]) as graph:
        graph.output(graph.inputs[0].tensor.cast(F32))
    with pytest.raises(MaxlabError, match="float8_e5m2"):
        InferenceSession().load(graph)


def test_compiling_leaves_the_graph_as_it_was() -> None:
    with Graph(
        "g", input_types=[TensorType(F32, [3, "n", 8]), TensorType(F32, [3, 8, "n"])]
    ) as graph:
        x, y = (v.tensor for v in graph.inputs)
        graph.output(ops.softmax(x @ y) @ x, ops.mean(x + 0))
    text = str(graph)
    for _ in range(2):
        model = InferenceSession().load(graph)
        assert str(graph) == text
    rng = np.random.default_rng(0)
    a, b = rng.random((3, 4, 8), np.float32), rng.random((3, 8, 4), np.float32)
    first = model(a, b)
    with graph, pytest.warns(UserWarning, match="replaces it"):
        graph.output(graph.inputs[0].tensor * 2)
    assert len(model(a, b)) == len(first) == 2


# ---------------------------------------------------------------- the toolchain
@pytest.fixture
def fresh() -> Iterator[None]:
    """Kernels are looked for on the disk again, with the settings that the test makes."""
    old = config()
    units.forget()
    yield
    set_config(old)
    units.forget()


def unusual(number: float) -> Graph:
    """A graph whose kernel no other test has."""
    with Graph("unusual", input_types=[TensorType(F32, ["n"])]) as graph:
        graph.output(graph.inputs[0].tensor * number)
    return graph


def test_no_compiler(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_config(dataclasses.replace(config(), cache_dir=tmp_path, cc=None))
    monkeypatch.setenv("PATH", str(tmp_path))
    graph = unusual(1.2345)
    text = str(graph)
    with pytest.raises(ToolchainError, match="no C compiler was found") as caught:
        InferenceSession().load(graph)
    assert "apt-get install gcc" in str(caught.value)
    assert str(graph) == text
    monkeypatch.undo()
    assert InferenceSession().load(graph)(np.ones(2, np.float32))[0].to_numpy()[0] == np.float32(
        1.2345
    )


def test_a_compiler_that_fails(fresh: None, tmp_path: Path) -> None:
    fake = tmp_path / "cc"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo "gcc 1.0"; exit 0; }\n'
        'echo "unit.c:1:1: error: no" >&2\nexit 1\n'
    )
    fake.chmod(0o755)
    set_config(dataclasses.replace(config(), cache_dir=tmp_path / "cache", cc=str(fake)))
    with pytest.raises(ToolchainError):
        InferenceSession().load(unusual(2.3456))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_cannot_be_written(fresh: None, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(stat.S_IRUSR | stat.S_IXUSR)
    set_config(dataclasses.replace(config(), cache_dir=locked / "cache"))
    made = InferenceSession().load(unusual(3.4567))(np.ones(2, np.float32))
    assert made[0].to_numpy()[0] == np.float32(3.4567)


def test_a_cache_path_that_is_a_file(fresh: None, tmp_path: Path) -> None:
    """Kernels go to a directory of this process instead."""
    taken = tmp_path / "file"
    taken.write_text("not a directory")
    set_config(dataclasses.replace(config(), cache_dir=taken))
    made = InferenceSession().load(unusual(4.5678))(np.ones(2, np.float32))
    assert made[0].to_numpy()[0] == np.float32(4.5678)


def test_memory_that_is_not_there() -> None:
    """A size no machine has is refused, and the model goes on."""
    with Graph("g", input_types=[TensorType(F32, ["n"])]) as graph:
        x = graph.inputs[0].tensor
        big = ops.broadcast_to(x.reshape((-1, 1)), ["n", 2**40])
        graph.output(ops.sum(ops.exp(big), 0)[:, :2])
    model = InferenceSession().load(graph)
    with pytest.raises((MaxlabError, MemoryError)):
        model(np.ones(1000, np.float32))
    assert model is not None


def test_an_interpreter_that_ends_with_models_alive() -> None:
    code = """
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
with Graph("g", input_types=[TensorType(DType.float32, ["n", 64])]) as g:
    g.output(ops.softmax(g.inputs[0].tensor @ g.inputs[0].tensor.T))
model = engine.InferenceSession(num_threads=3).load(g)
kept = model(np.ones((300, 64), np.float32))
print(kept[0].shape)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "(300, 300)", "")
