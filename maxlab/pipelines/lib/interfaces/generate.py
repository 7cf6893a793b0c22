"""Generation of whole answers by a pipeline, in the process of the caller."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from maxlab.errors import ExecutionError, InsufficientBlocksError
from maxlab.interfaces import (
    GenerationStatus,
    LogProbabilities,
    PipelineTokenizer,
    Request,
    RequestID,
    TextGenerationContext,
    TextGenerationInputs,
    TextGenerationOutput,
)
from maxlab.pipelines.lib.tokenizer.running import run_to_end

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from maxlab.pipelines.lib.config import PipelineConfig

TextGenerationContextType = TypeVar("TextGenerationContextType", bound=TextGenerationContext)
RequestType_contra = TypeVar("RequestType_contra", bound=Request, contravariant=True)


@runtime_checkable
class GenerateMixin(Protocol[TextGenerationContextType, RequestType_contra]):
    """Lets a pipeline answer prompts as a whole, without a scheduler.

    The pipeline has ``pipeline_config``, ``tokenizer``, ``kv_managers``, ``execute`` and
    ``release``; `generate` and `generate_async` come from here.
    """

    @property
    def kv_managers(self) -> list[Any]:
        """The managers of the pipeline's caches of keys and values; [] without one."""
        ...

    @property
    def pipeline_config(self) -> PipelineConfig:
        """The configuration of the pipeline."""
        ...

    @property
    def tokenizer(
        self,
    ) -> PipelineTokenizer[
        TextGenerationContextType, npt.NDArray[np.integer[Any]], RequestType_contra
    ]:
        """Makes the contexts of requests."""
        ...

    def execute(
        self, inputs: TextGenerationInputs[TextGenerationContextType]
    ) -> dict[RequestID, TextGenerationOutput]:
        """The tokens that each request of a batch gets next.

        Args:
            inputs: The batch.
        """
        ...

    def release(self, request_id: RequestID) -> None:
        """Gives back what is kept for a request, which is over.

        Args:
            request_id: The request.
        """
        ...

    def generate(
        self, prompts: RequestType_contra | list[RequestType_contra]
    ) -> list[TextGenerationOutput]:
        """The whole answers to requests, in their order.

        At most ``max_batch_size`` requests run at once; when one ends, the next begins. Where the
        pages of a cache are too few for all of them, the last one gives its own back and is
        computed anew later. It works in a notebook too, where an event loop is running already.

        Args:
            prompts: A request, or several.

        Raises:
            ValueError: A request cannot be made a context, such as a prompt that is too long; or
                two requests have one id.
            InsufficientBlocksError: ML647 (a RuntimeError), a request needs more than all pages.
            ExecutionError: ML178, the pipeline went no step further, or answered a request that
                it was not given.
        """
        return run_to_end(self.generate_async(prompts))

    async def generate_async(self, prompts: RequestType_contra | list[RequestType_contra]) -> Any:
        """The whole answers to requests, a list in their order; see `generate`.

        Steps of the model run in the thread of the event loop.

        Args:
            prompts: A request, or several.

        Raises:
            ValueError, InsufficientBlocksError, ExecutionError: As by `generate`.
        """
        requests = prompts if isinstance(prompts, list) else [prompts]
        contexts = await asyncio.gather(*(self.tokenizer.new_context(one) for one in requests))
        # Inputs refuse a request that is in two batches; within one, the later would win.
        by_id = TextGenerationInputs(
            [{context.request_id: context} for context in contexts], num_steps=1
        ).batch
        answers = {one: _Answer() for one in by_id}
        waiting = deque(by_id.items())
        running: dict[RequestID, TextGenerationContextType] = {}
        room = most = self.pipeline_config.max_batch_size or len(by_id)
        try:
            while waiting or running:
                while waiting and len(running) < room:
                    request_id, context = waiting.popleft()
                    running[request_id] = context
                try:
                    _take_step(self, running, answers)
                except InsufficientBlocksError:
                    if len(running) == 1:
                        raise
                    waiting.appendleft(give_way(self, running))
                    room = len(running)  # until one of them ends
                for request_id in [one for one, answer in answers.items() if answer.is_done]:
                    if running.pop(request_id, None) is not None:
                        self.release(request_id)
                        room = most
                await asyncio.sleep(0)  # lets others of the event loop run, and cancels arrive
        except BaseException as error:
            release_all(self, running, error)
            raise
        return [answers[context.request_id].output(context.request_id) for context in contexts]


