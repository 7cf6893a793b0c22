"""The run of a model that gave a token: as it was recorded, or run again and timed now."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from maxlab.analysis.recording import Recording, record
from maxlab.errors import InputError
from maxlab.interfaces import BatchType, RequestID, TextGenerationInputs, TextGenerationRequest
from maxlab.pipelines.lib.pipeline_variants import TextGenerationPipeline
from maxlab.pipelines.lib.tokenizer.running import run_to_end

FIX = (
    "generate it with %%generate --profile, and a pipeline or a scheduler of this process: "
    "_, pipeline = PIPELINE_REGISTRY.retrieve(config)"
)


@dataclass(frozen=True)
class TimedStep:
    """The run of a model that gave a token, with the time of each kernel.

    Attributes:
        profile: The profile of the run.
        is_again: Whether the step was not recorded when it was taken, but run again later, alone.
        found: Of a step that was run again: the number of its tokens that the cache had already.
    """

    profile: Any
    is_again: bool = False
    found: int = 0


def timed(recording: Recording, *, is_again: bool = False, found: int = 0) -> TimedStep | None:
    """The run of the model in a recording of a step; None where no model ran.

    Args:
        recording: The recording.
        is_again: As in `TimedStep`.
        found: As in `TimedStep`.
    """
    if not recording.models:
        return None
    # The graphs that draw a token and tell its probability have no weights.
    ran = max(recording.models, key=lambda one: (len(one.profile.model.weights), one.call_ns))
    return TimedStep(ran.profile, is_again, found)


class Origin:
    """The request and the pipeline of an answer, by which a step of it can be run again.

    A step is run again as a scheduler computes a request anew that gave its pages to others: the
    tokens before it are computed as a prompt, and then its own ones, with the same seeds.

    Args:
        request: The request.
        pipeline: The pipeline, of which this holds a weak reference; None for a model in another
            process.
    """

    def __init__(self, request: TextGenerationRequest, pipeline: Any = None) -> None:
        self.request = request
        self._pipeline = None if pipeline is None else weakref.ref(pipeline)

    def run_again(self, tokens: Sequence[int], count: int) -> TimedStep:
        """The run of the model for the token behind others, timed.

        Args:
            tokens: The tokens of the answer before it.
            count: The number of tokens that its step computed, from the end.

        Raises:
            InputError: ML476 (a ValueError), the model runs in another process; ML479, its pipeline
                is gone, or has a draft model, or ran no model in this process.
            ArgumentError: ML852 (a ValueError), runs of models are being recorded already.
            InsufficientBlocksError: ML620 (a RuntimeError), other requests have the pages.
        """
        if self._pipeline is None:
            raise InputError(
                "ML476",
                "the model of an LLM runs in another process, and its kernels are not timed there",
                fix="generate with a pipeline of this process: _, pipeline = "
                "PIPELINE_REGISTRY.retrieve(config), then %%generate pipeline",
            )
        pipeline = self._pipeline()
        if pipeline is None:
            raise InputError(
                "ML479",
                "the steps of this answer were not profiled, and its pipeline is gone",
                fix="run the cell of the answer again",
            )
        if not isinstance(pipeline, TextGenerationPipeline):
            raise InputError(
                "ML479",
                "the steps of this answer were not profiled, and those of a "
                f"{type(pipeline).__name__} cannot be run again one by one",
                fix="generate it with %%generate --profile",
            )
        recording, found = _run_again(pipeline, self.request, tokens, count)
        step = timed(recording, is_again=True, found=found)
        if step is None:
            raise InputError(
                "ML479", "the step was run again, but no model ran in this process", fix=FIX
            )
        return step


def _run_again(
    pipeline: TextGenerationPipeline[Any],
    request: TextGenerationRequest,
    tokens: Sequence[int],
    count: int,
) -> tuple[Recording, int]:
    """A recording of a step with the last ``count`` tokens, and how many of these were cached."""
    request_id = RequestID()
    context = run_to_end(pipeline.tokenizer.new_context(replace(request, request_id=request_id)))
    for token in tokens:
        context.update(token)
    context.reset()
    start = max(context.end_idx - count, 0)
    config = pipeline.pipeline_config
    part = config.prefill_chunk_size if config.enable_chunked_prefill else context.end_idx
    with pipeline.lock:
        try:
            for manager in pipeline.kv_managers:
                manager.claim(request_id, manager.get_or_recommend_replica(context))
                manager.alloc(context)  # what the cache has of it is not computed again
            while context.start_idx < start:
                _execute(pipeline, context, min(context.start_idx + part, start))
            found = context.start_idx - start
            with record() as recording:
                _execute(pipeline, context, context.end_idx)
        finally:
            if any(manager.contains(request_id) for manager in pipeline.kv_managers):
                pipeline.release(request_id)
            else:
                pipeline.forget(request_id)
    return recording, found


def _execute(pipeline: TextGenerationPipeline[Any], context: Any, end: int) -> None:
    """Lets the pipeline compute the tokens of a request up to ``end``."""
    context.set_token_indices(active_idx=end)
    managers = pipeline.kv_managers
    batches: list[dict[RequestID, Any]] = [{}]
    if managers:
        batches = [{} for _ in range(managers[0].num_replicas)]
    batches[managers[0].get_replica(context.request_id) if managers else 0] = {
        context.request_id: context
    }
    inputs = TextGenerationInputs(
        batches, 1, input_tokens=context.active_length, batch_type=BatchType.CE
    )
    pipeline.execute(inputs)


__all__ = ["FIX", "Origin", "TimedStep", "timed"]
