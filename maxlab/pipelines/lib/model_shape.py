"""The sizes of a model that its memory follows from, read from its own configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxlab.errors import InputError, shown
from maxlab.interfaces.fields import INT32

_NAMES = {
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocab": ("vocab_size",),
    "positions": (
        "max_position_embeddings",
        "n_positions",
        "max_seq_len",
        "max_sequence_length",
        "n_ctx",
    ),
}
"""The names that configurations of Hugging Face have for each size."""
_WRITES_TEXT = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
"""How the names of classes end whose models make tokens, and so cache keys and values."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a model.

    Attributes:
        layers: The number of its layers.
        hidden: Elements of a token's vector between layers.
        vocab: The number of its tokens; 0 where it makes none.
        positions: The most tokens of a sequence; None where its configuration does not say.
        cached: Elements that the cache holds of a token in one layer, keys and values together; 0
            for a model without a cache.
        widest: Elements that are alive at once of a token while a layer is computed.
    """

    layers: int
    hidden: int
    vocab: int
    positions: int | None
    cached: int
    widest: int


def shape_of(config: Any, *, is_registered: bool = False) -> ModelShape:
    """The sizes that a configuration of Hugging Face tells; of a model with pictures, those of its
    text part.

    Args:
        config: The configuration.
        is_registered: Whether an architecture is registered for the model. It knows what it needs,
            so that sizes may be missing, which are told as 0.

    Raises:
        InputError: ML132, a size is missing or no count.
    """
    names = getattr(config, "architectures", None) or [""]
    writes = str(names[0]).endswith(_WRITES_TEXT)
    inner = config.get_text_config() if hasattr(config, "get_text_config") else config
    hidden, heads, layers = (
        _size(inner, which, may_lack=is_registered) for which in ("hidden", "heads", "layers")
    )
    head = _optional(inner, "head_dim") or max(hidden // max(heads, 1), 1)
    kv_heads = _optional(inner, "num_key_value_heads") or heads
    between = _optional(inner, "intermediate_size", "n_inner", "ffn_dim", "d_ff") or 4 * hidden
    latent = _optional(inner, "kv_lora_rank")
    cached = 2 * kv_heads * head
    if latent is not None:  # one latent vector stands for key and value
        cached = latent + (_optional(inner, "qk_rope_head_dim") or 0)
    # The residual and its norm; then queries, keys, values and what attention makes of them, or
    # the two halves of the gated product and their product.
    attention = heads * head + 2 * kv_heads * head + heads * head
    return ModelShape(
        layers=layers,
        hidden=hidden,
        vocab=_size(inner, "vocab", may_lack=is_registered) if writes else 0,
        positions=_optional(inner, *_NAMES["positions"]),
        cached=cached if writes else 0,
        widest=2 * hidden + max(attention, 3 * between),
    )


def adapter_elements(config: Any) -> int:
    """The elements of the matrices of an adapter (LoRA) of the rank 1 that changes all projections
    of attention and of the perceptron, in all layers; 0 where sizes are missing.

    Args:
        config: The configuration of Hugging Face.
    """
    inner = config.get_text_config() if hasattr(config, "get_text_config") else config
    hidden, heads, layers = (
        _size(inner, which, may_lack=True) for which in ("hidden", "heads", "layers")
    )
    head = _optional(inner, "head_dim") or hidden // max(heads, 1)
    kv_heads = _optional(inner, "num_key_value_heads") or heads
    between = _optional(inner, "intermediate_size", "n_inner", "ffn_dim", "d_ff") or 4 * hidden
    attention = 2 * (hidden + heads * head) + 2 * (hidden + kv_heads * head)
    return layers * (attention + 3 * (hidden + between))


def _optional(config: Any, *names: str) -> int | None:
    """The first of these sizes that a configuration has."""
    for name in names:
        value = getattr(config, name, None)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= INT32:
            raise InputError(
                "ML132",
                f"{name} of the model's config: an int in [1, {INT32}] expected ≠ {shown(value)} "
                "given",
                fix="check the model's config.json",
            )
        return value
    return None


def _size(config: Any, which: str, *, may_lack: bool) -> int:
    found = _optional(config, *_NAMES[which])
    if found is None and may_lack:
        return 0
    if found is None:
        raise InputError(
            "ML132",
            f"the model's config has none of {', '.join(_NAMES[which])}",
            fix="register an architecture that tells its memory",
        )
    return found


__all__ = ["ModelShape", "adapter_elements", "shape_of"]