class _Answer:
    """Collects the outputs of a request."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.log_probabilities: list[LogProbabilities] = []
        self.status = GenerationStatus.ACTIVE

    @property
    def is_done(self) -> bool:
        return self.status.is_done

    def add(self, output: TextGenerationOutput) -> None:
        self.tokens += output.tokens
        self.log_probabilities += output.log_probabilities or []
        self.status = output.final_status

    def output(self, request_id: RequestID) -> TextGenerationOutput:
        return TextGenerationOutput(
            request_id, self.tokens, self.status, self.log_probabilities or None
        )


def _take_step(
    pipeline: GenerateMixin[Any, Any],
    running: dict[RequestID, Any],
    answers: dict[RequestID, _Answer],
) -> None:
    """Executes the pipeline once for ``running``, and adds what it says to ``answers``."""
    config = pipeline.pipeline_config
    replicas = config.model_config.data_parallel_degree
    # Each replica gets every n-th request, so that none has more than one above another.
    items = list(running.items())
    batches = [dict(items[start::replicas]) for start in range(replicas)]
    before = [_place(context) for context in running.values()]
    outputs = pipeline.execute(TextGenerationInputs(batches, max(config.max_num_steps, 1)))
    for request_id, output in outputs.items():
        if request_id not in running:
            raise ExecutionError(
                "ML178",
                f"{type(pipeline).__name__} answered the request {request_id}, which is not in its "
                "batch",
                fix="key the outputs of execute by the ids of the batch's requests",
            )
        answers[request_id].add(output)
    told = any(output.tokens or output.is_done for output in outputs.values())
    if not told and before == [_place(context) for context in running.values()]:
        raise ExecutionError(
            "ML178",
            f"{type(pipeline).__name__} executed a batch of {len(running)} without a token for "
            "any request",
            fix="have execute update the contexts, and give their outputs",
        )


class RunsRequests(Protocol):
    """A pipeline that keeps pages for its requests."""

    @property
    def kv_managers(self) -> list[Any]:
        """The managers of its caches."""
        ...

    def release(self, request_id: RequestID) -> None:
        """Gives back what is kept for a request.

        Args:
            request_id: The request.
        """
        ...


def give_way(pipeline: RunsRequests, running: dict[RequestID, Any]) -> tuple[RequestID, Any]:
    """Takes the last of ``running`` out, and its pages with it; it begins anew later.

    Args:
        pipeline: The pipeline, whose ``kv_managers`` have the pages.
        running: The states of the requests; two at least.

    Returns:
        The request that was taken out, with its state.
    """
    request_id, context = running.popitem()
    for manager in pipeline.kv_managers:  # the pipeline goes on to keep what is no page
        if manager.contains(request_id):
            manager.release(request_id)
    context.reset()
    return request_id, context


def release_all(
    pipeline: RunsRequests, running: dict[RequestID, Any], error: BaseException
) -> None:
    """Releases ``running`` after ``error``; what fails meanwhile is added to it as a note.

    Args:
        pipeline: The pipeline that runs them.
        running: The states of the requests.
        error: The error that ended them.
    """
    for request_id in running:
        try:
            pipeline.release(request_id)
        except Exception as failed:  # a request may not have got as far as having something
            error.add_note(f"releasing the request {request_id} failed: {failed!r}")


def _place(context: TextGenerationContext) -> tuple[int, int]:
    """How far the work on a context is: tokens computed, and tokens there are."""
    return context.start_idx, context.end_idx


__all__ = ["GenerateMixin", "RunsRequests", "give_way", "release_all"]
