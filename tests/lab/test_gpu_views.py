"""Views of graphs on a GPU: the button, the document, and the list of what lives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.lab import GraphView, live
from maxlab.lab.inputs import inputs_for
from tests.lab.conftest import FakeComm

GPU = DeviceRef.GPU()


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with driver.simulated():
        yield


def graph_on_gpu() -> Graph:
    """Rows of a table by index, a product, and what comes back to the host."""
    types = [TensorType(DType.float32, ["n", 8], GPU), TensorType(DType.int32, ["k"], GPU)]
    with Graph("on_gpu", input_types=types) as graph:
        x, at = (value.tensor for value in graph.inputs)
        rows = ops.gather(x, at, axis=0)
        graph.output(ops.transfer_to(ops.softmax(rows @ ops.transpose(x, 0, 1)), DeviceRef.CPU()))
    return graph


def messages(comm: FakeComm) -> list[dict[str, Any]]:
    """The custom messages that were sent, without their buffers, and without those of progress,
    which a quick machine does not send."""
    return [content for content, _ in comm.custom() if content["type"] != "progress"]


def test_the_button_profiles_a_graph_that_was_not_loaded(comms: list[FakeComm]) -> None:
    view = GraphView(graph_on_gpu())
    [page] = comms
    page.say({"type": "profile"})
    assert [m["status"] for m in messages(page) if m["type"] == "profile"] == ["running", "done"]
    profile = view.document["profile"]
    assert profile is not None
    assert profile["device"] == "simulated GPU"
    assert profile["dims"] == {"n": 64, "k": 64}


def test_kernels_say_where_they_run_and_in_which_language(comms: list[FakeComm]) -> None:
    model = engine.InferenceSession(devices=[driver.Accelerator()]).load(graph_on_gpu())
    kernels = GraphView(model).document["kernels"]
    found = [(k.get("device"), k.get("language")) for k in kernels]
    assert found[-1] == ("cpu:0", None)  # the transfer to the host
    assert set(found[:-1]) == {("gpu:0", "cuda")}
    assert all("__global__" in (k["source"] or "") for k in kernels[:-1])


def test_inputs_are_made_on_the_device(comms: list[FakeComm]) -> None:
    model = engine.InferenceSession(devices=[driver.Accelerator()]).load(graph_on_gpu())
    assert all(not x.is_host for x in inputs_for(model))
    gpu = driver.Accelerator()
    table = driver.Tensor.from_numpy(np.ones((3, 8), np.float32)).to(gpu)
    model(table, driver.Tensor.from_numpy(np.zeros(2, np.int32)).to(gpu))
    assert [x.shape for x in inputs_for(model)] == [(3, 8), (2,)]


def test_models_of_a_gpu_are_listed_as_models() -> None:
    model = engine.InferenceSession(devices=[driver.Accelerator()]).load(graph_on_gpu())
    rows = [row for row in live.listing({"model": model}) if row.names == ("model",)]
    assert [row.kind for row in rows] == ["Model"]
