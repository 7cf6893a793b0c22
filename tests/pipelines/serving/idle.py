"""Pipelines without a model, for processes that start at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from maxlab.errors import WeightError
from maxlab.pipelines.lib.registry import PipelineFactory


class Idle:
    """A pipeline that never gets anything done."""

    kv_managers = ()
    pipeline_config = SimpleNamespace(
        max_batch_size=1,
        max_ce_batch_size=1,
        max_queue_size_tg=None,
        max_num_steps=1,
        prefill_chunk_size=1,
        enable_chunked_prefill=True,
        enable_in_flight_batching=False,
        max_batch_context_length=None,
        model_config=SimpleNamespace(default_device_spec=SimpleNamespace(device_type="cpu")),
    )

    def __init__(self, **parts: Any) -> None:
        self.parts = parts

    def require_accepted(self, context: Any) -> None:
        """Takes every request."""


def broken(**parts: Any) -> Any:
    """A pipeline whose weights do not fit."""
    raise WeightError("ML601", "up_proj of 4 rows expected ≠ 5 given")


def factory(pipeline: Any) -> PipelineFactory:
    """A factory that calls ``pipeline``."""
    config: Any = SimpleNamespace(custom_architectures=[], draft_model_config=None)
    model: Any = Idle
    return PipelineFactory(pipeline, config, model, 0, {}, model)
