"""maxlab's scheduler of ``benchmarks.serve``: a pipeline with a paged cache, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.serve_cases import LONGEST, Request
from maxlab.interfaces import RequestID, SamplingParams
from maxlab.pipelines import PIPELINE_REGISTRY
from maxlab.pipelines.architectures import register_all_models
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.pipeline_variants import TextGenerationPipeline
from maxlab.pipelines.lib.scheduler import TextGenerationScheduler


class Ours:
    """The pipeline with its scheduler, where prompts and next tokens share batches."""

    def __init__(self, folder: Path) -> None:
        register_all_models()
        config = PipelineConfig(
            model_path=str(folder), max_batch_size=32, max_length=LONGEST,
            enable_in_flight_batching=True,
        )  # fmt: skip
        _, pipeline = PIPELINE_REGISTRY.retrieve(config)
        assert isinstance(pipeline, TextGenerationPipeline)
        self.scheduler = TextGenerationScheduler(pipeline)
        self.asked: dict[RequestID, Request] = {}

    def submit(self, request: Request) -> None:
        """Takes a request."""
        params = SamplingParams(max_new_tokens=request.new, temperature=0.0, ignore_eos=True)
        context = TextContext(max_length=LONGEST, tokens=request.prompt, sampling_params=params)
        self.asked[context.request_id] = request
        self.scheduler.submit(context)

    def step(self) -> list[tuple[Request, list[int]]]:
        """Works once; the requests that got tokens, with these."""
        found = self.scheduler.step()
        for error in found.errors.values():
            raise error
        return [
            (self.asked[one], result.result.tokens)
            for one, result in found.results.items()
            if result.result is not None
        ]

    def cancel(self, requests: Sequence[Request]) -> None:
        """Ends requests."""
        for request_id, request in list(self.asked.items()):
            if any(request is one for one in requests):
                self.scheduler.cancel(request_id)
        self.scheduler.step()
        self.asked.clear()


__all__ = ["Ours"]
