"""The formats of float8 models, as ``quantization_config`` of a config.json describes them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from maxlab.errors import ArgumentError, shown
from maxlab.nn.float8_config.specs import Float8ScaleGranularity, Float8ScaleOrigin

WHERE = "quantization_config"
_DENSE = {"float-quantized", "naive-quantized"}


@dataclass(frozen=True)
class Scheme:
    """A format, before the files say of which dtype the scales are.

    Attributes:
        method: The name of the format.
        weight: The granularity of the scales of weights.
        input: The granularity of the scales of inputs.
        origin: Where the scales of inputs come from.
        in_float8: Whether a module, by its full name, is in float8.
        scale_name: The last part of the names of scales of weights.
        weight_block: Rows and columns of a block of a weight.
        input_block: The same of an input.
        bound: The largest magnitude that a computed scale of an input is for.
    """

    method: str
    weight: Float8ScaleGranularity
    input: Float8ScaleGranularity
    origin: Float8ScaleOrigin
    in_float8: Callable[[str], bool]
    scale_name: str = "weight_scale"
    weight_block: tuple[int, int] | None = None
    input_block: tuple[int, int] | None = None
    bound: float | None = None


def unknown(what: str, value: object, known: str) -> ArgumentError:
    """The error for ``value`` at ``what``, which no reader here knows."""
    return ArgumentError(
        "ML695",
        f"{what} is {shown(value)}, which is not read; {known} is",
        fix="load the model in bfloat16, or a float8 model in a format that is read",
    )


def malformed(what: str, value: object, expected: str) -> ArgumentError:
    """The error for ``value`` at ``what``, which no writer of the format writes."""
    return ArgumentError(
        "ML696",
        f"{what} must be {expected}, got {shown(value)}",
        fix="compare with config.json as the model's publisher wrote it",
    )


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise malformed(what, value, "a dict")
    return value


def _names(config: Mapping[str, Any], key: str, where: str = WHERE) -> list[str]:
    """The list of names under ``key``; empty where it is missing or null."""
    found = config.get(key)
    if found is None:
        return []
    if not isinstance(found, (list, tuple)) or not all(isinstance(x, str) for x in found):
        raise malformed(f"{where}.{key}", found, "a list of names")
    return list(found)


def _blocks(value: object, what: str) -> tuple[int, int]:
    """Rows and columns of a block, from ``[128, 128]`` or ``"128x128"``."""
    found = value.split("x") if isinstance(value, str) else value
    if isinstance(found, (list, tuple)) and len(found) == 2:
        sizes = [int(n) if isinstance(n, str) and n.isdigit() else n for n in found]
        if all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in sizes):
            return sizes[0], sizes[1]
    raise malformed(what, value, "two positive ints, such as [128, 128]")


# ---------------------------------------------------------------- names of modules
def _left_out(module: str, names: list[str]) -> bool:
    """Whether one of ``names`` is that of ``module``, of a module around it, or its last parts."""
    return any(
        module == name or module.startswith(f"{name}.") or module.endswith(f".{name}")
        for name in names
    )


def _matches(module: str, name: str, what: str) -> bool:
    """Whether ``name``, which may be a pattern after ``re:``, is that of ``module``."""
    if not name.startswith("re:"):
        return name == module
    try:
        return re.match(name[3:], module) is not None
    except re.error as error:
        raise malformed(what, name, f"a name, or a pattern ({error})") from None


# ---------------------------------------------------------------- fbgemm_fp8
def fbgemm(config: Mapping[str, Any]) -> Scheme:
    """The scheme of ``fbgemm_fp8``: a scale for each output channel, and one for each token,
    computed.

    Raises:
        ArgumentError: ML696, a value of the wrong kind.
    """
    bound = config.get("activation_scale_ub")
    number = isinstance(bound, (int, float)) and not isinstance(bound, bool)
    if bound is not None and not (number and 0 < bound < math.inf):
        raise malformed(f"{WHERE}.activation_scale_ub", bound, "a positive number")
    kept = _names(config, "modules_to_not_convert")
    return Scheme(
        "fbgemm_fp8",
        Float8ScaleGranularity.ROWWISE,
        Float8ScaleGranularity.COLWISE,
        Float8ScaleOrigin.DYNAMIC,
        lambda module: not _left_out(module, kept),
        bound=None if bound is None else float(bound),
    )


# ---------------------------------------------------------------- fp8
_ONLY: dict[str, tuple[object, ...]] = {
    "fmt": ("e4m3", "float8_e4m3fn"),
    "scale_fmt": ("float",),  # others round the scales of inputs to powers of two
    "expert_dtype": ("fp8",),
    "modules_to_convert": ([],),  # tables of embeddings
    "dequantize": (False,),
}
"""Values of what else the format knows; a missing one is among them."""


def blockwise(config: Mapping[str, Any]) -> Scheme:
    """The scheme of ``fp8``: weights in blocks and inputs in parts of rows, computed; or, without
    blocks, one scale each, both stored.

    Raises:
        ArgumentError: ML695, a scheme that is not read; ML696, a value of the wrong kind.
    """
    kept = _names(config, "modules_to_not_convert") + _names(config, "ignored_layers")
    scheme = config.get("activation_scheme", "dynamic")
    if not isinstance(scheme, str) or scheme not in ("dynamic", "static"):
        raise malformed(f"{WHERE}.activation_scheme", scheme, "'dynamic' or 'static'")
    for key, allowed in _ONLY.items():
        if config.get(key) is not None and config[key] not in allowed:
            raise unknown(f"{WHERE}.{key}", config[key], repr(allowed[0]))
    size = config.get("weight_block_size")

    def in_float8(module: str) -> bool:
        return not _left_out(module, kept)

    tensor = Float8ScaleGranularity.TENSOR
    if size is None and scheme == "static":
        return Scheme("fp8", tensor, tensor, Float8ScaleOrigin.STATIC, in_float8)
    if size is None:
        raise unknown(f"{WHERE}.weight_block_size", size, "blocks such as [128, 128]")
    if scheme == "static":
        raise unknown(f"{WHERE}.activation_scheme", scheme, "'dynamic' with blocks")
    block = _blocks(size, f"{WHERE}.weight_block_size")
    return Scheme(
        "fp8",
        Float8ScaleGranularity.BLOCK,
        Float8ScaleGranularity.BLOCK,
        Float8ScaleOrigin.DYNAMIC,
        in_float8,
        "weight_scale_inv",
        block,
        (1, block[1]),
    )


# ---------------------------------------------------------------- compressed-tensors
def compressed(config: Mapping[str, Any]) -> Scheme:
    """The scheme of ``compressed-tensors``, from its one kind of groups.

    Raises:
        ArgumentError: ML695, a scheme that is not read; ML696, a value of the wrong kind.
    """
    _no_extras(config)
    kept = _names(config, "ignore")
    groups = _mapping(config.get("config_groups"), f"{WHERE}.config_groups")
    if not groups:
        raise malformed(f"{WHERE}.config_groups", groups, "a dict with a group")
    targets: list[str] = []
    found: list[tuple[Any, ...]] = []
    for key, value in groups.items():
        where = f"{WHERE}.config_groups.{key}"
        group = _mapping(value, where)
        targets += _names(group, "targets", where) or ["Linear"]
        found.append((*_weights(group, where), *_activations(group, where)))
    if any(one != found[0] for one in found):
        raise unknown(f"{WHERE}.config_groups", groups, "one scheme for all groups")
    weight, weight_block, input_, input_block, origin = found[0]
    if (weight is Float8ScaleGranularity.BLOCK) != (input_ is Float8ScaleGranularity.BLOCK):
        raise unknown(f"{WHERE}.config_groups", groups, "blocks of weights with groups of inputs")

    def in_float8(module: str) -> bool:
        if any(_matches(module, name, f"{WHERE}.ignore") for name in kept):
            return False
        return "Linear" in targets or any(
            _matches(module, name, f"{WHERE}.targets") for name in targets
        )

    return Scheme(
        "compressed-tensors",
        weight,
        input_,
        origin,
        in_float8,
        weight_block=weight_block,
        input_block=input_block,
    )


def _no_extras(config: Mapping[str, Any]) -> None:
    """Raises for parts of a model that are compressed in a way that is not read."""
    written = config.get("format", "float-quantized")
    if not isinstance(written, str) or written not in _DENSE:
        raise unknown(f"{WHERE}.format", written, " or ".join(map(repr, sorted(_DENSE))))
    if config.get("kv_cache_scheme") is not None:
        known = "a model without scales of its cache"
        raise unknown(f"{WHERE}.kv_cache_scheme", config["kv_cache_scheme"], known)
    sparse = config.get("sparsity_config")
    if sparse and _mapping(sparse, f"{WHERE}.sparsity_config").get("format", "dense") != "dense":
        raise unknown(f"{WHERE}.sparsity_config", sparse, "'dense'")


def _float8(spec: Mapping[str, Any], where: str) -> None:
    """Raises unless ``spec`` describes floats of 8 bits without a zero point."""
    bits, kind = spec.get("num_bits"), spec.get("type")
    if bits != 8 or isinstance(bits, bool) or kind != "float":
        raise unknown(where, f"{shown(kind)} of {shown(bits)} bits", "'float' of 8 bits")
    if spec.get("symmetric", True) is not True:
        raise unknown(f"{where}.symmetric", spec["symmetric"], "True")


def _weights(
    group: Mapping[str, Any], where: str
) -> tuple[Float8ScaleGranularity, tuple[int, int] | None]:
    """The granularity of the scales of weights, and the size of a block."""
    where = f"{where}.weights"
    spec = _mapping(group.get("weights"), where)
    _float8(spec, where)
    if spec.get("dynamic", False) is not False:
        raise unknown(f"{where}.dynamic", spec["dynamic"], "False")
    strategy = spec.get("strategy")
    if strategy == "tensor":
        return Float8ScaleGranularity.TENSOR, None
    if strategy == "channel":
        return Float8ScaleGranularity.ROWWISE, None
    if strategy == "block":
        block = _blocks(spec.get("block_structure"), f"{where}.block_structure")
        return Float8ScaleGranularity.BLOCK, block
    raise unknown(f"{where}.strategy", strategy, "'tensor', 'channel' or 'block'")


def _activations(
    group: Mapping[str, Any], where: str
) -> tuple[Float8ScaleGranularity, tuple[int, int] | None, Float8ScaleOrigin]:
    """The granularity of the scales of inputs, the size of a block, and their origin."""
    if group.get("output_activations") is not None:
        known = "a group without it"
        raise unknown(f"{where}.output_activations", group["output_activations"], known)
    where = f"{where}.input_activations"
    if group.get("input_activations") is None:
        raise unknown(where, None, "a scheme of inputs")
    spec = _mapping(group["input_activations"], where)
    _float8(spec, where)
    dynamic = spec.get("dynamic", False)
    if not isinstance(dynamic, bool):
        raise unknown(f"{where}.dynamic", dynamic, "True or False")
    origin = Float8ScaleOrigin.DYNAMIC if dynamic else Float8ScaleOrigin.STATIC
    strategy = spec.get("strategy")
    if strategy == "tensor":
        return Float8ScaleGranularity.TENSOR, None, origin
    if strategy == "token" and dynamic:
        return Float8ScaleGranularity.COLWISE, None, origin
    if strategy == "group" and dynamic:
        size = spec.get("group_size")
        if isinstance(size, bool) or not isinstance(size, int) or size <= 0:
            raise malformed(f"{where}.group_size", size, "a positive int")
        return Float8ScaleGranularity.BLOCK, (1, size), origin
    known = "'tensor', and 'token' or 'group' with dynamic scales,"
    raise unknown(f"{where}.strategy", strategy, known)


READERS: dict[str, Callable[[Mapping[str, Any]], Scheme]] = {
    "compressed-tensors": compressed,
    "fbgemm_fp8": fbgemm,
    "fp8": blockwise,
}

__all__ = ["READERS", "Scheme", "WHERE", "malformed", "unknown"]
