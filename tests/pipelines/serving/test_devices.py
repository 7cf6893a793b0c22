"""The pipeline of text on a simulated GPU: the same tokens, and few copies to the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from maxlab import driver, trace
from maxlab.pipelines.architectures import llama as architecture
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.registry import PipelineRegistry
from tests.pipelines.serving.running import TEXTS, context, written


def made(registry: PipelineRegistry, folder: Path, **given: Any) -> Any:
    settings: dict[str, Any] = {"max_length": 200, "max_batch_size": 4, "do_penalties": True}
    _, found = registry.retrieve(PipelineConfig(model_path=str(folder), **settings, **given))
    return found


def answers(pipeline: Any, steps: int) -> list[list[int]]:
    params: list[dict[str, Any]] = [{}, {"temperature": 2.0, "seed": 3, "repetition_penalty": 1.4}]
    contexts = [
        context(pipeline, text, max_new_tokens=6, **one)
        for text, one in zip(TEXTS[1:3], params, strict=True)
    ]
    return written(pipeline, *contexts, steps=steps)


def test_several_steps_copy_their_tokens_to_the_host_once(
    registry: PipelineRegistry, llama: Path
) -> None:
    """Probe: several steps as a loop of single ones, with a round trip in each."""
    pytest.importorskip("torch", reason="torch not installed")
    registry.register(architecture.ARCHITECTURES[0])
    wanted = answers(made(registry, llama), 1)
    with driver.simulated(1):
        pipeline = made(registry, llama, device_specs=[driver.DeviceSpec.accelerator(0)])
        for steps, copies in ((1, 6), (3, 2), (6, 1)):
            trace.recorder().clear()
            assert answers(pipeline, steps) == wanted
            events = [event.data for event in trace.recorder().events("transfer")]
            back = [one for one in events if "cpu" in one["target"] and "gpu" in one["source"]]
            assert [one["dtype"] for one in back] == ["int64"] * copies
