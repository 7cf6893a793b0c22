"""Answers of models of language as they grow, with the steps of the scheduler that made them."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from maxlab import trace
from maxlab.analysis.recording import Recording, record
from maxlab.entrypoints.llm import LLM
from maxlab.errors import ArgumentError, InputError, InputTypeError, shown
from maxlab.interfaces import (
    GenerationStatus,
    RequestID,
    SamplingParams,
    SamplingParamsInput,
    TextGenerationOutput,
    TextGenerationRequest,
)
from maxlab.lab.generating.again import Origin
from maxlab.lab.generating.made import Generation
from maxlab.lab.generating.tokens import GeneratedToken
from maxlab.pipelines.core.showing import texts_of
from maxlab.pipelines.lib.pipeline_variants import TextGenerationPipeline
from maxlab.pipelines.lib.scheduler import StepRecord, TextGenerationScheduler
from maxlab.pipelines.lib.scheduler.records import KIND
from maxlab.pipelines.lib.tokenizer.running import run_to_end

TOP = 5
"""The most probable tokens that are told with each token."""


def generating(
    model: Any,
    prompt: str,
    params: SamplingParamsInput | None = None,
    *,
    top: int = TOP,
    profile: bool = False,
) -> Iterator[Generation]:
    """The answer of a model to a prompt, after each of its parts: one object, which grows.

    Args:
        model: An `LLM`, a pipeline of text, or a `TextGenerationScheduler`, whose other requests
            share the steps.
        prompt: A text.
        params: Parameters of the draw; the others are those of the model.
        top: The most probable tokens that are told with each one; with 0 no probabilities are.
        profile: Whether the kernels of each step are timed, of a model in this process.

    Raises:
        InputTypeError: ML478 (a TypeError), ``model`` is none of these.
        InputError: ML476 (a ValueError), the model of an `LLM` cannot be profiled from here; or
            the model cannot answer as it is asked.
        ArgumentError: ML852 (a ValueError), with ``profile``: runs of models are recorded already.
        ExecutionError: ML141, ML142 (a RuntimeError), the model failed.

    Example:
        >>> for answer in generating(llm, "Once"):  # doctest: +SKIP
        ...     print(answer.text)
    """
    if profile:
        with record():  # raises where another block is recording, before the request is made
            pass
    pipeline = None
    if isinstance(model, TextGenerationPipeline):
        model = TextGenerationScheduler(model)
    if isinstance(model, TextGenerationScheduler):
        pipeline = model.pipeline
        config, tokenizer = pipeline.pipeline_config, pipeline.tokenizer
    elif isinstance(model, LLM):
        config, tokenizer = model.config, model.tokenizer
        if profile:
            raise InputError(
                "ML476",
                "the model of an LLM runs in another process, and its kernels are not timed there",
                fix="pass the pipeline of PIPELINE_REGISTRY.retrieve(config)",
            )
    else:
        raise InputTypeError(
            "ML478",
            f"an LLM, a pipeline of text or a scheduler expected ≠ {shown(model)} given",
            fix="make one: LLM(PipelineConfig(model_path=...))",
        )
    request = TextGenerationRequest(
        RequestID(),
        config.model_config.model_name,
        prompt=prompt,
        logprobs=top,
        sampling_params=SamplingParams.from_input_and_generation_config(
            params or SamplingParamsInput(),
            sampling_params_defaults=config.model_config.sampling_params_defaults,
        ),
    )
    context = run_to_end(tokenizer.new_context(request))
    growing = _Growing(
        Generation(
            str(request.request_id),
            prompt,
            context.prompt_tokens.tolist(),
            origin=Origin(request, pipeline),
        ),
        texts_of(tokenizer),
        _pieces(tokenizer, request, context),
        model.name,
        profile,
    )
    growing.hear()
    return _grown(growing, model.stream(context))


def _pieces(tokenizer: Any, request: TextGenerationRequest, context: Any) -> Any:
    stream = getattr(tokenizer, "stream", None)
    return None if stream is None else stream(request, context.prompt_tokens.tolist())


def _grown(growing: _Growing, parts: Iterator[TextGenerationOutput]) -> Iterator[Generation]:
    try:
        while True:
            with growing.recording():
                part = next(parts, None)
            if part is None:
                break
            growing.add(part)
            yield growing.answer
        if not growing.answer.status:
            growing.answer.status = str(GenerationStatus.CANCELLED)
            yield growing.answer
    finally:
        growing.hear_no_more()
        close = getattr(parts, "close", None)
        if close is not None:
            close()


@dataclass(eq=False)
class _Growing:
    """An answer, and what its next part is made with."""

    answer: Generation
    texts: Any
    decoder: Any
    scheduler: str
    profile: bool = False

    def __post_init__(self) -> None:
        self._told: deque[StepRecord] = deque()
        self._known = 0
        self._lock = threading.Lock()
        self._recording: Recording | None = None
        self._recorded: dict[int, Recording] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Records the runs of models in the block, those of each step for themselves, where that
        is asked for.

        Raises:
            ArgumentError: ML852 (a ValueError), another block is recording.
        """
        if not self.profile:
            yield
            return
        self._recording = record().__enter__()
        try:
            yield
        finally:
            with self._lock:
                last, self._recording = self._recording, None
                if last is not None:
                    last.__exit__(None, None, None)

    def hear(self) -> None:
        """Hears of steps, for as long as somebody else holds this."""
        found = weakref.ref(self)

        def listener(event: trace.Event) -> None:
            one = found()
            if one is None:
                trace.recorder().unlisten(listener)
            else:
                one._take(event)

        self._listener = listener
        trace.recorder().listen(listener)

    def hear_no_more(self) -> None:
        """Hears of no more steps."""
        trace.recorder().unlisten(self._listener)

    def _take(self, event: trace.Event) -> None:
        """Keeps the record of a step that the request has a part in."""
        if event.kind != KIND or event.data.get("scheduler") != self.scheduler:
            return
        step = StepRecord.of(event.data)
        is_own = any(own.request == self.answer.request for own in step.requests)
        with self._lock:
            if self._recording is not None:  # the event comes at the end of its step
                ended, self._recording = self._recording, None
                ended.__exit__(None, None, None)
                if is_own:
                    self._recorded[step.number] = ended
                with suppress(ArgumentError):  # another thread records from now on
                    self._recording = record().__enter__()
        if is_own:
            self._told.append(step)

    def add(self, part: TextGenerationOutput) -> None:
        """Adds a part of the answer, with its costs.

        Args:
            part: The part.
        """
        told = part.log_probabilities or []
        for place, token in enumerate(part.tokens):
            one = told[place] if place < len(told) else None
            value, top = (None, ()) if one is None else self._probabilities(one)
            text = self._text(token)
            self.answer.tokens.append(GeneratedToken(token, text, value, top))
        if part.is_done:
            rest = "" if self.decoder is None else self.decoder.finish()
            if rest and self.answer.tokens:
                last = self.answer.tokens[-1]
                self.answer.tokens[-1] = replace(last, text=last.text + rest)
            self.answer.status = str(part.final_status)
        self._take_costs()

    def _text(self, token: int) -> str:
        if self.decoder is not None:
            return str(self.decoder.push([token]))
        return "" if self.texts is None else str(self.texts([token])[0])

    def _probabilities(self, one: Any) -> tuple[float, tuple[tuple[int, str, float], ...]]:
        tops = one.top_log_probabilities[0]
        ids = sorted(tops, key=lambda token: -tops[token])
        texts = self.texts(ids) if self.texts is not None else [""] * len(ids)
        rows = zip(ids, texts, strict=True)
        return float(one.token_log_probabilities[0]), tuple(
            (int(token), str(text), float(tops[token])) for token, text in rows
        )

    def _take_costs(self) -> None:
        """Gives the steps that have been told to the tokens that they made."""
        answer = self.answer
        while self._told:
            step = self._told[0]
            own = next(one for one in step.requests if one.request == answer.request)
            if self._known + own.generated > len(answer.tokens):
                return  # a step of which the tokens are still on their way
            self._told.popleft()
            answer.steps.append(step)
            recorded = self._recorded.pop(step.number, None)
            if self.profile:
                answer.recordings += [recorded] * own.generated
            for place in range(self._known, self._known + own.generated):
                answer.tokens[place] = replace(answer.tokens[place], step=step, own=own)
            self._known += own.generated


__all__ = ["TOP", "generating"]
