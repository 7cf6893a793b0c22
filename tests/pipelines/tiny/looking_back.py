"""A decoder as a user writes it: an embedding, layers of attention over a paged cache, and a head.

It is loaded by ``custom_architectures``, so that a process of its own can run it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab import nn
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import LogProbabilities, PipelineTask
from maxlab.nn import kernels
from maxlab.nn.attention import MHAMaskVariant
from maxlab.nn.kv_cache import (
    KVCacheParams,
    KVCacheStrategy,
    PagedCacheInputSymbols,
    PagedCacheValues,
    PagedKVCacheManager,
)
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.config_enums import SupportedEncoding
from maxlab.pipelines.lib.interfaces import (
    KVCacheMixin,
    ModelInputs,
    ModelOutputs,
    PipelineModel,
)
from maxlab.pipelines.lib.ragged_log_probabilities import RaggedLogProbabilities
from maxlab.pipelines.lib.registry import SupportedArchitecture
from maxlab.pipelines.lib.tokenizer import TextTokenizer
from maxlab.pipelines.lib.utils import upper_bounded_default

F32, U32, HOST = DType.float32, DType.uint32, DeviceRef.CPU()


class Layers(nn.Module):
    """The layers, and how they are put together."""

    def __init__(self, config: Any, params: KVCacheParams, every: bool) -> None:
        super().__init__()
        self._params, self._config, self._every = params, config, every
        hidden, heads, size = config.hidden_size, config.num_attention_heads, params.head_dim
        rows = (heads + 2 * params.n_kv_heads) * size
        self.embed = nn.Embedding(config.vocab_size, hidden, F32, HOST)
        self.qkv = nn.LayerList([nn.Linear(hidden, rows, F32, HOST) for _ in range(self.depth)])
        self.out = nn.LayerList(
            [nn.Linear(heads * size, hidden, F32, HOST) for _ in range(self.depth)]
        )
        self.head = nn.Linear(hidden, config.vocab_size, F32, HOST)

    @property
    def depth(self) -> int:
        return int(self._config.num_hidden_layers)

    def __call__(self, tokens: TensorValue, offsets: TensorValue, *cached: Any) -> Any:
        params, heads = self._params, self._config.num_attention_heads
        cache = PagedCacheValues(*cached)
        rope = RotaryEmbedding(
            heads * params.head_dim,
            heads,
            theta=10000.0,
            max_seq_len=self._config.max_position_embeddings,
            head_dim=params.head_dim,
            interleaved=False,
        )
        x = self.embed(tokens)
        layers: Any = zip(self.qkv, self.out, strict=True)
        for number, (qkv, out) in enumerate(layers):
            layer = ops.constant(number, U32, HOST)
            q = kernels.fused_qkv_ragged_matmul(params, x, offsets, qkv.weight, cache, layer, heads)
            q = kernels.fused_qk_ragged_rope(
                params,
                ops.reshape(q, [-1, heads, params.head_dim]),
                offsets,
                cache,
                rope.freqs_cis,
                layer,
                interleaved=False,
            )
            y = kernels.flash_attention_ragged(
                params, q, offsets, cache, layer, MHAMaskVariant.CAUSAL_MASK, rope.compute_scale()
            )
            x = x + out(ops.reshape(y, [-1, heads * params.head_dim]))
        last = self.head(ops.gather(x, ops.cast(offsets[1:], DType.int64) - 1, axis=0))
        return (last, self.head(x), offsets) if self._every else last


@dataclass(eq=False)
class DecoderInputs(ModelInputs):
    """The tokens of all requests, one after the other, and where each begins."""

    tokens: Tensor
    input_row_offsets: Tensor


class LookingBack(PipelineModel[TextContext], KVCacheMixin):
    """The decoder in a pipeline."""

    rows = 0
    """Tokens that were computed."""
    runs = 0
    """Executions of the graph."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        every = self.return_logits is not ReturnLogits.LAST_TOKEN
        params = self.get_kv_params(
            self.huggingface_config, 1, self.kv_cache_config, self.encoding.cache_dtype
        )
        module = Layers(self.huggingface_config, params, every)
        module.load_state_dict({name: weight.data() for name, weight in self.weights.items()})
        symbols = PagedCacheInputSymbols.of(params, module.depth, HOST)
        types = [TensorType(DType.int64, ["tokens"], HOST), TensorType(U32, ["ends"], HOST)]
        with Graph("looking_back", input_types=[*types, *symbols]) as graph:
            given = graph.inputs
            found = module(given[0].tensor, given[1].tensor, *PagedCacheValues.of(given[2:]))
            graph.output(*(found if every else [found]))
        self.model = self.session.load(graph, weights_registry=module.state_dict())
        self._log_probabilities = RaggedLogProbabilities(self.devices[0])

    @classmethod
    def calculate_max_seq_len(cls, pipeline_config: Any, huggingface_config: Any) -> int:
        return upper_bounded_default(
            huggingface_config.max_position_embeddings, pipeline_config.max_length
        )

    @classmethod
    def get_kv_params(
        cls, huggingface_config: Any, n_devices: int, kv_cache_config: Any, cache_dtype: DType
    ) -> KVCacheParams:
        config = huggingface_config
        return KVCacheParams(
            cache_dtype,
            n_kv_heads=config.num_key_value_heads,
            head_dim=config.hidden_size // config.num_attention_heads,
            page_size=kv_cache_config.kv_cache_page_size,
            enable_prefix_caching=kv_cache_config.enable_prefix_caching,
            n_devices=n_devices,
        )

    @classmethod
    def get_num_layers(cls, huggingface_config: Any) -> int:
        return int(huggingface_config.num_hidden_layers)

    @classmethod
    def estimate_kv_cache_size(
        cls,
        pipeline_config: Any,
        available_cache_memory: int,
        devices: list[Any],
        huggingface_config: Any,
        kv_cache_config: Any,
        cache_dtype: DType,
    ) -> int:
        return PagedKVCacheManager.estimated_memory_size(
            cls.get_kv_params(huggingface_config, len(devices), kv_cache_config, cache_dtype),
            pipeline_config.max_batch_size or 1,
            cls.calculate_max_seq_len(pipeline_config, huggingface_config),
            cls.get_num_layers(huggingface_config),
            available_cache_memory,
            devices,
        )

    def load_kv_manager(self, session: Any, available_cache_memory: int | None) -> Any:
        """As the pipeline makes it, with every change checked and free pages poisoned."""
        pages = getattr(self.huggingface_config, "pages", None)
        params = self.get_kv_params(
            self.huggingface_config, 1, self.kv_cache_config, self.encoding.cache_dtype
        )
        layers = self.get_num_layers(self.huggingface_config)
        return PagedKVCacheManager(
            params,
            max_batch_size=self.pipeline_config.max_batch_size or 1,
            max_seq_len=self.max_seq_len,
            num_layers=layers,
            devices=self.devices,
            session=session,
            available_cache_memory=None
            if pages is None
            else pages * params.bytes_per_block(layers),
            enable_runtime_checks=True,
            poison_free_pages=True,
        )

    def prepare_initial_token_inputs(
        self,
        context_batch: Sequence[TextContext],
        kv_cache_inputs: Iterable[Any] | None = None,
        return_n_logits: int = 1,
    ) -> DecoderInputs:
        texts = [context.next_tokens for context in context_batch]
        inputs = DecoderInputs(
            Tensor.from_numpy(np.concatenate(texts).astype(np.int64)),
            Tensor.from_numpy(np.cumsum([0, *map(len, texts)]).astype(np.uint32)),
        )
        inputs.kv_cache_inputs = kv_cache_inputs
        return inputs

    def prepare_next_token_inputs(
        self, next_tokens: Tensor, prev_model_inputs: ModelInputs
    ) -> DecoderInputs:
        count = next_tokens.shape[0]
        return DecoderInputs(next_tokens, Tensor.from_numpy(np.arange(count + 1, dtype=np.uint32)))

    def compute_log_probabilities(self, *args: Any) -> list[LogProbabilities | None]:
        return self._log_probabilities(*args)

    def execute(self, model_inputs: ModelInputs) -> ModelOutputs:
        assert isinstance(model_inputs, DecoderInputs)
        self.rows += model_inputs.tokens.shape[0]
        self.runs += 1
        found = self.model(*model_inputs)
        if len(found) == 1:
            return ModelOutputs(logits=found[0], next_token_logits=found[0])
        return ModelOutputs(logits=found[1], next_token_logits=found[0], logit_offsets=found[2])


ARCHITECTURES = [
    SupportedArchitecture(
        name="LookingBack",
        example_repo_ids=["your-org/looking-back"],
        default_encoding=SupportedEncoding.float32,
        supported_encodings={SupportedEncoding.float32: [KVCacheStrategy.PAGED]},
        pipeline_model=LookingBack,
        task=PipelineTask.TEXT_GENERATION,
        tokenizer=TextTokenizer,
        default_weights_format=WeightsFormat.safetensors,
    )
]
