"""Parts that most models share which write text, made by the config of their checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from maxlab import nn
from maxlab.dtype import DType
from maxlab.errors import UnsupportedError
from maxlab.graph import DeviceRef
from maxlab.graph.quantization import QuantizationConfig, QuantizationEncoding
from maxlab.nn.attention import AttentionWithRope, MHAMaskVariant
from maxlab.nn.float8_config import Float8Config
from maxlab.nn.kv_cache import KVCacheParams
from maxlab.nn.rotary_embedding import DynamicRotaryEmbedding, RotaryEmbedding, rotary_embedding_of
from maxlab.nn.transformer import ReturnLogits, Transformer, TransformerBlock
from maxlab.pipelines.architectures.encoder import require_activation


@dataclass(frozen=True)
class Given:
    """Arguments of the layers of a decoder, besides the config of the checkpoint.

    Attributes:
        dtype: The dtype of weights and activations.
        device: The device.
        kv_params: The parameters of the cache.
        max_seq_len: The most tokens of a text.
        return_logits: The tokens whose logits are returned.
        quantization_encoding: How matrices are packed, as in GGUF files, or None.
        interleaved: Whether the rotary embedding turns neighbours, as weights of GGUF files of
            Llama are ordered for.
        float8: Which layers have matrices of 8-bit floats, and their scales, or None.
        gptq: How GPTQ packed the matrices of all layers, or None. The table of the vectors of
            tokens and the layer of logits are floats.
        attention_float8: The scales of the attention of this layer, or None.
        mlp_float8: The scales of the perceptron of this layer, or None.
        devices: All devices, ``device`` first, where several compute the model together.
    """

    dtype: DType
    device: DeviceRef
    kv_params: KVCacheParams
    max_seq_len: int
    return_logits: ReturnLogits
    quantization_encoding: QuantizationEncoding | None = None
    interleaved: bool = False
    float8: Float8Config | None = None
    gptq: QuantizationConfig | None = None
    attention_float8: Float8Config | None = None
    mlp_float8: Float8Config | None = None
    devices: tuple[DeviceRef, ...] = ()

    @property
    def count(self) -> int:
        """The number of devices."""
        return max(len(self.devices), 1)

    def of_layer(self, number: int) -> Given:
        """The same for the layer ``number``, whose matrices may be of 8-bit floats.

        Args:
            number: The number of the layer, from 0 on.
        """
        config = self.float8
        if config is None:
            return self
        return replace(
            self,
            attention_float8=config if number in config.attn_qkv_in_float8 else None,
            mlp_float8=config if number in config.mlp_in_float8 else None,
        )

    @property
    def linear_cls(self) -> Callable[..., nn.Linear]:
        """Makes the linear layers; called as ``nn.Linear`` is."""
        if self.gptq is not None:
            return partial(nn.GPTQLinear, quantization_config=self.gptq)
        return partial(nn.Linear, quantization_encoding=self.quantization_encoding)

    def linear(
        self,
        in_dim: int,
        out_dim: int,
        *,
        has_bias: bool = False,
        float8_config: Float8Config | None = None,
    ) -> nn.Linear:
        """A linear layer, [tokens, in_dim] to [tokens, out_dim].

        Args:
            in_dim: The size of its input.
            out_dim: The size of its output.
            has_bias: Whether it has a bias.
            float8_config: The scales of a matrix of 8-bit floats, or None.

        Raises:
            ModuleError: ML782, ``in_dim`` is not of whole blocks of the encoding; ML799, it is not
                of whole groups of GPTQ.
        """
        return self.linear_cls(
            in_dim,
            out_dim,
            self.dtype if float8_config is None else DType.float8_e4m3fn,
            self.device,
            has_bias=has_bias,
            float8_config=float8_config,
        )


class MixedEncodings(nn.Module):
    """A model whose packed weights have each the encoding that its value has."""

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any],
        *,
        override_quantization_encoding: bool = True,
        weight_alignment: int | None = None,
        strict: bool = True,
    ) -> None:
        """Set the values of all weights, as ``Module.load_state_dict`` does.

        Args:
            state_dict: Values by full name.
            override_quantization_encoding: Whether a packed weight takes the encoding of its value:
                True, as files mix encodings.
            weight_alignment: The alignment in bytes that each weight gets.
            strict: Whether missing and unexpected names are errors.

        Raises:
            ModuleError: As by ``Module.load_state_dict``.
        """
        super().load_state_dict(
            state_dict,
            override_quantization_encoding=override_quantization_encoding,
            weight_alignment=weight_alignment,
            strict=strict,
        )


class CausalLM(MixedEncodings, Transformer):
    """A model with its head: tokens, [tokens], to logits, [rows, vocab_size].

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        rope: The rotary embedding.
        layers: The layers.
        norm: The norm behind them.
        embedding_multiplier: The factor of the vectors of tokens.
        logits_scaling: What logits are divided by.
    """

    def __init__(
        self,
        config: Any,
        given: Given,
        rope: RotaryEmbedding,
        layers: Sequence[nn.Module],
        norm: nn.Module,
        *,
        embedding_multiplier: float = 1.0,
        logits_scaling: float = 1.0,
    ) -> None:
        embedding = embedding_of(config, given)
        super().__init__(
            dim=config.hidden_size,
            n_heads=config.num_attention_heads,
            layers=layers,
            norm=norm,
            output=head_of(config, given, embedding),
            embedding=embedding,
            kv_params=given.kv_params,
            rope=rope,
            return_logits=given.return_logits,
            embedding_multiplier=embedding_multiplier,
            logits_scaling=logits_scaling,
        )


def attention_arguments(config: Any, given: Given, rope: RotaryEmbedding) -> dict[str, Any]:
    """The arguments of ``AttentionWithRope`` that every checkpoint has.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        rope: The rotary embedding.
    """
    return {
        "rope": rope,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": given.kv_params.n_kv_heads,
        "hidden_size": config.hidden_size,
        "kv_params": given.kv_params,
        "devices": list(given.devices) or [given.device],
        "dtype": given.dtype if given.attention_float8 is None else DType.float8_e4m3fn,
        "float8_config": given.attention_float8,
        "linear_cls": given.linear_cls,
    }


class BiasedAttention(AttentionWithRope):
    """Attention whose four projections all have biases where ``attention_bias`` of the checkpoint
    says so.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        rope: The rotary embedding.
        **more: Further arguments of ``AttentionWithRope``.
    """

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, **more: Any) -> None:
        has_bias = config.attention_bias
        super().__init__(**attention_arguments(config, given, rope), has_bias=has_bias, **more)
        if has_bias:
            columns = config.num_attention_heads * given.kv_params.head_dim
            self.o_proj = given.linear(
                columns, config.hidden_size, has_bias=True, float8_config=given.attention_float8
            )


class GatedBlock(TransformerBlock):
    """A layer: attention and a gated perceptron, each normalised before and added to its input,
    [tokens, hidden_size] to the same.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        attention: The attention.
        has_bias: Whether the projections of the perceptron have biases.
        residual_multiplier: The factor of what is added.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), an activation that is not computed.
    """

    def __init__(
        self,
        config: Any,
        given: Given,
        attention: AttentionWithRope,
        *,
        has_bias: bool = False,
        residual_multiplier: float = 1.0,
    ) -> None:
        super().__init__(
            attention=attention,
            mlp=mlp_of(config, given, activation=config.hidden_act, has_bias=has_bias),
            attention_norm=norm_of(config, given),
            mlp_norm=norm_of(config, given),
            residual_multiplier=residual_multiplier,
        )


def set_window(attention: AttentionWithRope, config: Any, number: int) -> None:
    """Lets ``attention``, of the layer ``number``, see the last ``sliding_window`` tokens alone
    where the checkpoint says so.

    Args:
        attention: The attention.
        config: The configuration of the checkpoint.
        number: The number of the layer.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a type of layers that is not computed.
    """
    kinds = getattr(config, "layer_types", None)
    kind = "sliding_attention" if kinds is None else kinds[number]
    if kind not in ("sliding_attention", "full_attention"):
        raise not_computed(
            config, "layer_types", kind, "layers are sliding_attention or full_attention"
        )
    if kind == "sliding_attention" and config.sliding_window is not None:
        attention.mask_variant = MHAMaskVariant.SLIDING_WINDOW_CAUSAL_MASK
        attention.local_window_size = config.sliding_window


def norm_of(config: Any, given: Given) -> nn.RMSNorm:
    """A norm of vectors that rounds before it multiplies with its weight, [tokens, hidden_size] to
    the same.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
    """
    return nn.RMSNorm(
        config.hidden_size, given.dtype, config.rms_norm_eps, multiply_before_cast=False
    )


_OTHER_NAMES = {"swish": "silu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
"""The activations of ``nn.MLP`` that config.json names otherwise."""


def mlp_of(config: Any, given: Given, *, activation: str, has_bias: bool = False) -> nn.MLP:
    """The gated perceptron of a layer, [tokens, hidden_size] to the same.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        activation: The name of the activation in config.json.
        has_bias: Whether its projections have biases.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), an activation that is not computed.
    """
    require_activation(activation, config.model_type)
    return nn.MLP(
        given.dtype if given.mlp_float8 is None else DType.float8_e4m3fn,
        given.quantization_encoding,
        config.hidden_size,
        config.intermediate_size,
        [given.device],
        given.linear_cls,
        has_bias=has_bias,
        activation_function=_OTHER_NAMES.get(activation, activation),
        float8_config=given.mlp_float8,
    )


def embedding_of(config: Any, given: Given) -> nn.Embedding:
    """The table of the vectors of tokens, [vocab_size, hidden_size].

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
    """
    return nn.Embedding(
        config.vocab_size,
        config.hidden_size,
        given.dtype,
        given.device,
        given.quantization_encoding,
    )


def head_of(config: Any, given: Given, embedding: nn.Embedding) -> nn.Linear:
    """The layer that makes logits, [tokens, vocab_size]; its weight is that of ``embedding`` where
    the checkpoint says so.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        embedding: The table of the vectors of tokens.
    """
    head = replace(given, gptq=None).linear(config.hidden_size, config.vocab_size)
    if config.tie_word_embeddings:
        head.set_shared_weight("weight", embedding.weight)
    return head


def rope_of(config: Any, given: Given, layer_type: str | None = None) -> RotaryEmbedding:
    """The rotary embedding that a checkpoint describes, with a row for each place of a text.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        layer_type: Which of several descriptions.

    Raises:
        ArgumentError: ML689 (a ValueError), a description that is not read.
        UnsupportedError: ML169 (a NotImplementedError), angles that follow the length of a text:
            keys in the cache have those of another length.
    """
    made = rotary_embedding_of(config, given.max_seq_len, given.interleaved, layer_type)
    if isinstance(made, DynamicRotaryEmbedding):
        raise not_computed(
            config, "rope_type", "dynamic", "its angles change with the length of a text, and "
            "keys in the cache would keep the old ones",
        )  # fmt: skip
    return made


def not_computed(config: Any, name: str, value: Any, why: str) -> UnsupportedError:
    """The error that a variant of a model is not computed.

    Args:
        config: The configuration of the checkpoint.
        name: The entry of config.json.
        value: Its value.
        why: The reason, or what is computed.
    """
    return UnsupportedError(
        "ML169", f"{config.model_type} with {name}={value!r} is not computed", why=[why]
    )


__all__ = [
    "BiasedAttention",
    "CausalLM",
    "Given",
    "MixedEncodings",
    "attention_arguments",
    "embedding_of",
    "head_of",
    "mlp_of",
    "norm_of",
    "not_computed",
    "rope_of",
    "set_window",
]
