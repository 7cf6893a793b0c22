"""The configurations of pipelines, under the names of MAX."""

from __future__ import annotations

from maxlab.pipelines.lib.audio_config import (
    AudioGenerationConfig,
    PrependPromptSpeechTokens,
    PrometheusMetricsMode,
)
from maxlab.pipelines.lib.kv_cache_config import KVCacheConfig
from maxlab.pipelines.lib.lora_config import LoRAConfig
from maxlab.pipelines.lib.model_config import MAXModelConfig
from maxlab.pipelines.lib.pipeline_config import PipelineConfig
from maxlab.pipelines.lib.profiling_config import ProfilingConfig
from maxlab.pipelines.lib.sampling import SamplingConfig

__all__ = [
    "AudioGenerationConfig",
    "KVCacheConfig",
    "LoRAConfig",
    "MAXModelConfig",
    "PipelineConfig",
    "PrependPromptSpeechTokens",
    "ProfilingConfig",
    "PrometheusMetricsMode",
    "SamplingConfig",
]
