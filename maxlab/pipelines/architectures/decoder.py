"""Models that write text: ragged batches of tokens, logits, and a paged cache."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from maxlab import nn
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import UnsupportedError
from maxlab.graph import DeviceRef, Graph, TensorType
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.weights import GGUFWeights, WeightData
from maxlab.interfaces import LogProbabilities, fields
from maxlab.nn.comm import Signals
from maxlab.nn.kv_cache import (
    KVCacheInputs,
    KVCacheInputsSequence,
    KVCacheParams,
    PagedCacheInputSymbols,
    PagedCacheValues,
)
from maxlab.nn.lora import add_lora, set_lora_batch_info
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.architectures import float8, gptq
from maxlab.pipelines.architectures.decoder_devices import different_places
from maxlab.pipelines.architectures.decoder_parts import Given
from maxlab.pipelines.architectures.decoder_sizes import DecoderSizes
from maxlab.pipelines.architectures.decoder_supported import decoder_architecture
from maxlab.pipelines.architectures.decoder_weights import convert_safetensor_state_dict
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.config_enums import RopeType
from maxlab.pipelines.lib.interfaces import ModelInputs, ModelOutputs
from maxlab.pipelines.lib.lora import LoRAManager, base_names
from maxlab.pipelines.lib.model_encoding import gptq_config
from maxlab.pipelines.lib.ragged_log_probabilities import RaggedLogProbabilities
from maxlab.pipelines.lib.settings import Origin

if TYPE_CHECKING:
    from maxlab.engine import InferenceSession


@dataclass(eq=False)
class DecoderInputs(ModelInputs):
    """The tokens of a ragged batch.

    Args:
        tokens: The tokens of all texts, one text after the other, int64 [tokens].
        input_row_offsets: Where the tokens of each text begin, uint32 [texts + 1].
        return_n_logits: The number of tokens of each text whose logits are returned, int64 [1].
    """

    tokens: Tensor
    input_row_offsets: Tensor
    return_n_logits: Tensor


class DecoderModel(DecoderSizes):
    """A model that writes text in a pipeline; an architecture gives it its layers.

    With ``enable_lora`` of the configuration its linear layers take adapters, and each text is
    computed by the one that its ``model_name`` names. With ``rope_type`` of the configuration the
    rotary embedding pairs neighbours, ``normal``, or halves, ``neox``, whatever the format of the
    files says: for files whose rows are in another order than those of their format.

    Raises:
        ArgumentError: ML469 (a ValueError), a device is given twice.
        UnsupportedError: ML169 (a NotImplementedError), several devices, or adapters, that the
            model is not computed with.
    """

    takes_adapters = True
    reads_images = False
    read_settings = frozenset({"rope_type"})
    runs_on_several: ClassVar[bool] = False
    """Whether several devices can compute the model together. Then its module is called as
    ``nn.transformer.DistributedTransformer`` is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if len(self.devices) > 1 and not self.runs_on_several:
            raise UnsupportedError(
                "ML169",
                f"{type(self).__name__} runs on one device, and {len(self.devices)} are configured",
                fix="name one in device_specs of the configuration",
            )
        config = self.huggingface_config
        places = different_places(type(self).__name__, self.devices)
        device, several = places[0], len(places) > 1
        params: KVCacheParams = self.kv_manager.params
        adapt = self.adapter or convert_safetensor_state_dict
        state = adapt(
            dict(self.weights.items()),
            huggingface_config=config,
            pipeline_config=self.pipeline_config,
        )
        dtype, packing = self.encoding.cache_dtype, self.encoding.quantization_encoding
        scales, words = None, None
        if self.encoding.is_float8:
            scales, state = float8.float8_of(config, state, dtype)
        elif packing is QuantizationEncoding.GPTQ:
            words, packing = gptq_config(config), None
            state = gptq.gptq_of(words, state)
        given = Given(
            dtype,
            device,
            params,
            self.max_seq_len,
            self.return_logits,
            packing,
            interleaved=self._pairs_neighbours(),
            float8=scales,
            gptq=words,
            devices=tuple(places) if several else (),
        )
        module = self.module(config, given)
        registry: dict[str, Any] = {**_cast(state, dtype), **self._adapters(module)}
        module.load_state_dict(registry)
        layers = self.get_num_layers(config)
        caches = [PagedCacheInputSymbols.of(params, layers, place) for place in places]
        types: list[Any] = [
            TensorType(DType.int64, ["tokens"], device),
            TensorType(DType.uint32, ["texts_and_end"], device),
            TensorType(DType.int64, [1], DeviceRef.CPU()),
        ]
        own = len(types)
        types += self.more_types(config, given)
        plain = len(types)
        if self.lora_manager is not None:
            types += [
                TensorType(DType.int32, ["texts"], device),
                TensorType(DType.uint32, ["texts"], device),
            ]
        many, end = len(types), len(types) + 4 * len(places)
        types += [kind for cache in caches for kind in cache]
        types += Signals(places).input_types() if several else []
        with Graph(type(module).__name__.lower(), input_types=types) as graph:
            tokens, offsets, count = (value.tensor for value in graph.inputs[:own])
            more = [value.tensor for value in graph.inputs[own:plain]]
            groups = [value.tensor for value in graph.inputs[plain:many]]
            cached = [PagedCacheValues.of(graph.inputs[n : n + 4]) for n in range(many, end, 4)]
            if groups:
                ids, ranks = groups
                set_lora_batch_info(module, ids, ranks, offsets)
            if several:
                signals = [value.buffer for value in graph.inputs[end:]]
                graph.output(*module(tokens, signals, cached, count, offsets))
            else:
                graph.output(*module(tokens, cached[0], count, offsets, *more))
        self.model = self.session.load(graph, weights_registry=module.state_dict())
        self.load_more(module, given)
        self._log_probabilities = RaggedLogProbabilities(self.devices[0])

    def _pairs_neighbours(self) -> bool:
        """Whether rotary embeddings turn neighbours: as the configuration says, else as rows are
        ordered in files of this format.

        Raises:
            UnsupportedError: ML169 (a NotImplementedError), another value than these two.
        """
        model = self.pipeline_config.model_config
        if model.origin("rope_type") in (Origin.default, Origin.resolved):
            return isinstance(self.weights, GGUFWeights) and model.rope_type is RopeType.normal
        if model.rope_type in (RopeType.normal, RopeType.neox):
            return model.rope_type is RopeType.normal
        raise UnsupportedError(
            "ML169",
            f"rope_type={model.rope_type} does not say how {type(self).__name__} pairs numbers",
            fix="give normal for neighbours, neox for halves, or leave it out: frequencies are as "
            "config.json says",
        )

    def _adapters(self, module: nn.Module) -> dict[str, Tensor]:
        """The slots for adapters by the names of weights, which layers of ``module`` read from now
        on; none where the configuration asks for no adapters."""
        config = self.pipeline_config.lora_config
        if config is None:
            return {}
        packed = not self.dtype.is_float() or self.dtype.is_float8()
        if len(self.devices) > 1:
            raise UnsupportedError(
                "ML169",
                f"adapters (LoRA) on {len(self.devices)} devices are not computed",
                fix="name one in device_specs of the configuration, or leave enable_lora out",
            )
        if packed or isinstance(self.weights, GGUFWeights):  # whose rows may be in another order
            raise UnsupportedError(
                "ML169",
                f"adapters (LoRA) beside these weights, {self.encoding.value} of "
                f"{type(self.weights).__name__}, are not computed",
                fix="use a checkpoint of safetensors in float32, bfloat16 or float16, or leave "
                "enable_lora out",
            )
        layers = add_lora(module, config.max_num_loras, config.max_lora_rank, self.dtype)
        model = self.pipeline_config.model_config
        names = base_names([model.model_name, model.model_path])
        manager = LoRAManager(config, layers, self.dtype, self.devices[0], names)
        self.kv_manager.key_prefixes_by(manager.prefix_key)
        self._lora_manager = manager
        return manager.weights

    @staticmethod
    @abstractmethod
    def module(config: Any, given: Given) -> nn.Module:
        """The layers of the model, which are called as ``nn.transformer.Transformer`` is.

        Args:
            config: The configuration of the checkpoint.
            given: What its layers are made with.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError

    def more_types(self, config: Any, given: Given) -> list[TensorType]:
        """The inputs that ``module`` takes behind those of every model that writes text; of one
        device alone. `DecoderInputs` of the model has them behind its own fields.

        Args:
            config: The configuration of the checkpoint.
            given: What the layers are made with.
        """
        del config, given
        return []

    def load_more(self, module: nn.Module, given: Given) -> None:
        """Loads further graphs of the model, when that of its tokens is loaded.

        Args:
            module: The layers, with their weights.
            given: What they were made with.
        """

    # ------------------------------------------------------------ runs
    def prepare_initial_token_inputs(
        self,
        context_batch: Sequence[TextContext],
        kv_cache_inputs: Iterable[Any] | None = None,
        return_n_logits: int = 1,
    ) -> DecoderInputs:
        """The next tokens of each text, one text after the other.

        Args:
            context_batch: The states of the requests.
            kv_cache_inputs: The tensors of the cache, or what its manager gives for each device.
            return_n_logits: The number of tokens of each text whose logits are returned.

        Raises:
            InputError: ML981, there are no logits of so many tokens; ML539, a text names an adapter
                that is not loaded; ML540, texts name more adapters than there are slots (each a
                ValueError).
        """
        texts = [context.next_tokens for context in context_batch]
        shortest = min(map(len, texts), default=0)
        most = shortest if self.return_logits is ReturnLogits.VARIABLE else 1
        if self.return_logits is not ReturnLogits.ALL and not 1 <= return_n_logits <= max(most, 1):
            raise fields.out_of_range(
                "return_n_logits",
                return_n_logits,
                f"1 to {max(most, 1)} tokens, as the model returns {self.return_logits} and the "
                f"shortest text has {shortest},",
            )
        tokens = np.concatenate([np.zeros(0, np.int64), *texts]).astype(np.int64)
        offsets = np.cumsum([0, *map(len, texts)], dtype=np.uint32)
        device = self.devices[0]
        made = DecoderInputs(
            Tensor.from_numpy(tokens).to(device),
            Tensor.from_numpy(offsets).to(device),
            Tensor.from_numpy(np.array([return_n_logits], np.int64)),
        )
        made.kv_cache_inputs = _flat(kv_cache_inputs)
        if self.lora_manager is not None:
            ids, ranks = self.lora_manager.get_lora_graph_inputs(context_batch)
            made.update(lora_ids=ids, lora_ranks=ranks)
        return made

    def prepare_next_token_inputs(
        self, next_tokens: Tensor, prev_model_inputs: ModelInputs
    ) -> DecoderInputs:
        """One token of each text, which was drawn, and the cache as before.

        The manager of the cache advances its lengths: ``increment_cache_lengths``.

        Args:
            next_tokens: The tokens that were drawn, int64 [texts].
            prev_model_inputs: The inputs before, `DecoderInputs`.
        """
        assert isinstance(prev_model_inputs, DecoderInputs)
        offsets = np.arange(prev_model_inputs.input_row_offsets.shape[0], dtype=np.uint32)
        made = DecoderInputs(
            next_tokens,
            Tensor.from_numpy(offsets).to(self.devices[0]),
            Tensor.from_numpy(np.ones(1, np.int64)),
        )
        made.kv_cache_inputs = prev_model_inputs.kv_cache_inputs
        made.lora_ids, made.lora_ranks = prev_model_inputs.lora_ids, prev_model_inputs.lora_ranks
        return made

    def execute(self, model_inputs: ModelInputs) -> ModelOutputs:
        """The logits of the last token of each text, and of more tokens if the model was made so.

        Args:
            model_inputs: The inputs, `DecoderInputs`.
        """
        last, *more = self.model(*model_inputs, *self.signal_buffers)
        if not more:
            return ModelOutputs(logits=last, next_token_logits=last)
        logits, offsets = more
        return ModelOutputs(logits=logits, next_token_logits=last, logit_offsets=offsets)

    def compute_log_probabilities(
        self,
        session: InferenceSession,
        model_inputs: ModelInputs,
        model_outputs: ModelOutputs,
        next_tokens: Tensor,
        batch_top_n: list[int],
        batch_echo: list[bool],
    ) -> list[LogProbabilities | None]:
        """The log probabilities of each text; None where its ``batch_top_n`` is 0.

        Args:
            session: The session to compute them in.
            model_inputs: The inputs of the execution, `DecoderInputs`.
            model_outputs: The outputs of the execution.
            next_tokens: The tokens that were drawn, integers of shape [texts].
            batch_top_n: How many of the most probable tokens each text is told.
            batch_echo: Whether a text is told of the tokens that went in too.

        Raises:
            InputError: ML981 (a ValueError), more tokens than the vocabulary has are asked for.
        """
        return self._log_probabilities(
            session, model_inputs, model_outputs, next_tokens, batch_top_n, batch_echo
        )


def _flat(kv_cache_inputs: Iterable[Any] | None) -> Iterable[Any] | None:
    """The tensors of the cache, where they may come as the inputs of each device."""
    if isinstance(kv_cache_inputs, (list, tuple)):
        if all(isinstance(one, KVCacheInputs) for one in kv_cache_inputs):
            return KVCacheInputsSequence(kv_cache_inputs)
    return kv_cache_inputs


def _cast(state: Mapping[str, WeightData], dtype: DType) -> dict[str, WeightData]:
    """``state`` with floats of 16 bits and more as ``dtype``, but for scales; what is so already is
    not copied."""
    return {
        name: one.astype(dtype)
        if one.dtype.is_float() and not one.dtype.is_float8() and not _is_scale(name)
        else one
        for name, one in state.items()
    }


def _is_scale(name: str) -> bool:
    return float8.is_scale(name) or gptq.is_scale(name)


__all__ = [
    "DecoderInputs",
    "DecoderModel",
    "convert_safetensor_state_dict",
    "decoder_architecture",
]
