"""The drawing of the tokens of a batch, step after step, on the device of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from maxlab.driver import CPU, Device, Tensor
from maxlab.dtype import DType
from maxlab.errors import ExecutionError
from maxlab.graph import DeviceRef
from maxlab.interfaces import BatchLogitsProcessor, TextGenerationContext
from maxlab.pipelines.lib.interfaces import ModelOutputs
from maxlab.pipelines.lib.pipeline_variants.grammars import Bitmask, allowed
from maxlab.pipelines.lib.sampling import SamplingConfig
from maxlab.pipelines.lib.sampling.inputs import (
    in_order,
    min_tokens_masks,
    sampler_arrays,
    sampler_input_types,
)
from maxlab.pipelines.lib.sampling.processors import apply_logits_processors
from maxlab.pipelines.lib.sampling.sampling import token_sampler

if TYPE_CHECKING:
    from maxlab.engine import InferenceSession, Model


class TokenSampler:
    """The compiled sampler of a pipeline, and with structured output a second one with a mask.

    Args:
        session: The session that runs it.
        config: The features of the sampler.
        device: Where logits are.
    """

    def __init__(self, session: InferenceSession, config: SamplingConfig, device: Device) -> None:
        self.device = device
        self._session = session
        self.config = replace(config, enable_structured_output=False)
        self._masked = config if config.enable_structured_output else None
        self._plain_model = self._load(self.config)
        self._masked_model: Model | None = None
        where = DeviceRef.from_device(device)
        self._plain_types = sampler_input_types(self.config, where)
        self._masked_types = sampler_input_types(config, where)

    def _load(self, config: SamplingConfig) -> Model:
        return self._session.load(token_sampler(config, DeviceRef.from_device(self.device)))

    def __call__(self, given: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        """The tokens, int64 [requests]; all tokens so far, int64 [requests, steps]; and the seeds
        of the next step, uint64 [requests].

        Args:
            given: The inputs of the sampler by name; with ``bitmask`` or without.
        """
        if "bitmask" not in given:
            types, model = self._plain_types, self._plain_model
        else:
            assert self._masked is not None
            if self._masked_model is None:
                self._masked_model = self._load(self._masked)
            types, model = self._masked_types, self._masked_model
        tokens, every, seeds = model(*in_order(types, given))
        return tokens, every, seeds


class Drawing:
    """Draws the tokens of one batch. Between steps nothing is copied to the host.

    Args:
        sampler: The sampler.
        batch: The states of the requests.
        num_steps: The number of steps.
        bitmask: The tokens that may follow, see `Grammars`; None for all.
        processors: Functions that change the logits of the batch.

    Raises:
        UnsupportedError: ML679 (a NotImplementedError), a request asks for a feature that the
            sampler was built without.
    """

    def __init__(
        self,
        sampler: TokenSampler,
        batch: Sequence[TextGenerationContext],
        num_steps: int,
        bitmask: Bitmask | None,
        processors: Sequence[BatchLogitsProcessor],
    ) -> None:
        self._sampler, self._batch = sampler, list(batch)
        self._processors = list(processors)
        self._has_processors = bool(processors) or any(
            one.sampling_params.logits_processors for one in batch
        )
        self._bitmask = bitmask
        config = sampler.config
        arrays = sampler_arrays(config, self._batch, num_steps)
        self._given: dict[str, Any] = {
            name: self._on_device(array) for name, array in arrays.items()
        }
        self._masks = min_tokens_masks(batch, num_steps) if config.enable_min_tokens else []
        self._step = 0
        self._every = self._on_device(np.zeros((len(batch), 0), np.int64))

    def _on_device(self, array: npt.NDArray[Any]) -> Tensor:
        return Tensor.from_numpy(array).to(self._sampler.device)

    def draw(self, outputs: ModelOutputs) -> Tensor:
        """The next token of each request, int64 [requests], on the device of the model.

        Args:
            outputs: The outputs of the model for the batch.
        """
        given, variable = self._given, self._sampler.config.enable_variable_logits
        logits, offsets = outputs.next_token_logits, None
        if variable or logits is None:
            logits, offsets = outputs.logits, outputs.logit_offsets
        if variable and offsets is None:
            raise ExecutionError(
                "ML178",
                "a model with logit_offsets expected, as enable_variable_logits asks for ≠ one "
                "without",
                fix="let execute of the model return them for ReturnLogits.VARIABLE and ALL",
            )
        if self._has_processors:
            apply_logits_processors(self._batch, logits, offsets, self._processors)
        given |= {"logits": logits, "prev_tokens": self._every}
        if offsets is not None and variable:
            given["logit_offsets"] = self._as_uint32(offsets)
        if self._masks:
            given["min_tokens_mask"] = self._on_device(self._masks[self._step])
        if self._bitmask is not None:
            given["bitmask"] = self._on_device(allowed(self._bitmask, int(logits.shape[-1])))
        tokens, self._every, given["seed"] = self._sampler(given)
        self._step += 1
        return tokens

    def _as_uint32(self, offsets: Tensor) -> Tensor:
        """The places of rows as the sampler takes them; models may give them as int64."""
        if offsets.dtype is DType.uint32:
            return offsets
        return self._on_device(offsets.to(CPU()).to_numpy().astype(np.uint32))

    def tokens(self) -> npt.NDArray[np.int32]:
        """All tokens that were drawn, of shape [requests, steps], on the host."""
        return self._every.to(CPU()).to_numpy().astype(np.int32)


__all__ = ["Drawing", "TokenSampler"]
