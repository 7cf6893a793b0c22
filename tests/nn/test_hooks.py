"""``PrintHook``: names, values of runs, files, and its end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from maxlab import nn
from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from tests.cpu_and_gpu import at, buffer, numpy, session
from tests.nn.running import Array, filled, random

F32 = DType.float32
CPU = DeviceRef.CPU()


@pytest.fixture(autouse=True)
def _no_hooks_left() -> Any:
    yield
    nn.clear_hooks()


class Block(nn.Module):
    def __init__(self, place: DeviceRef = CPU) -> None:
        self.inner = nn.Linear(3, 3, F32, place)

    def __call__(self, x: Any, *, scale: Any = None, times: float = 2.0) -> Any:
        return self.inner(x) * times, x


class Model(nn.Module):
    def __init__(self, place: DeviceRef = CPU) -> None:
        self.blocks = nn.LayerList([Block(place), Block(place)])
        self.blocks[1].inner = self.blocks[0].inner  # one layer, called twice

    def __call__(self, x: Any) -> Any:
        for block in self.blocks:
            x, _ = block(x, scale=x)
        return x


def labels(text: str) -> list[str]:
    return re.findall(r"^(\S+) = tensor", text, re.MULTILINE)


def run(graph: Graph, model: nn.Module, place: DeviceRef, x: Array) -> Array:
    loaded = session(place).load(graph, weights_registry=model.state_dict())
    return numpy(loaded.execute(at(x, place))[0])


def test_every_call_is_printed_and_written(
    place: DeviceRef, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model(place)
    w = filled(model)["blocks.0.inner.weight"]
    hook = nn.PrintHook(export_path=str(tmp_path / "out"))
    assert hook.export_path == str(tmp_path / "out")
    hook.name_layers(model)
    graph = Graph("g", model, [TensorType(F32, ["n", 3], place)])
    assert not (tmp_path / "out").exists()
    x = random(2, 3)
    made = run(graph, model, place, x)
    assert labels(capsys.readouterr().out) == [
        "model.blocks.0.inner-input_0",
        "model.blocks.0.inner-output",
        "model.blocks.0-input_0",
        "model.blocks.0-input_scale",
        "model.blocks.0-output_0",
        "model.blocks.0-output_1",
        "model.blocks.0.inner@2-input_0",
        "model.blocks.0.inner@2-output",
        "model.blocks.1-input_0",
        "model.blocks.1-input_scale",
        "model.blocks.1-output_0",
        "model.blocks.1-output_1",
        "model-input_0",
        "model-output",
    ]
    written = {path.stem: np.load(path) for path in (tmp_path / "out").iterdir()}
    assert len(written) == 14
    assert np.array_equal(written["model-input_0"], x)
    assert np.array_equal(written["model-output"], made)
    assert np.allclose(written["model.blocks.0.inner-output"], x @ w.T, atol=1e-5)
    assert hook.calls["model.blocks.0.inner"] == 2
    assert re.search(r"^model\.blocks\.0\.inner +2$", hook.summary(), re.MULTILINE)


def test_steps_keep_files_and_runs_replace_them(tmp_path: Path) -> None:
    model = nn.Linear(2, 2, F32, CPU)
    filled(model)
    hook = nn.PrintHook(tmp_path)
    graph = Graph("g", model, [TensorType(F32, ["n", 2])])
    loaded = session(CPU).load(graph, weights_registry=model.state_dict())
    first, second, third = (random(n, 2) for n in (1, 2, 3))
    loaded(first)
    loaded(second)
    hook.step()
    loaded(third)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "linear-input_0-step_1.npy",
        "linear-input_0.npy",
        "linear-output-step_1.npy",
        "linear-output.npy",
    ]
    assert np.array_equal(np.load(tmp_path / "linear-input_0.npy"), second)
    assert np.array_equal(np.load(tmp_path / "linear-input_0-step_1.npy"), third)


def test_a_removed_hook_adds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Linear(2, 2, F32, CPU)
    row = TensorType(F32, ["n", 2])
    hook = nn.PrintHook()
    hook.remove()
    hook.remove()
    with Graph("own", input_types=[row]) as graph:
        other = nn.PrintHook()
        graph.output(model(graph.inputs[0].tensor))
    plain = Graph("g", model, [row])  # the other hook belonged to the first graph
    other.remove()
    with graph:
        nn.layer.remove_layer_hook(print)
    run(plain, model, CPU, random(1, 2))
    assert not capsys.readouterr().out
    run(graph, model, CPU, random(1, 2))
    assert labels(capsys.readouterr().out) == ["linear-input_0", "linear-output"]


def test_values_that_are_no_tensors_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    hook = nn.PrintHook()
    signal = nn.comm.Signals([CPU]).input_types()[0]
    with Graph("g", input_types=[buffer(CPU, 2), signal]) as graph:
        held, signals = (value.buffer for value in graph.inputs)
        x = ops.buffer_load(held)
        assert hook.print_value("a", x)
        assert hook.print_value("b", held)
        assert hook.print_value("c", {"k": [3, x]})
        for nothing in (None, 3, "text", [], {}, [None], signals, object()):
            assert not hook.print_value("d", nothing)
        graph.output()
    model = session(CPU).load(graph)
    model.execute(at(random(2), CPU), nn.comm.Signals([CPU]).buffers()[0])
    assert labels(capsys.readouterr().out) == ["a", "b", "c_k_1"]


def test_names_of_dicts_stay_in_the_folder(tmp_path: Path) -> None:
    class Keyed(nn.Module):
        def __init__(self) -> None:
            self.layers = {"../../up": nn.SiLU()}

        def __call__(self, x: Any) -> Any:
            return self.layers["../../up"](ops.cast(x, DType.bfloat16))

    nn.PrintHook(tmp_path / "in")
    graph = Graph("g", Keyed(), [TensorType(F32, [2])])
    x = np.array([0.1, -2], np.float32)
    session(CPU).load(graph).execute(at(x, CPU))
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    (file,) = (tmp_path / "in").glob("*up-input_0.npy")
    assert np.array_equal(np.load(file), x.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_paths_are_paths() -> None:
    loose: Any = nn.PrintHook
    with pytest.raises(ArgumentTypeError, match="ML701"):
        loose(3)
    with Graph("g", input_types=[TensorType(F32, [2])]) as graph:
        watch: Any = ops.watch
        with pytest.raises(ArgumentTypeError, match="ML701"):
            watch(graph.inputs[0], 3)
