"""Serving of models: configurations, tokenizers, the registry of architectures, and pipelines.

The names below are imported when they are first asked for. ``core`` has the state of requests,
``lib`` the parts of pipelines, ``architectures`` the models that maxlab brings, and ``nn`` older
import paths of ``maxlab.nn``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maxlab.errors import missing

if TYPE_CHECKING:
    from maxlab.pipelines.lib.audio_decoder import AudioDecoder as AudioDecoder
    from maxlab.pipelines.lib.audio_generator_model import (
        AudioGeneratorModel as AudioGeneratorModel,
    )
    from maxlab.pipelines.lib.audio_generator_pipeline import (
        AudioGeneratorPipeline as AudioGeneratorPipeline,
    )
    from maxlab.pipelines.lib.config import AudioGenerationConfig as AudioGenerationConfig
    from maxlab.pipelines.lib.config import KVCacheConfig as KVCacheConfig
    from maxlab.pipelines.lib.config import LoRAConfig as LoRAConfig
    from maxlab.pipelines.lib.config import MAXModelConfig as MAXModelConfig
    from maxlab.pipelines.lib.config import PipelineConfig as PipelineConfig
    from maxlab.pipelines.lib.config import ProfilingConfig as ProfilingConfig
    from maxlab.pipelines.lib.config import SamplingConfig as SamplingConfig
    from maxlab.pipelines.lib.config_enums import PipelineRole as PipelineRole
    from maxlab.pipelines.lib.config_enums import RepoType as RepoType
    from maxlab.pipelines.lib.config_enums import RopeType as RopeType
    from maxlab.pipelines.lib.config_enums import SupportedEncoding as SupportedEncoding
    from maxlab.pipelines.lib.embeddings_pipeline import EmbeddingsPipeline as EmbeddingsPipeline
    from maxlab.pipelines.lib.hf_utils import HuggingFaceRepo as HuggingFaceRepo
    from maxlab.pipelines.lib.hf_utils import download_weight_files as download_weight_files
    from maxlab.pipelines.lib.interfaces import GenerateMixin as GenerateMixin
    from maxlab.pipelines.lib.interfaces import KVCacheMixin as KVCacheMixin
    from maxlab.pipelines.lib.interfaces import ModelInputs as ModelInputs
    from maxlab.pipelines.lib.interfaces import ModelOutputs as ModelOutputs
    from maxlab.pipelines.lib.interfaces import PipelineModel as PipelineModel
    from maxlab.pipelines.lib.pipeline_variants.text_generation import (
        TextGenerationPipeline as TextGenerationPipeline,
    )
    from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY as PIPELINE_REGISTRY
    from maxlab.pipelines.lib.registry import PipelineRegistry as PipelineRegistry
    from maxlab.pipelines.lib.registry import SupportedArchitecture as SupportedArchitecture
    from maxlab.pipelines.lib.speech_token_pipeline import (
        SpeechTokenGenerationPipeline as SpeechTokenGenerationPipeline,
    )
    from maxlab.pipelines.lib.tokenizer import (
        IdentityPipelineTokenizer as IdentityPipelineTokenizer,
    )
    from maxlab.pipelines.lib.tokenizer import (
        PreTrainedPipelineTokenizer as PreTrainedPipelineTokenizer,
    )
    from maxlab.pipelines.lib.tokenizer import SpeechTokenizer as SpeechTokenizer
    from maxlab.pipelines.lib.tokenizer import TextAndVisionTokenizer as TextAndVisionTokenizer
    from maxlab.pipelines.lib.tokenizer import TextTokenizer as TextTokenizer
    from maxlab.pipelines.lib.utils import upper_bounded_default as upper_bounded_default

_NAMES = {
    "audio_decoder": ("AudioDecoder",),
    "audio_generator_model": ("AudioGeneratorModel",),
    "audio_generator_pipeline": ("AudioGeneratorPipeline",),
    "config": (
        "AudioGenerationConfig",
        "KVCacheConfig",
        "LoRAConfig",
        "MAXModelConfig",
        "PipelineConfig",
        "ProfilingConfig",
        "SamplingConfig",
    ),
    "config_enums": ("PipelineRole", "RepoType", "RopeType", "SupportedEncoding"),
    "embeddings_pipeline": ("EmbeddingsPipeline",),
    "hf_utils": ("HuggingFaceRepo", "download_weight_files"),
    "interfaces": (
        "GenerateMixin",
        "KVCacheMixin",
        "ModelInputs",
        "ModelOutputs",
        "PipelineModel",
    ),
    "pipeline_variants.text_generation": ("TextGenerationPipeline",),
    "registry": ("PIPELINE_REGISTRY", "PipelineRegistry", "SupportedArchitecture"),
    "speech_token_pipeline": ("SpeechTokenGenerationPipeline",),
    "tokenizer": (
        "IdentityPipelineTokenizer",
        "PreTrainedPipelineTokenizer",
        "SpeechTokenizer",
        "TextAndVisionTokenizer",
        "TextTokenizer",
    ),
    "utils": ("upper_bounded_default",),
}
_MODULE_OF = {
    name: f"maxlab.pipelines.lib.{module}" for module, names in _NAMES.items() for name in names
}
__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 - a list of names all the same


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise missing("maxlab.pipelines", name, _MODULE_OF)
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
