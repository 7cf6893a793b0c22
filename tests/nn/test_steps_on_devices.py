"""What a recorder tells of experts on several devices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from maxlab import nn
from maxlab.dtype import DType
from maxlab.errors import DocumentError
from maxlab.graph import DeviceRef, Graph, TensorType
from maxlab.lab import StepView
from maxlab.nn.steps import StepRecorder, StepRecording
from tests.devices.places import load, places, put, refs_of
from tests.nn.running import filled, random

F32, CPU = DType.float32, DeviceRef.CPU()


def test_experts_on_several_devices(tmp_path: Path) -> None:
    """What the recorder and the file tell of vectors and bytes is what the gate chose."""
    path = tmp_path / "steps.jsonl"
    module = nn.moe.MoE([CPU], 8, 5, 2, 4, dtype=F32, ep_size=2)
    state = filled(module)
    recorder = StepRecorder(path)
    with places("2 cpus") as devices:
        refs = refs_of(devices)
        with Graph("two", input_types=[TensorType(F32, ["n", 8], ref) for ref in refs]) as graph:
            graph.output(*module([value.tensor for value in graph.inputs]))
        recorder.remove()
        model = load(graph, devices, **state)
        xs = [random(6, 8) for _ in devices]
        model(*(put(x, device) for x, device in zip(xs, devices, strict=True)))
    recorder.close()
    best = [np.argsort(-(x @ state["gate.gate_score.weight"].T), axis=1)[:, :2] for x in xs]
    wanted = [[int((ids < 3).sum()), int((ids >= 3).sum())] for ids in best]
    for recording in (recorder.recording, StepRecording.from_file(path)):
        seen = recording[-1].experts()
        (sent,) = seen.sent.values()
        assert sent.vectors.tolist() == wanted
        moved = wanted[0][1] + wanted[1][0]
        assert (sent.dispatched, sent.combined) == (moved * (8 * 4 + 4), moved * 8 * 4)
        assert sent.by_device.tolist() == [wanted[0][0] + wanted[1][0], wanted[0][1] + wanted[1][1]]
        assert [row[3] for row in seen._records()] == [0, 0, 0, 1, 1]
        assert f"device 1 {sent.by_device[1]}; {sent.dispatched} bytes dispatched" in repr(seen)
        assert f"device 0: {sent.by_device[0]} vectors" in seen._repr_html_()
        assert f"{sent.combined} bytes combined" in repr(StepView(recording)._text())
    lines = path.read_bytes().splitlines()
    for name, wrong in (("sent", {"dtype": "<i8", "shape": [1, 2], "data": "A" * 22 + "=="}),
                        ("dispatch_bytes", -1), ("combine_bytes", "4")):  # fmt: skip
        data = {**json.loads(lines[1]), name: wrong}
        path.write_bytes(b"\n".join([lines[0], json.dumps(data).encode(), b""]))
        with pytest.raises(DocumentError, match="ML474"):
            StepRecording.from_file(path)[-1].experts()
