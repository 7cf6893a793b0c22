"""Runs on a GPU, a simulated one: saved, compared and swept like those of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.driver import Accelerator, Tensor
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from tests.analysis.runs.made import with_times

GPU = DeviceRef.GPU()


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with driver.simulated():
        yield


def rows_on_gpu() -> Model:
    with Graph("rows", input_types=[TensorType(DType.float32, ["n", 8], GPU)]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.transfer_to(ops.softmax(ops.exp(x)), DeviceRef.CPU()))
    return engine.InferenceSession(devices=[Accelerator()]).load(graph)


def test_a_run_on_a_gpu_is_saved_and_compared(tmp_path: Path) -> None:
    model = rows_on_gpu()
    x = Tensor.from_numpy(np.ones((3, 8), np.float32)).to(Accelerator())
    profile = model.profile(x, runs=5, warmup=1)
    run = maxlab.load_run(profile.save(tmp_path / "gpu.mlprof"))
    assert run.device == profile.device == "simulated GPU"
    assert run.kernels == profile.kernels
    assert run.timeline.simulated
    devices = {kernel.get("device") for kernel in run.document["kernels"]}
    assert devices == {"gpu:0", "cpu:0"}, "a kernel, and the copy back to the host"
    slow = with_times(run, 3 * run.kernel_samples_ns, device="cpu")
    found = maxlab.diff(run, slow)
    assert len(found.changes) == len(run.kernels)
    assert "the devices differ: simulated GPU before, cpu after" in found.pairs[0].notes


def test_a_model_on_a_gpu_is_swept() -> None:
    found = maxlab.sweep(rows_on_gpu(), n=[1, 4], runs=2)
    assert found.device == "simulated GPU"
    assert [point.dims["n"] for point in found.points] == [1, 4]
    assert all(kernel.ns.all() for kernel in found.kernels)
