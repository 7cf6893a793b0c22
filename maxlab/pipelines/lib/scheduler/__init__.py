"""The scheduler of text generation: which requests share a batch, and when pages are given back."""

from __future__ import annotations

from maxlab.pipelines.lib.scheduler.limits import Limits
from maxlab.pipelines.lib.scheduler.pipeline import ScheduledPipeline
from maxlab.pipelines.lib.scheduler.records import RequestStep, StepRecord
from maxlab.pipelines.lib.scheduler.scheduler import Step, TextGenerationScheduler

__all__ = [
    "Limits",
    "RequestStep",
    "ScheduledPipeline",
    "Step",
    "StepRecord",
    "TextGenerationScheduler",
]
