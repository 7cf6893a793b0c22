"""The functions of requests that change logits before a token is drawn."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.driver import CPU, Tensor
from maxlab.errors import ShapeError
from maxlab.interfaces import (
    BatchLogitsProcessor,
    BatchProcessorInputs,
    ProcessorInputs,
    TextGenerationContext,
)


def apply_logits_processors(
    context_batch: Sequence[TextGenerationContext],
    batch_logits: Tensor,
    batch_logit_offsets: Tensor | None = None,
    batch_processors: Sequence[BatchLogitsProcessor] = (),
) -> None:
    """Lets the logits processors of each request change its rows of ``batch_logits``, in place.

    Those of the requests come first, in the order of the batch, then ``batch_processors``. A
    processor gets a view of the rows of its request, on the device where they are.

    Args:
        context_batch: The requests.
        batch_logits: float32 [rows, vocabulary].
        batch_logit_offsets: Where the rows of each request begin, and the end, integers
            [requests + 1]; None where each request has one row.
        batch_processors: Functions that change the logits of the whole batch.

    Raises:
        ShapeError: ML659, rows and requests do not fit (a ValueError).

    Example:
        >>> import numpy as np
        >>> from maxlab.interfaces import SamplingParams
        >>> from maxlab.pipelines.core import TextContext
        >>> def never(inputs):
        ...     inputs.logits.to_numpy()[:, 1] = -np.inf
        >>> contexts = [TextContext(max_length=9, tokens=np.array([5]), sampling_params=params)
        ...             for params in (SamplingParams(), SamplingParams(logits_processors=[never]))]
        >>> logits = Tensor.from_numpy(np.zeros((2, 2), np.float32))
        >>> apply_logits_processors(contexts, logits)
        >>> logits.to_numpy().tolist()
        [[0.0, 0.0], [0.0, -inf]]
    """
    rows, count = int(batch_logits.shape[0]), len(context_batch)
    if batch_logit_offsets is None:
        ends = list(range(count + 1))
    else:
        ends = [int(end) for end in batch_logit_offsets.to(CPU()).to_numpy().ravel()]
    if len(ends) != count + 1 or ends[0] != 0 or ends[-1] != rows or sorted(ends) != ends:
        raise ShapeError(
            "ML659",
            f"apply_logits_processors: the offsets {ends} do not share {rows} rows among {count} "
            "requests",
            fix="pass offsets from 0 to the number of rows, one more than requests",
        )
    for number, context in enumerate(context_batch):
        for process in context.sampling_params.logits_processors or ():
            mine = batch_logits[ends[number] : ends[number + 1], :]
            process(ProcessorInputs(logits=mine, context=context))
    for batch_process in batch_processors:
        batch_process(
            BatchProcessorInputs(
                logits=batch_logits,
                logit_offsets=batch_logit_offsets,
                context_batch=context_batch,
            )
        )


__all__ = ["apply_logits_processors"]
