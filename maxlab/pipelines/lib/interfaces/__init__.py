"""The interfaces of pipelines: models with their inputs and outputs, caches, and generation.

Extend `PipelineModel` to bring a model of your own; `maxlab.pipelines.lib.registry` finds it by the
architecture that a checkpoint names.
"""

from __future__ import annotations

from maxlab.pipelines.lib.interfaces.cache import KVCacheMixin, get_paged_manager
from maxlab.pipelines.lib.interfaces.generate import GenerateMixin
from maxlab.pipelines.lib.interfaces.model import AlwaysSignalBuffersMixin, PipelineModel
from maxlab.pipelines.lib.interfaces.values import ModelInputs, ModelOutputs

__all__ = [
    "AlwaysSignalBuffersMixin",
    "GenerateMixin",
    "KVCacheMixin",
    "ModelInputs",
    "ModelOutputs",
    "PipelineModel",
    "get_paged_manager",
]
