"""Models of pipelines: what each must be able to do, and what all have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from maxlab.errors import UnsupportedError
from maxlab.interfaces import BaseContext, LogProbabilities
from maxlab.pipelines.lib.interfaces.cache import KVCacheMixin
from maxlab.pipelines.lib.interfaces.values import ModelInputs, ModelOutputs

if TYPE_CHECKING:
    from maxlab.driver import Device, Tensor
    from maxlab.dtype import DType
    from maxlab.engine import InferenceSession
    from maxlab.graph.weights import Weights
    from maxlab.nn.transformer import ReturnLogits
    from maxlab.pipelines.lib.config import PipelineConfig
    from maxlab.pipelines.lib.config_enums import SupportedEncoding
    from maxlab.pipelines.lib.kv_cache_config import KVCacheConfig
    from maxlab.pipelines.lib.lora import LoRAManager
    from maxlab.pipelines.lib.weights_adapter import WeightsAdapter

BaseContextType = TypeVar("BaseContextType", bound=BaseContext)

PAGED_BATCH_SIZE = 512
"""The batch size for a paged cache on accelerators, as MAX has it. When pages run out, the
scheduler takes them back from the newest requests, so a size that is too large costs time alone."""


class AlwaysSignalBuffersMixin:
    """A model whose graph takes signal buffers on any number of devices, one too.

    Put it before `PipelineModel` among the bases of a model whose layers always communicate.
    """

    devices: list[Device]
    """The devices of the model."""

    @property
    def signal_buffers(self) -> list[Tensor]:
        """A signal buffer for each device, made when first asked for."""
        return _signal_buffers(self, self.devices)


class PipelineModel(ABC, Generic[BaseContextType]):
    """A model that a pipeline runs: it prepares the inputs of batches, and executes its graph.

    Compile the graph in ``__init__``, after that of this class, by
    ``self.session.load(graph, weights_registry=...)``.

    Args:
        pipeline_config: The configuration of the pipeline.
        session: The session that compiles and runs the graph.
        huggingface_config: The configuration of the checkpoint, a ``PretrainedConfig``.
        encoding: How the weights are stored.
        devices: The devices of the model.
        kv_cache_config: How a cache of keys and values is laid out.
        weights: The weights of the checkpoint.
        adapter: Converts the weights of this format of files; None where nothing is to be done.
        return_logits: Which logits the model returns.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), adapters (LoRA) are asked for, and the
            model does not take them.

    Attributes:
        takes_adapters: Whether the model serves adapters; of the class.
        reads_images: Whether contexts may have images; of the class.
        read_settings: Settings of the configuration that this model reads and others may not, by
            keyword; of the class.
        max_seq_len: The largest number of tokens of a text, of the prompt and generated.
        kv_manager: The manager of the cache; of models with `KVCacheMixin` only.
    """

    takes_adapters: ClassVar[bool] = False
    reads_images: ClassVar[bool] = True
    read_settings: ClassVar[frozenset[str]] = frozenset()
    _lora_manager: LoRAManager | None = None

    def __init__(
        self,
        pipeline_config: PipelineConfig,
        session: InferenceSession,
        huggingface_config: Any,
        encoding: SupportedEncoding,
        devices: list[Device],
        kv_cache_config: KVCacheConfig,
        weights: Weights,
        adapter: WeightsAdapter | None,
        return_logits: ReturnLogits,
    ) -> None:
        if pipeline_config.lora_config is not None and not self.takes_adapters:
            raise UnsupportedError(
                "ML169",
                f"the configuration asks for adapters (LoRA), and {type(self).__name__} takes none",
                fix="leave enable_lora at False, or merge the adapter into the checkpoint",
            )
        self.pipeline_config = pipeline_config
        self.session = session
        self.huggingface_config = huggingface_config
        self.encoding = encoding
        self.devices = devices
        self.kv_cache_config = kv_cache_config
        self.weights = weights
        self.adapter = adapter
        self.return_logits = return_logits
        self.max_seq_len = self.calculate_max_seq_len(pipeline_config, huggingface_config)
        if isinstance(self, KVCacheMixin):
            self.kv_manager = self.load_kv_manager(session, kv_cache_config.available_cache_memory)

    @classmethod
    @abstractmethod
    def calculate_max_seq_len(cls, pipeline_config: PipelineConfig, huggingface_config: Any) -> int:
        """The largest number of tokens of a text: what is configured, or what the model allows.

        `upper_bounded_default` of ``maxlab.pipelines.lib.utils`` chooses between the two.

        Args:
            pipeline_config: The configuration of the pipeline.
            huggingface_config: The configuration of the checkpoint, a ``PretrainedConfig``.

        Raises:
            ValueError: ``max_length`` of the pipeline is larger than the model allows.
        """
        raise NotImplementedError

    @abstractmethod
    def prepare_initial_token_inputs(
        self,
        context_batch: Sequence[BaseContextType],
        kv_cache_inputs: Iterable[Any] | None = None,
        return_n_logits: int = 1,
    ) -> ModelInputs:
        """The inputs of the first execution for a batch.

        Args:
            context_batch: The states of the requests.
            kv_cache_inputs: The tensors of the cache; None for a model without one.
            return_n_logits: The number of tokens of each text whose logits are returned.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError

    @abstractmethod
    def prepare_next_token_inputs(
        self, next_tokens: Tensor, prev_model_inputs: ModelInputs
    ) -> ModelInputs:
        """The inputs of the next execution for the same batch, after a token was drawn for each.

        Args:
            next_tokens: The tokens that were drawn, integers of shape [texts].
            prev_model_inputs: The inputs of the execution before.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError

    @abstractmethod
    def execute(self, model_inputs: ModelInputs) -> ModelOutputs:
        """The outputs of the graph for prepared inputs.

        Args:
            model_inputs: The inputs.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError

    def compute_log_probabilities(
        self,
        session: InferenceSession,
        model_inputs: ModelInputs,
        model_outputs: ModelOutputs,
        next_tokens: Tensor,
        batch_top_n: list[int],
        batch_echo: list[bool],
    ) -> list[LogProbabilities | None]:
        """The log probabilities of drawn tokens; a model that tells them overrides it.

        Args:
            session: The session to compute them in.
            model_inputs: The inputs of the execution.
            model_outputs: The outputs of the execution.
            next_tokens: The tokens that were drawn, integers of shape [texts].
            batch_top_n: How many of the most probable tokens to tell for each text; 0 for none.
            batch_echo: Whether to tell those of the prompt's tokens too, for each text.

        Raises:
            UnsupportedError: ML169 (a NotImplementedError), the model does not tell them.
        """
        del session, model_inputs, model_outputs, next_tokens, batch_top_n, batch_echo
        raise UnsupportedError(
            "ML169",
            f"{type(self).__name__} tells no log probabilities",
            fix="leave log_probabilities of the request at 0, or override "
            "compute_log_probabilities in the model",
        )

    @property
    def dtype(self) -> DType:
        """The dtype of the stored weights."""
        return self.encoding.dtype

    @property
    def lora_manager(self) -> LoRAManager | None:
        """The manager of adapters (LoRA); None where the configuration asks for none."""
        return self._lora_manager

    @property
    def signal_buffers(self) -> list[Tensor]:
        """A signal buffer for each of several devices, made when first asked for; [] for one."""
        return [] if len(self.devices) == 1 else _signal_buffers(self, self.devices)

    @classmethod
    def estimate_weights_size(cls, pipeline_config: PipelineConfig) -> int:
        """The bytes of the weights on all devices, by the sizes of their files.

        Args:
            pipeline_config: The configuration of the pipeline.
        """
        return pipeline_config.model_config.weights_size()

    @classmethod
    def estimate_activation_memory(
        cls, pipeline_config: PipelineConfig, huggingface_config: Any
    ) -> int:
        """The bytes for values between layers: 0 unless a model overrides it.

        Args:
            pipeline_config: The configuration of the pipeline.
            huggingface_config: The configuration of the checkpoint, a ``PretrainedConfig``.
        """
        del pipeline_config, huggingface_config
        return 0

    @classmethod
    def infer_optimal_batch_size(
        cls,
        pipeline_config: PipelineConfig,
        available_cache_memory: int,
        huggingface_config: Any,
        devices: list[Device],
        kv_cache_config: KVCacheConfig,
        cache_dtype: DType,
    ) -> int:
        """The number of requests of a batch, where the configuration names none.

        It is 1 without a cache of keys and values and on the CPU, and 512 with a paged cache.

        Args:
            pipeline_config: The configuration of the pipeline.
            available_cache_memory: The bytes that the cache may take.
            huggingface_config: The configuration of the checkpoint, a ``PretrainedConfig``.
            devices: The devices.
            kv_cache_config: How the cache is to be laid out.
            cache_dtype: The dtype of keys and values.
        """
        del pipeline_config, available_cache_memory, huggingface_config
        del kv_cache_config, cache_dtype
        on_cpu = len(devices) == 1 and devices[0].is_host
        return PAGED_BATCH_SIZE if issubclass(cls, KVCacheMixin) and not on_cpu else 1


def _signal_buffers(owner: Any, devices: Sequence[Device]) -> list[Tensor]:
    """The signal buffers of ``devices``, which ``owner`` keeps."""
    found: list[Tensor] | None = vars(owner).get("_kept_signal_buffers")
    if found is None:
        from maxlab.graph import DeviceRef
        from maxlab.nn.comm import Signals

        found = Signals(DeviceRef.from_device(device) for device in devices).buffers()
        owner._kept_signal_buffers = found
    return found


__all__ = ["AlwaysSignalBuffersMixin", "BaseContextType", "PipelineModel"]
