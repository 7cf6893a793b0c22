"""Whatever tensors, sessions and models are given, a result or a typed error comes out."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from maxlab import engine
from maxlab.driver import Tensor, accelerator
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType
from tests.engine.bad_inputs import ENTRIES, swept

F32 = DType.float32


@pytest.mark.parametrize("name", ENTRIES)
def test_entry(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the empty text names the folder
    with mock.patch.object(accelerator, "_backend", accelerator._backend):
        assert [str(finding) for finding in swept(name)] == []


def _model() -> engine.Model:
    graph = Graph("g", lambda x: x * 2, [TensorType(F32, ["n"])])
    return engine.InferenceSession(num_threads=1).load(graph)


def test_outputs_outlive_the_model_and_its_inputs() -> None:
    (y,) = _model()(np.arange(1000, dtype=np.float32))
    view = y.to_numpy()
    del y
    gc.collect()
    for _ in range(20):  # memory that was given back would be used again
        _model()(np.zeros(1000, np.float32))
    assert view.tolist() == (2 * np.arange(1000)).tolist()


def test_a_view_outlives_its_tensor() -> None:
    tensor = Tensor.zeros([4, 4], F32)
    tensor[...] = 3.0
    part = tensor[1:, 2]
    del tensor
    gc.collect()
    Tensor.zeros([4, 4], F32)
    assert part.to_numpy().tolist() == [3.0] * 3


def test_a_model_is_called_while_it_reads_its_input() -> None:
    """The ``__dlpack__`` of an input may call the model itself."""
    model, inner = _model(), []

    class Nested:
        def __init__(self, array: np.ndarray[tuple[int], np.dtype[np.float32]]) -> None:
            self.array = array

        def __dlpack__(self, **options: object) -> object:
            inner.append(model(self.array)[0].to_numpy().tolist())
            return self.array.__dlpack__(**options)  # type: ignore[arg-type]

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    (y,) = model(Nested(np.ones(3, np.float32)))
    assert y.to_numpy().tolist() == [2, 2, 2]
    assert inner == [[2, 2, 2]]


def test_threads_call_one_model() -> None:
    model = _model()
    wrong: list[int] = []

    def work(size: int) -> None:
        x = np.full(size, size, np.float32)
        for _ in range(50):
            (y,) = model(x)
            if not (y.to_numpy() == 2 * size).all() or y.shape != (size,):
                wrong.append(size)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 7, 1000, 5000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_threads_build_graphs() -> None:
    names: list[str] = []

    def work(number: int) -> None:
        for turn in range(20):
            name = f"g{number}_{turn}"
            with Graph(name, input_types=[TensorType(F32, ["n"])]) as graph:
                x = graph.inputs[0].tensor
                for _ in range(number + 1):
                    x = x + 1
                graph.output(x)
            if len(graph.function.ops) != 2 * (number + 1) + 1:
                names.append(name)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == []
