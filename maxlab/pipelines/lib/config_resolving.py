"""How a pipeline's configuration is resolved: by the architecture, the files and the memory."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from maxlab.driver import DeviceSpec, load_devices
from maxlab.engine.times import size_text
from maxlab.errors import InputError
from maxlab.interfaces import fields
from maxlab.nn.kv_cache import KVCacheStrategy
from maxlab.pipelines.lib.architectures import Architecture, registry
from maxlab.pipelines.lib.config_enums import SupportedEncoding
from maxlab.pipelines.lib.memory_estimation import (
    GPU_GIGABYTES,
    MOST_BATCH,
    MemoryEstimate,
    free_memory,
    gpu_memory,
)
from maxlab.pipelines.lib.model_config import MAXModelConfig
from maxlab.pipelines.lib.model_shape import adapter_elements, shape_of

if TYPE_CHECKING:
    from maxlab.pipelines.lib.lora_config import LoRAConfig
    from maxlab.pipelines.lib.sampling import SamplingConfig

    class Pipeline(Protocol):
        """A `PipelineConfig`, as far as it is read here."""

        max_length: int | None
        max_batch_size: int | None
        prefill_chunk_size: int
        enable_chunked_prefill: bool
        enable_echo: bool
        execute_empty_batches: bool
        force: bool
        _asked_max_length: int | None

        @property
        def model_config(self) -> MAXModelConfig: ...
        @property
        def draft_model_config(self) -> MAXModelConfig | None: ...
        @property
        def lora_config(self) -> LoRAConfig | None: ...
        @property
        def sampling_config(self) -> SamplingConfig: ...
        def is_open(self, name: str) -> bool: ...
        def set_resolved(self, name: str, value: Any) -> bool: ...
        def _places(self) -> Mapping[str, Any]: ...


_LOG = logging.getLogger("maxlab.pipelines")
MAIN_SHARE = 0.7
"""The part of the budget that the model gets where a draft model takes the rest."""


def architecture_of(model: MAXModelConfig) -> Architecture | None:
    """The architecture that is registered for a model; None where none is."""
    found = registry()
    return None if found is None else found.retrieve_architecture(model.huggingface_model_repo)


def resolve_model(pipeline: Pipeline, model: MAXModelConfig) -> Architecture | None:
    """Chooses the encoding, the weight files and the cache of a model; returns its architecture.

    Raises:
        InputError: ML131, there are no weights of an encoding that can run; ML134, the
            architecture cannot do what is asked for.
    """
    architecture = architecture_of(model)
    if architecture is None:
        model.validate_and_resolve_quantization_encoding_weight_path(None)
        encoding = model.quantization_encoding
        assert encoding is not None, "it was chosen above"
        model.validate_and_resolve_with_resolved_quantization_encoding(
            {encoding: [KVCacheStrategy.PAGED]}, None
        )
        return None
    if pipeline.execute_empty_batches and not architecture.supports_empty_batches:
        raise InputError(
            "ML134",
            f"execute_empty_batches is set, and {architecture.name} takes no empty batches",
            fix="leave execute_empty_batches out",
        )
    if not pipeline.force:
        set_required(pipeline, architecture, is_draft=model is pipeline.draft_model_config)
    model.validate_multi_gpu_supported(architecture.multi_gpu_supported)
    supported = list(architecture.supported_encodings)
    model.validate_and_resolve_quantization_encoding_weight_path(
        architecture.default_encoding, supported
    )
    if model.quantization_encoding not in supported:
        raise InputError(
            "ML134",
            f"an encoding of {architecture.name} expected: {', '.join(supported)} ≠ "
            f"{model.quantization_encoding} given",
            fix="leave quantization_encoding out, or give one of them",
        )
    model.validate_and_resolve_rope_type(architecture.rope_type)
    model.validate_and_resolve_with_resolved_quantization_encoding(
        architecture.supported_encodings, architecture.default_weights_format
    )
    return architecture


def set_required(pipeline: Pipeline, architecture: Architecture, *, is_draft: bool = False) -> None:
    """Gives settings the values that an architecture needs, and says so in the log.

    Raises:
        InputError: ML179, the architecture needs a setting that there is not.
    """
    known = pipeline._places()
    for name, value in architecture.required_arguments.items():
        if name not in known:
            raise InputError(
                "ML179",
                f"{architecture.name} requires {name}, which is no setting of a pipeline",
                fix="mend required_arguments of the architecture, or pass force=True",
            )
        for keyword in (name, f"draft_{name}") if is_draft else (name,):
            if pipeline.set_resolved(keyword, value):
                _LOG.warning("%s needs %s=%r, which is set", architecture.name, keyword, value)


def check_experts(ep_size: int, specs: Sequence[DeviceSpec]) -> None:
    """Raises unless experts lie on one device or on all GPUs.

    Raises:
        InputError: ML981.
    """
    gpus = sum(spec.device_type == "gpu" for spec in specs)
    if ep_size not in (1, gpus):
        told = "1" if gpus < 2 else f"1 or {gpus}, the number of GPUs"
        raise fields.out_of_range("PipelineConfig.ep_size", ep_size, told)


def check_draft(pipeline: Pipeline, draft: MAXModelConfig) -> None:
    """Raises unless the draft model can go before the model; switches off what cannot.

    Raises:
        InputError: ML138, their tokens differ; ML982, a setting that needs the model alone.
    """
    sizes = [
        getattr(one.huggingface_config.get_text_config(), "vocab_size", None)
        for one in (pipeline.model_config, draft)
    ]
    if sizes[0] != sizes[1]:
        raise InputError(
            "ML138",
            f"a draft model with {sizes[0]} tokens, as the model has, expected ≠ {sizes[1]} tokens "
            f"of {draft.model_path}",
            fix="take a draft model with the tokenizer of the model",
        )
    for name, is_set in (
        ("enable_echo", pipeline.enable_echo),
        ("enable_structured_output", pipeline.sampling_config.enable_structured_output),
    ):
        if is_set:
            raise fields.contradiction(
                f"PipelineConfig has {name} and a draft model", "leave one of them out"
            )
    if pipeline.model_config.kv_cache_config.enable_prefix_caching and not pipeline.force:
        _LOG.warning("with a draft model requests share no pages: enable_prefix_caching is off")
        for keyword in ("enable_prefix_caching", "draft_enable_prefix_caching"):
            pipeline.set_resolved(keyword, False)


# ---------------------------------------------------------------- memory
def estimate(pipeline: Pipeline, on: str | None = None) -> MemoryEstimate:
    """The memory that the pipeline takes of its devices, or of GPUs of a name, for the batch and
    the length that are set; 1 and 512 where none is."""
    return _estimate(pipeline, pipeline.model_config, architecture_of(pipeline.model_config), on)


def _estimate(
    pipeline: Pipeline, model: MAXModelConfig, architecture: Architecture | None, on: str | None
) -> MemoryEstimate:
    cache = model.kv_cache_config
    encoding = model.quantization_encoding
    if encoding is None:
        raise InputError(
            "ML131", "no encoding is chosen yet", fix="call resolve() of the PipelineConfig"
        )
    if on is None:
        name = ", ".join(f"{one.device_type}:{max(one.id, 0)}" for one in model.device_specs)
        free = free_memory(load_devices(model.device_specs))
    else:
        name, free = gpu_memory(on)
    share = 1.0
    if pipeline.draft_model_config is not None:
        share = 1 - MAIN_SHARE if model is pipeline.draft_model_config else MAIN_SHARE
    config = model.huggingface_config
    shape = shape_of(config, is_registered=architecture is not None)
    element = encoding.cache_dtype.size_in_bytes
    fixed = 0
    most = shape.positions
    per_token = shape.layers * shape.cached * element
    if architecture is not None:
        fixed = int(_call(architecture, "estimate_activation_memory", 0, pipeline, config))
        asked = pipeline
        if model is pipeline.draft_model_config:  # it proposes nothing behind longer texts
            asked = copy.copy(pipeline)
            vars(asked)["max_length"] = None
        most = int(architecture.pipeline_model.calculate_max_seq_len(asked, config))
        per_token = _cache_of_token(architecture, model, config, encoding, per_token)
    chunk = pipeline.prefill_chunk_size if pipeline.enable_chunked_prefill else None
    logits = shape.vocab * 4
    lora, slots = pipeline.lora_config, 0
    if lora is not None and model is not pipeline.draft_model_config:
        slots = lora.max_num_loras * lora.max_lora_rank * adapter_elements(config) * element
    echo = logits if pipeline.enable_echo else 0  # the probabilities of every token of a prompt
    return MemoryEstimate(
        device=name,
        free=free,
        budget=int(free * cache.device_memory_utilization * share),
        weights=_weights(model) + slots,
        fixed_activations=fixed,
        # An architecture that tells its activations tells all of them.
        per_active_token=0 if fixed else shape.widest * element + echo,
        per_sequence=0 if fixed else logits,
        active_tokens=chunk if shape.cached else None,
        per_token=per_token,
        page=cache.kv_cache_page_size,
        batch=pipeline.max_batch_size or 1,
        length=pipeline.max_length or min(512, most or 512),
        most_length=most,
    )


def _weights(model: MAXModelConfig) -> int:
    """Bytes of the weights as they are computed with: half or twice as many where they are cast."""
    size = model.weights_size()
    cast = {SupportedEncoding.float32: size // 2, SupportedEncoding.bfloat16: size * 2}
    return size if model._applied_dtype_cast_from is None else cast[model._applied_dtype_cast_from]


def _call(architecture: Architecture, name: str, default: Any, *args: Any) -> Any:
    """The answer of a method of the architecture's model; ``default`` where it has none."""
    found = getattr(architecture.pipeline_model, name, None)
    return default if found is None else found(*args)


def _cache_of_token(
    architecture: Architecture,
    model: MAXModelConfig,
    config: Any,
    encoding: SupportedEncoding,
    default: int,
) -> int:
    """Bytes that the cache holds of a token; 0 for a model without a cache."""
    if not hasattr(architecture.pipeline_model, "get_kv_params"):
        return 0
    params = architecture.pipeline_model.get_kv_params(
        config, len(model.device_specs), model.kv_cache_config, encoding.cache_dtype
    )
    layers = int(_call(architecture, "get_num_layers", 0, config))
    if not layers:
        return default
    kinds = 1 if params.is_mla else 2
    elements = kinds * int(params.n_kv_heads) * int(params.head_dim)
    return layers * elements * int(params.dtype.size_in_bytes)


def resolve_memory(pipeline: Pipeline, architecture: Architecture | None) -> None:
    """Chooses ``max_length`` and ``max_batch_size`` by the memory, and clamps what does not fit.

    Raises:
        InputError: ML135, not even one page fits; ML981, ``max_length`` is above the model's.
    """
    model = pipeline.model_config
    required = {} if architecture is None or pipeline.force else architecture.required_arguments
    if pipeline.is_open("max_length") and "max_length" not in required:
        pipeline.set_resolved("max_length", pipeline._asked_max_length)
    if pipeline.is_open("max_batch_size") and "max_batch_size" not in required:
        pipeline.set_resolved("max_batch_size", None)
    found = _estimate(pipeline, model, architecture, None)
    _resolve_length(pipeline, found)
    found = _estimate(pipeline, model, architecture, None)
    _resolve_batch(pipeline, found, architecture)
    found = _estimate(pipeline, model, architecture, None)
    model.kv_cache_config._available_cache_memory = found.cache_budget if found.per_token else 0
    draft = pipeline.draft_model_config
    if draft is not None:
        taken = _estimate(pipeline, draft, architecture_of(draft), None)
        draft.kv_cache_config._available_cache_memory = taken.cache_budget
        _require_fit(taken, taken.longest_length(1))


def _require_fit(found: MemoryEstimate, longest: int) -> None:
    if longest > 0:
        return
    needed = found.needed_for(1, 1)
    enough = [name for name, size in GPU_GIGABYTES.items() if size * 9 * 10**8 >= needed]
    hint = f"; a GPU that has it is {', '.join(enough[:3])}" if enough else ""
    raise InputError(
        "ML135",
        f"the model takes {size_text(needed)} for one token, and it may take "
        f"{size_text(found.budget)} of {found.device}",
        why=[
            f"its weights take {size_text(found.weights)}",
            f"{size_text(found.free)} are free",
        ],
        fix="raise device_memory_utilization, take weights of fewer bits, or lower "
        f"prefill_chunk_size{hint}",
    )


def _resolve_length(pipeline: Pipeline, found: MemoryEstimate) -> None:
    asked, most = pipeline.max_length, found.most_length
    if asked is not None and most is not None and asked > most:
        raise fields.out_of_range(
            "PipelineConfig.max_length", asked, f"at most {most}, as the model takes,"
        )
    longest = found.longest_length(1)
    _require_fit(found, longest)
    if asked is None and most is None:
        raise InputError(
            "ML135",
            "the model does not say how long its sequences may be, and max_length is None",
            fix="give max_length",
        )
    if asked is None or asked > longest:
        if asked is not None:
            pipeline._asked_max_length = asked
            _LOG.warning("max_length is %d: %d tokens do not fit into the memory", longest, asked)
        pipeline.set_resolved("max_length", longest)


def _resolve_batch(
    pipeline: Pipeline, found: MemoryEstimate, architecture: Architecture | None
) -> None:
    length = found.length
    fits = found.largest_batch(length)
    asked = pipeline.max_batch_size
    if asked is not None:
        if asked > fits:
            _LOG.warning(
                "%d of max_batch_size=%d sequences fit into the memory at %d tokens each",
                fits,
                asked,
                length,
            )
        return
    chosen = min(fits, MOST_BATCH)
    model = pipeline.model_config
    encoding = model.quantization_encoding
    if architecture is not None and encoding is not None:
        chosen = int(
            _call(
                architecture,
                "infer_optimal_batch_size",
                chosen,
                pipeline,
                found.cache_budget,
                model.huggingface_config,
                load_devices(model.device_specs),
                model.kv_cache_config,
                encoding.cache_dtype,
            )
        )
    pipeline.set_resolved("max_batch_size", max(chosen, 1))


# ---------------------------------------------------------------- telling
def basic_lines(pipeline: Pipeline) -> list[str]:
    """Lines that tell the model and the memory that the pipeline has.

    Raises:
        InputError: ML134, no architecture is registered for the model.
    """
    model = pipeline.model_config
    architecture = architecture_of(model)
    if architecture is None:
        raise InputError(
            "ML134",
            f"no architecture is registered for {model.model_path}",
            fix="register one, or give custom_architectures",
        )
    weights = ", ".join(str(one) for one in model.weight_path)
    memory = model.kv_cache_config.available_cache_memory or 0
    return [
        f"model           {model.model_name}",
        f"architecture    {architecture.name}",
        f"task            {getattr(architecture.task, 'value', architecture.task)}",
        f"weights         {weights}",
        f"encoding        {model.quantization_encoding}",
        f"max_batch_size  {pipeline.max_batch_size}",
        f"max_length      {pipeline.max_length}",
        f"cache memory    {size_text(memory)}",
    ]


__all__ = [
    "architecture_of",
    "basic_lines",
    "check_draft",
    "check_experts",
    "estimate",
    "resolve_memory",
    "resolve_model",
    "set_required",
]
