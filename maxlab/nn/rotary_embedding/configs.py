"""The rotary embedding that a config.json describes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from maxlab.errors import ArgumentError, shown
from maxlab.nn.rotary_embedding import frequencies as formulas
from maxlab.nn.rotary_embedding.dynamic import DynamicRotaryEmbedding
from maxlab.nn.rotary_embedding.plain import RotaryEmbedding
from maxlab.nn.rotary_embedding.scaled import (
    DeepseekYarnRotaryEmbedding,
    Llama3RotaryEmbedding,
    LongRoPERotaryEmbedding,
    YarnRotaryEmbedding,
)
from maxlab.nn.rotary_embedding.scaling import (
    DeepseekYarnRopeScalingParams,
    LinearScalingParams,
    Llama3RopeScalingParams,
    LongRoPEScalingParams,
    YarnScalingParams,
    is_number,
)


class _Described(NamedTuple):
    """The description of a rotary embedding in a config.

    Attributes:
        config: The config.
        scaling: Its description of the scaling; empty without one.
        longest: The longest context in tokens.
        sizes: The arguments that all embeddings take.
    """

    config: Any
    scaling: Mapping[str, Any]
    longest: int
    sizes: dict[str, Any]

    def get(self, name: str, default: Any = None) -> Any:
        """The entry ``name`` of the scaling, else of the config, else ``default``."""
        found = self.scaling.get(name)
        found = _field(self.config, name) if found is None else found
        return default if found is None else found

    def need(self, name: str) -> Any:
        """The entry ``name``, which must be there."""
        found = self.get(name)
        if found is None:
            raise _unread(name, None, "a value")
        return found

    def number(self, name: str, default: Any = None) -> Any:
        """The entry ``name``, else ``default``: a positive number."""
        found = self.get(name, default)
        if not is_number(found) or found <= 0:
            raise _unread(name, found, "a positive number")
        return found


def rotary_embedding_of(
    huggingface_config: Any,
    max_seq_len: int | None = None,
    interleaved: bool = False,
    layer_type: str | None = None,
) -> RotaryEmbedding:
    """The rotary embedding of a model, with the scaling that its config describes.

    Reads the types ``default``, ``linear``, ``dynamic``, ``llama3``, ``yarn`` and ``longrope``,
    as ``rope_scaling`` or ``rope_parameters``. A config with ``qk_rope_head_dim`` gets Deepseek's.
    For ``mrope_section``, pass it and ``position_ids`` in each call of the embedding.

    Args:
        huggingface_config: The config of transformers, or config.json as a dict.
        max_seq_len: The longest sequence in tokens; ``max_position_embeddings`` when left out.
            Where frequencies follow the length of a sequence (``dynamic``), that of the training
            is the config's.
        interleaved: Whether a pair is two neighbours, as in GGUF files of Llama. Otherwise the
            second of a pair is half of a head behind the first, as in safetensors files.
        layer_type: Which description to read where there is one for each type of layer, such as
            ``"sliding_attention"``.

    Raises:
        ArgumentError: ML689, a type of scaling that is not read, or a value that is missing or
            that the embedding has no argument for; and what the embedding itself refuses.

    Example:
        >>> from maxlab.nn.rotary_embedding import rotary_embedding_of
        >>> rotary_embedding_of({
        ...     "hidden_size": 2048, "num_attention_heads": 32, "rope_theta": 500000.0,
        ...     "max_position_embeddings": 131072,
        ...     "rope_scaling": {
        ...         "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
        ...         "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
        ...     },
        ... }).scaling_params
        Llama3RopeScalingParams(factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, \
orig_max_position=8192)
    """
    config = huggingface_config
    scaling = _field(config, "rope_parameters") or _field(config, "rope_scaling") or {}
    if isinstance(scaling, Mapping) and any(isinstance(x, Mapping) for x in scaling.values()):
        if layer_type not in scaling:
            raise _unread("layer_type", layer_type, "one of " + ", ".join(map(str, scaling)))
        scaling = scaling[layer_type]
    if not isinstance(scaling, Mapping):
        raise _unread("rope_scaling", scaling, "a dict")
    if scaling.get("mrope_interleaved"):
        raise _unread("mrope_interleaved", scaling["mrope_interleaved"], "False")
    said = _Described(config, scaling, 0, {})
    if said.get("partial_rotary_factor", 1) != 1:
        raise _unread("partial_rotary_factor", said.get("partial_rotary_factor"), "1.0")
    longest = said.number("max_position_embeddings")
    sizes = {
        "dim": said.need("hidden_size"),
        "n_heads": said.need("num_attention_heads"),
        "theta": said.get("rope_theta", 10000.0),
        "max_seq_len": longest if max_seq_len is None else max_seq_len,
        "head_dim": _field(config, "head_dim"),
        "interleaved": interleaved,
    }
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise _unread("rope_type", kind, "one of " + ", ".join(_READERS))
    return reader(_Described(config, scaling, longest, sizes))


def _field(config: Any, name: str) -> Any:
    """The entry or attribute ``name``; None where there is none."""
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def _unread(name: str, value: object, expected: str) -> ArgumentError:
    return ArgumentError(
        "ML689",
        f"the rotary embedding of the config: {name} must be {expected}, got {shown(value)}",
        fix="make the embedding by its class, with what the model computes",
    )


def _same_factor(said: _Described, factor: float) -> None:
    """Raises when the config asks for another factor of cosines and sines than ``factor``."""
    given = said.scaling.get("attention_factor")
    if given is None:
        return
    if not is_number(given) or not math.isclose(given, factor, rel_tol=1e-6):
        raise _unread("attention_factor", given, f"left out, or {factor:.6g}")


def _plain(said: _Described) -> RotaryEmbedding:
    if _field(said.config, "qk_rope_head_dim") is not None:
        return DeepseekYarnRotaryEmbedding(**_deepseek_sizes(said))
    return RotaryEmbedding(**said.sizes)


def _linear(said: _Described) -> RotaryEmbedding:
    return Llama3RotaryEmbedding(
        **said.sizes, scaling_params=LinearScalingParams(said.need("factor"))
    )


def _llama3(said: _Described) -> RotaryEmbedding:
    params = Llama3RopeScalingParams(
        said.need("factor"),
        said.need("low_freq_factor"),
        said.need("high_freq_factor"),
        said.need("original_max_position_embeddings"),
    )
    return Llama3RotaryEmbedding(**said.sizes, scaling_params=params)


def _dynamic(said: _Described) -> RotaryEmbedding:
    sizes = {**said.sizes, "max_seq_len": said.longest}
    return DynamicRotaryEmbedding(**sizes, scaling_factor=said.need("factor"))


def _yarn(said: _Described) -> RotaryEmbedding:
    original = said.number("original_max_position_embeddings", said.longest)
    factor = said.number("factor", said.longest / original)
    fast, slow = said.scaling.get("beta_fast") or 32, said.scaling.get("beta_slow") or 1
    scale, all_dim = _weight(said, "mscale"), _weight(said, "mscale_all_dim")
    if _field(said.config, "qk_rope_head_dim") is not None:
        if said.scaling.get("truncate", True) is not True:
            raise _unread("truncate", said.scaling["truncate"], "True")
        deepseek = DeepseekYarnRopeScalingParams(
            factor, original, fast, slow, 1.0 if scale is None else scale, all_dim or 0.0
        )
        _same_factor(
            said,
            formulas.yarn_factor(factor, deepseek.mscale)
            / formulas.yarn_factor(factor, deepseek.mscale_all_dim),
        )
        return DeepseekYarnRotaryEmbedding(**_deepseek_sizes(said), scaling_params=deepseek)
    params = YarnScalingParams(factor, fast, slow, original, said.scaling.get("truncate", True))
    made = YarnRotaryEmbedding(**said.sizes, scaling_params=params)
    whole = formulas.yarn_factor(params.factor)
    _same_factor(said, whole)
    if scale and all_dim and said.scaling.get("attention_factor") is None:
        other = formulas.yarn_factor(factor, scale) / formulas.yarn_factor(factor, all_dim)
        if not math.isclose(other, whole, rel_tol=1e-6):
            raise _unread("mscale", scale, "left out outside of Deepseek's models")
    return made


def _weight(said: _Described, name: str) -> float | None:
    """The entry ``name`` of the scaling: a number of 0 or more, or None where there is none."""
    found = said.scaling.get(name)
    if found is None:
        return None
    if not is_number(found) or found < 0:
        raise _unread(name, found, "a number of 0 or more")
    return float(found)


def _deepseek_sizes(said: _Described) -> dict[str, Any]:
    """The arguments of Deepseek's embedding, whose ``dim`` is the turned part of a head."""
    turned = said.number("qk_rope_head_dim")
    rest = said.get("qk_nope_head_dim", 0)
    if rest:
        rest = said.number("qk_nope_head_dim")
    return {**said.sizes, "dim": turned, "head_dim": turned + rest}


def _long(said: _Described) -> RotaryEmbedding:
    original = said.number("original_max_position_embeddings")
    # A factor comes before the ratio of the lengths.
    factor = said.number("factor", said.longest / original)
    longest = round(factor * original)
    if not math.isclose(longest, factor * original):
        raise _unread("factor", factor, f"a multiple of 1 / {original}")
    params = LongRoPEScalingParams(
        said.need("short_factor"), said.need("long_factor"), original, longest
    )
    _same_factor(said, formulas.long_rope_factor(params))
    return LongRoPERotaryEmbedding(**said.sizes, scaling_params=params)


_READERS: dict[str, Callable[[_Described], RotaryEmbedding]] = {
    "default": _plain,
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _long,
    "su": _long,
    "mrope": _plain,
}

__all__ = ["rotary_embedding_of"]
