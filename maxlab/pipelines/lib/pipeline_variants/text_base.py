"""The parts that all pipelines of text have: configuration, tokenizer, adapters, and checks."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from maxlab.driver import Tensor
from maxlab.errors import ExecutionError, InputError
from maxlab.interfaces import (
    PipelineTokenizer,
    RequestID,
    TextGenerationContext,
    TextGenerationRequest,
)
from maxlab.nn.kv_cache.manager import KVCacheInputsSequence
from maxlab.pipelines.lib.interfaces import ModelInputs, PipelineModel
from maxlab.pipelines.lib.pipeline_variants.accepting import require_accepted, require_words

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig
    from maxlab.pipelines.lib.lora import LoRAManager

TextGenerationContextType = TypeVar("TextGenerationContextType", bound=TextGenerationContext)


class TextPipelineParts(Generic[TextGenerationContextType]):
    """The base of pipelines of text.

    Args:
        pipeline_config: The configuration, resolved.
        tokenizer: The tokenizer, which makes contexts of requests.
        model: The model whose tokens are answered.
    """

    def __init__(
        self,
        pipeline_config: PipelineConfig,
        tokenizer: PipelineTokenizer[
            TextGenerationContextType, npt.NDArray[np.integer[Any]], TextGenerationRequest
        ],
        model: PipelineModel[TextGenerationContextType],
    ) -> None:
        self._pipeline_config = pipeline_config
        self._tokenizer = tokenizer
        self._pipeline_model = model
        self.lock = threading.RLock()
        """Held while a step is taken: of all schedulers of the pipeline, one takes a step at a
        time, on whatever thread."""

    @property
    def pipeline_config(self) -> PipelineConfig:
        """The configuration."""
        return self._pipeline_config

    @property
    def tokenizer(
        self,
    ) -> PipelineTokenizer[
        TextGenerationContextType, npt.NDArray[np.integer[Any]], TextGenerationRequest
    ]:
        """The tokenizer, which makes contexts of requests."""
        return self._tokenizer

    @property
    def lora_manager(self) -> LoRAManager | None:
        """The manager of the model's adapters (LoRA), which loads and unloads them; None where the
        configuration asks for none."""
        return self._pipeline_model.lora_manager

    def require_accepted(self, context: TextGenerationContextType) -> None:
        """Raises unless the pipeline can answer a request as it asks.

        Args:
            context: The state of the request.

        Raises:
            InputError: ML139 (a ValueError), it asks for a feature that is off; ML160, its prompt
                leaves no room for a token; ML162, it has images, and the model sees none; ML539, it
                names an adapter that is not loaded; ML981, a token that the model does not have.
            UnsupportedError: ML995 (a NotImplementedError), it asks for something that no pipeline
                of text does.
        """
        self._require_readable(context)
        require_words(context, self._pipeline_config)
        if self.lora_manager is not None:
            self.lora_manager.require_adapter(context)

    def adapters_kept(self) -> AbstractContextManager[None]:
        """A block in which the adapters of the model stay: a batch that is formed in it can be run,
        though another thread unloads an adapter."""
        return nullcontext() if self.lora_manager is None else self.lora_manager.kept()

    def require_adapter(self, context: TextGenerationContextType) -> None:
        """Raises unless a request can be computed with its adapter, which may be unloaded while the
        request is answered.

        Args:
            context: The state of the request.

        Raises:
            InputError: ML539 (a ValueError), there is no such adapter, or another one of its name.
        """
        if self.lora_manager is not None:
            self.lora_manager.bind(context)

    def _require_computable(self, context: TextGenerationContextType) -> None:
        """Raises unless a request of a batch can be answered as it asks, by the adapters that are
        kept for the batch."""
        self._require_readable(context)
        if context.start_idx == 0:
            require_words(context, self._pipeline_config)
        self.require_adapter(context)

    def _require_readable(self, context: TextGenerationContextType) -> None:
        """Raises unless the configuration and the model allow what a request asks for and gives."""
        require_accepted(context, self._pipeline_config)
        if not self._pipeline_model.reads_images and getattr(context, "images", None):
            raise InputError(
                "ML162",
                f"request {context.request_id}: no images expected ≠ images given to "
                f"{type(self._pipeline_model).__name__}, which reads texts alone",
                fix="take a model that sees",
            )

    def _forget_adapter(self, request_id: RequestID) -> None:
        """Forgets the adapter of a request, which is over."""
        if self.lora_manager is not None:
            self.lora_manager.forget(request_id)

    def fits_together(self, batch: Sequence[TextGenerationContextType]) -> bool:
        """Whether requests can be computed in one batch: the model has slots for their adapters.

        Args:
            batch: The states of the requests.
        """
        return self.lora_manager is None or self.lora_manager.fits_together(batch)

    def _side_by_side(
        self, batch: Mapping[RequestID, TextGenerationContextType]
    ) -> list[TextGenerationContextType]:
        """The requests of a batch, those of one adapter side by side."""
        adapters, contexts = self.lora_manager, list(batch.values())
        return contexts if adapters is None else adapters.sort_lora_batch(contexts)


def next_inputs(
    model: PipelineModel[Any], managers: Sequence[Any], new_tokens: Tensor, before: ModelInputs
) -> ModelInputs:
    """The inputs of a model for the step after the one with the inputs ``before``.

    Args:
        model: The model.
        managers: The manager of its cache; none for a model without one.
        new_tokens: The tokens that were drawn, integers of shape [texts].
        before: The inputs of the step before.

    Raises:
        ExecutionError: ML178, the model made these inputs without the cache that it was given.
    """
    cache = None
    for manager in managers:
        given = before.kv_cache_inputs
        if not isinstance(given, KVCacheInputsSequence):
            raise ExecutionError(
                "ML178",
                f"{type(model).__name__}: inputs with the kv_cache_inputs that were passed "
                f"expected ≠ {type(given).__name__} given",
                fix="set kv_cache_inputs of what prepare_initial_token_inputs returns",
            )
        cache = KVCacheInputsSequence(
            manager.increment_cache_lengths(given.kv_cache_inputs, before)
        )
    inputs = model.prepare_next_token_inputs(new_tokens, before)
    inputs.update(kv_cache_inputs=cache)
    return inputs


__all__ = ["TextGenerationContextType", "TextPipelineParts", "next_inputs"]
