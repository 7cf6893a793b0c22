"""The log probabilities of tokens that the target gave in one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.driver import Tensor
from maxlab.interfaces import LogProbabilities
from maxlab.pipelines.lib.interfaces import ModelInputs, ModelOutputs, PipelineModel


def told_of(
    model: PipelineModel[Any],
    batch: Sequence[Any],
    inputs: ModelInputs,
    logits: npt.NDArray[np.float32],
    tokens: npt.NDArray[np.integer[Any]],
) -> list[list[LogProbabilities | None]]:
    """The log probabilities of each token of each request; None for requests that ask for none.

    Args:
        model: The target.
        batch: The states of the requests.
        inputs: The inputs of its run.
        logits: Its logits for each token, [requests, tokens, vocabulary].
        tokens: The tokens, [requests, tokens].
    """
    device = model.devices[0]
    wanted = [context.log_probabilities for context in batch]
    by_place = []
    for place in range(tokens.shape[1]):
        rows = Tensor.from_numpy(np.ascontiguousarray(logits[:, place])).to(device)
        by_place.append(
            model.compute_log_probabilities(
                model.session,
                inputs,
                ModelOutputs(logits=rows, next_token_logits=rows),
                Tensor.from_numpy(tokens[:, place].astype(np.int64)),
                wanted,
                [False] * len(batch),
            )
        )
    return [list(found) for found in zip(*by_place, strict=True)]


__all__ = ["told_of"]
