"""Architectures of models that write text: their encodings, files and rotary embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maxlab.graph.weights import WeightData, WeightsFormat
from maxlab.interfaces import PipelineTask, PipelineTokenizer
from maxlab.nn.kv_cache import KVCacheStrategy
from maxlab.pipelines.architectures.decoder_weights import (
    convert_gguf_state_dict,
    convert_safetensor_state_dict,
)
from maxlab.pipelines.lib.architecture import SupportedArchitecture
from maxlab.pipelines.lib.config_enums import RopeType, SupportedEncoding
from maxlab.pipelines.lib.interfaces import PipelineModel
from maxlab.pipelines.lib.tokenizer import TextTokenizer


def decoder_architecture(
    name: str,
    example_repo_ids: list[str],
    pipeline_model: type[PipelineModel[Any]],
    convert: Callable[..., dict[str, WeightData]] = convert_safetensor_state_dict,
    *,
    gguf_rope: RopeType | None = None,
    convert_gguf: Callable[..., dict[str, WeightData]] = convert_gguf_state_dict,
    reads_float8: bool = False,
    reads_gptq: bool = False,
    multi_gpu_supported: bool = False,
    tokenizer: Callable[..., PipelineTokenizer[Any, Any, Any]] = TextTokenizer,
) -> SupportedArchitecture:
    """The architecture of a model that writes text.

    Args:
        name: The name of the class in transformers.
        example_repo_ids: Repositories with such checkpoints.
        pipeline_model: The model.
        convert: The weights of a checkpoint by the names of the model.
        gguf_rope: How rotary embeddings pair the rows of queries and keys in GGUF files: ``normal``
            where llama.cpp reorders them, ``neox`` where not; None for a model that reads no such
            files.
        convert_gguf: The weights of a GGUF file by the names of the model.
        reads_float8: Whether layers may have matrices of 8-bit floats.
        reads_gptq: Whether layers may have matrices as GPTQ packs them.
        multi_gpu_supported: Whether several devices can compute the model together.
        tokenizer: Makes the tokenizer.
    """
    encodings = [SupportedEncoding.float32, SupportedEncoding.bfloat16, SupportedEncoding.float16]
    adapters = {WeightsFormat.safetensors: convert}
    if gguf_rope is not None:
        encodings += [one for one in SupportedEncoding if _is_gguf(one)]
        adapters[WeightsFormat.gguf] = convert_gguf
    if reads_float8:
        encodings.append(SupportedEncoding.float8_e4m3fn)
    if reads_gptq:
        encodings.append(SupportedEncoding.gptq)
    return SupportedArchitecture(
        name=name,
        example_repo_ids=example_repo_ids,
        default_encoding=SupportedEncoding.float32,
        supported_encodings={one: [KVCacheStrategy.PAGED] for one in encodings},
        pipeline_model=pipeline_model,
        task=PipelineTask.TEXT_GENERATION,
        tokenizer=tokenizer,
        default_weights_format=WeightsFormat.safetensors,
        rope_type=RopeType.none if gguf_rope is None else gguf_rope,
        weight_adapters=adapters,
        multi_gpu_supported=multi_gpu_supported,
    )


def _is_gguf(encoding: SupportedEncoding) -> bool:
    packing = encoding.quantization_encoding
    return packing is not None and packing.is_gguf


__all__ = ["decoder_architecture"]
