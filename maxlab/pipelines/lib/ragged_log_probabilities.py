"""Log probabilities of the batches of a model whose inputs are ragged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxlab.driver import CPU, Device, Tensor
from maxlab.graph import DeviceRef
from maxlab.interfaces import LogProbabilities
from maxlab.pipelines.lib.interfaces.values import ModelOutputs
from maxlab.pipelines.lib.log_probabilities import (
    compute_log_probabilities_ragged,
    log_probabilities_ragged_graph,
)

if TYPE_CHECKING:
    from maxlab.engine import InferenceSession, Model

_LEAST_LEVELS = 3


class RaggedLogProbabilities:
    """Computes log probabilities for a model, and compiles what that takes when it is first asked.

    A model calls it in `PipelineModel.compute_log_probabilities`. Its inputs have ``tokens`` and
    ``input_row_offsets``.

    Args:
        device: Where logits are.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._models: dict[int, Model] = {}

    def __call__(
        self,
        session: InferenceSession,
        model_inputs: Any,
        model_outputs: ModelOutputs,
        next_tokens: Tensor,
        batch_top_n: Sequence[int],
        batch_echo: Sequence[bool],
    ) -> list[LogProbabilities | None]:
        """The log probabilities of each request; None where its ``batch_top_n`` is 0.

        Args:
            session: The session to compute them in.
            model_inputs: The inputs of the execution.
            model_outputs: The outputs of the execution.
            next_tokens: The tokens that were drawn, integers of shape [requests].
            batch_top_n: How many of the most probable tokens each request is told.
            batch_echo: Whether a request is told of the tokens that went in too.

        Raises:
            InputError: ML981 (a ValueError), more tokens than the vocabulary has are asked for.
        """
        levels = max(_LEAST_LEVELS, max(batch_top_n, default=0).bit_length())
        if levels not in self._models:
            where = DeviceRef.from_device(self._device)
            self._models[levels] = session.load(
                log_probabilities_ragged_graph(where, levels=levels)
            )
        last = model_outputs.next_token_logits
        return compute_log_probabilities_ragged(
            self._device,
            self._models[levels],
            input_row_offsets=model_inputs.input_row_offsets.to(CPU()).to_numpy(),
            logits=model_outputs.logits if any(batch_echo) else None,
            next_token_logits=model_outputs.logits if last is None else last,
            tokens=model_inputs.tokens.to(CPU()).to_numpy(),
            sampled_tokens=next_tokens.to(CPU()).to_numpy(),
            batch_top_n=batch_top_n,
            batch_echo=batch_echo,
        )


__all__ = ["RaggedLogProbabilities"]
