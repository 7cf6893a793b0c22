"""``parse_float8_config``: from a config.json and the weights beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.nn.float8_config.formats import READERS, WHERE, malformed, unknown
from maxlab.nn.float8_config.layers import Weights, check_shapes, layers_in_float8, scale_dtype
from maxlab.nn.float8_config.specs import (
    Float8Config,
    Float8InputScaleSpec,
    Float8WeightScaleSpec,
)

if TYPE_CHECKING:
    from maxlab.graph.weights import WeightData

_READ = (DType.float8_e4m3fn, DType.float8_e4m3fnuz)


def parse_float8_config(
    huggingface_config: Any,
    state_dict: Mapping[str, WeightData],
    dtype: DType,
    state_dict_name_prefix: str = "",
    ignored_modules_prefix: str = "model.",
) -> Float8Config | None:
    """Which layers of a model are in float8 and how they are scaled; None for models of another
    dtype.

    Reads ``compressed-tensors`` (a scale for a tensor, for each channel and token, or for each
    block), ``fbgemm_fp8``, and ``fp8`` (blocks, or a stored scale for a tensor). What the config
    says is compared with the dtypes of the weights, and the numbers of scales with their shapes.

    Args:
        huggingface_config: The config of transformers, or config.json as a dict.
        state_dict: The weights by name; only dtypes and shapes are read.
        dtype: The dtype that the model is loaded in.
        state_dict_name_prefix: What precedes ``layers.0`` in names of weights.
        ignored_modules_prefix: What precedes ``layers.0`` in names of modules in the config.

    Raises:
        ArgumentError: ML695, a format, or a part of one, that is not read; ML696, a value in the
            config that no writer of the format writes.
        WeightError: ML697, a part of a layer that is in float8 in part, or otherwise than the
            config says; ML699, scales that are missing or do not fit.

    Example:
        >>> import ml_dtypes, numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph.weights import WeightData
        >>> from maxlab.nn.float8_config import parse_float8_config
        >>> config = {
        ...     "num_hidden_layers": 1,
        ...     "quantization_config": {
        ...         "quant_method": "fbgemm_fp8",
        ...         "activation_scale_ub": 1200.0,
        ...         "modules_to_not_convert": ["lm_head", "model.layers.0.self_attn"],
        ...     },
        ... }
        >>> weights = {}
        >>> for name in ("gate_proj", "up_proj", "down_proj"):
        ...     for last, dtype in (("", ml_dtypes.float8_e4m3fn), ("_scale", np.float32)):
        ...         full = f"layers.0.mlp.{name}.weight{last}"
        ...         size = (8, 1 if last else 8)
        ...         weights[full] = WeightData.from_numpy(np.ones(size, dtype), full)
        >>> found = parse_float8_config(config, weights, DType.float8_e4m3fn)
        >>> found.mlp_in_float8, found.attn_qkv_in_float8, found.input_scale.activation_scale_ub
        ({0}, set(), 1200.0)
    """
    if not isinstance(dtype, DType) or not dtype.is_float8():
        return None
    if dtype not in _READ:
        raise unknown("the dtype of the model", dtype.name, "float8_e4m3fn")
    quantization = _quantization(huggingface_config)
    method = quantization.get("quant_method")
    reader = READERS.get(method) if isinstance(method, str) else None
    if reader is None:
        raise unknown(f"{WHERE}.quant_method", method, " or ".join(map(repr, READERS)))
    scheme = reader(quantization)
    count = _layer_count(huggingface_config)
    weights = Weights(_weights(state_dict), state_dict_name_prefix)
    parts = {
        part: layers_in_float8(scheme, weights, part, count, ignored_modules_prefix)
        for part in ("mlp", "self_attn")
    }
    modules = [
        module
        for part, layers in parts.items()
        for layer in sorted(layers)
        for module in weights.of(layer, part)
    ]
    scales = scale_dtype(scheme, weights, modules)
    weight_spec = Float8WeightScaleSpec(scheme.weight, scales, scheme.weight_block)
    check_shapes(scheme, weight_spec, weights, modules)
    return Float8Config(
        input_scale=Float8InputScaleSpec(
            scheme.input, scheme.origin, scales, scheme.bound, scheme.input_block
        ),
        weight_scale=weight_spec,
        mlp_in_float8=parts["mlp"],
        attn_qkv_in_float8=parts["self_attn"],
        embedding_output_dtype=_embedding_dtype(weights),
        quant_method=scheme.method,
        bias_dtype=_bias_dtype(weights, modules),
    )


def _field(config: Any, name: str) -> Any:
    """The entry or attribute ``name``; None where there is none."""
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def _quantization(config: Any) -> Mapping[str, Any]:
    """The description of the format, as a dict.

    Raises:
        ArgumentError: ML695, there is none; ML696, it is no dict.
    """
    for holder in (config, _field(config, "text_config")):
        for name in (WHERE, "compression_config"):
            found = None if holder is None else _field(holder, name)
            if found is None:
                continue
            to_dict = getattr(found, "to_dict", None)
            if not isinstance(found, Mapping) and callable(to_dict):
                found = to_dict()
            if not isinstance(found, Mapping):
                raise malformed(WHERE, found, "a dict")
            return found
    raise ArgumentError(
        "ML695",
        f"the model is to be loaded in float8, and its config has no {WHERE}",
        fix="load the model in its own dtype, or pass the config.json of a float8 model",
    )


def _layer_count(config: Any) -> int:
    """The number of layers of the language model.

    Raises:
        ArgumentError: ML696, the config does not say it.
    """
    text = _field(config, "text_config")
    count = _field(config, "num_hidden_layers")
    if count is None and text is not None:
        count = _field(text, "num_hidden_layers")
    if isinstance(count, bool) or not isinstance(count, int) or count <= 0:
        raise malformed("num_hidden_layers", count, "a positive int")
    return count


def _weights(state_dict: object) -> Mapping[str, Any]:
    if not isinstance(state_dict, Mapping):
        raise malformed("state_dict", state_dict, "a dict of WeightData by name")
    return state_dict


def _embedding_dtype(weights: Weights) -> DType | None:
    """The dtype of the table of tokens, or of the last layer's where both are one."""
    for name in ("embed_tokens.weight", "lm_head.weight"):
        for prefix in (weights.prefix, ""):
            dtype = getattr(weights.state_dict.get(f"{prefix}{name}"), "dtype", None)
            if isinstance(dtype, DType) and not dtype.is_float8():
                return dtype
    return None


def _bias_dtype(weights: Weights, modules: list[str]) -> DType | None:
    """The dtype of the first bias of ``modules``."""
    for module in modules:
        dtype = getattr(weights.get(module, "bias"), "dtype", None)
        if isinstance(dtype, DType):
            return dtype
    return None


__all__ = ["parse_float8_config"]
