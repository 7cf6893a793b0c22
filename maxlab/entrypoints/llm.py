"""A model of language that is asked by a function call."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab import progress
from maxlab.entrypoints.adapters import Adapters
from maxlab.entrypoints.messages import Control
from maxlab.entrypoints.worker import Answer, Worker
from maxlab.interfaces import (
    RequestID,
    SamplingParams,
    SamplingParamsInput,
    TextGenerationOutput,
    TextGenerationRequest,
    fields,
)
from maxlab.interfaces.needing import needed_by
from maxlab.pipelines.architectures import register_all_models
from maxlab.pipelines.lib.pipeline_variants.accepting import require_accepted, require_words
from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY
from maxlab.pipelines.lib.scheduler.answers import failed_request
from maxlab.pipelines.lib.tokenizer.running import run_to_end

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig


class LLM:
    """A model of language in a process of its own, which completes texts.

    The process compiles the model when the LLM is made, answers all threads that ask, and ends with
    the LLM or by `close`. Requests of several calls share its batches. What each step of its
    scheduler did is in the event stream of this process: ``trace.recorder().events("schedule")``.

    Args:
        pipeline_config: The model, and how it is run.

    Raises:
        InputError: ML172, no architecture of the model is known; ML174, it is no model for text;
            ML143, a class of it is in no module (each a ValueError).
        ExecutionError: ML142 (a RuntimeError), the process ended before the model was ready.
        MaxlabError: What loading the model raised.

    Example:
        >>> from maxlab.pipelines import PipelineConfig
        >>> llm = LLM(PipelineConfig(model_path="meta-llama/Llama-3.2-1B"))  # doctest: +SKIP
        >>> llm.generate(["The capital of France is"], max_new_tokens=1)  # doctest: +SKIP
        [' Paris']
    """

    def __init__(self, pipeline_config: PipelineConfig) -> None:
        register_all_models()
        self._config = pipeline_config
        tokenizer, factory = PIPELINE_REGISTRY.retrieve_factory(pipeline_config)
        self._tokenizer: Any = tokenizer
        self._worker = Worker(factory)
        self._adapters = Adapters(pipeline_config, self._worker)

    def generate(
        self,
        prompts: str | TextGenerationRequest | Sequence[str | TextGenerationRequest],
        max_new_tokens: int | None = 100,
        use_tqdm: bool = True,
        *,
        sampling_params: SamplingParamsInput | Sequence[SamplingParamsInput] | None = None,
        model: str | None = None,
    ) -> list[str]:
        """The texts that the model writes behind prompts, in the order of these.

        Tokens are drawn as the model's ``generation_config.json`` says, or for a request as its own
        parameters say. Threads may call it at the same time. An interrupt calls the requests off.

        Args:
            prompts: A text, or texts; or requests, which may have messages and images.
            max_new_tokens: The most tokens of each answer to a text; None leaves it to the length
                that the model takes.
            use_tqdm: Whether a bar shows how many answers are complete.
            sampling_params: How tokens are drawn, and the texts that end answers (``stop``), each
                before it; for all texts, or one for each prompt. A request has its own. What it
                leaves out is as the model's ``generation_config.json`` says; its own
                ``max_new_tokens`` goes before the argument.
            model: The adapter that answers; the base when it is left out.

        Raises:
            InputError: ML981, ``prompts`` is empty, has something else than texts and requests, has
                a request twice, or one for log probabilities or an echo, the number of
                ``sampling_params`` is another, or the tokenizer has words that the model has not;
                ML160, a prompt is too long; ML139, a parameter needs a feature that is off; ML162,
                images that do not fit; ML539, there is no such adapter (each a ValueError).
            ExecutionError: ML141, the model failed to complete a prompt; ML142, its process has
                ended (each a RuntimeError).
        """
        given = _prompts(prompts)
        fields.optional(fields.integer(1))("max_new_tokens", max_new_tokens)
        fields.flag("use_tqdm", use_tqdm)
        params = _given_params(sampling_params, len(given))
        fields.optional(fields.word)("model", model)
        if model is not None:
            self._adapters.require(model)
        name = model or self._config.model_config.model_name
        requests = [
            TextGenerationRequest(
                RequestID(), name, prompt=one, sampling_params=self._params(own, max_new_tokens)
            )
            if isinstance(one, str)
            else one
            for one, own in zip(given, params, strict=True)
        ]
        contexts = run_to_end(self._contexts(requests))
        for context in contexts:
            self._require_accepted(context)
        found = [
            _Text(self._tokenizer, request, context.prompt_tokens.tolist())
            for request, context in zip(requests, contexts, strict=True)
        ]
        answers = self._worker.submit(contexts)
        self._collect({one.request_id: one for one in found}, answers, use_tqdm)
        return [one.text() for one in found]

    # ------------------------------------------------------------ adapters
    @property
    def adapters(self) -> list[str]:
        """The adapters (LoRA) that are loaded, by name, in the order in which they were."""
        return self._adapters.names

    def load_adapter(self, path: str, name: str | None = None) -> str:
        """The name of an adapter (LoRA) that is loaded now, while others write.

        Args:
            path: A folder as ``peft`` writes it, the id of a repository in the cache, or
                ``NAME=PATH``.
            name: What ``model`` of `generate` calls it; when left out, what ``path`` says, or the
                whole path.

        Raises:
            InputError: ML139, the model was made without ``enable_lora``; ML537, files that cannot
                be used; ML538, an adapter that does not fit the model; ML539, the name is taken
                (each a ValueError). Nothing changes then.
            ExecutionError: ML142 (a RuntimeError), the process of the model has ended.

        Example:
            >>> llm.load_adapter("folder/poems", "poems")  # doctest: +SKIP
            'poems'
            >>> llm.generate("Once", model="poems")  # doctest: +SKIP
        """
        return self._adapters.load(path, name)

    def unload_adapter(self, name: str) -> None:
        """Forgets an adapter. The batch that runs is completed; requests for the adapter that have
        more to write end with an error, and new ones are refused.

        Args:
            name: What ``model`` of `generate` calls it.

        Raises:
            InputError: ML139, the model was made without ``enable_lora``; ML539, there is none of
                this name (each a ValueError).
            ExecutionError: ML142 (a RuntimeError), the process of the model has ended.
        """
        self._adapters.unload(name)

    # ------------------------------------------------------------ parts
    @property
    def name(self) -> str:
        """The name of its scheduler, which the records of its steps have."""
        return self._worker.name

    @property
    def config(self) -> PipelineConfig:
        """The configuration."""
        return self._config

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, which makes contexts of requests."""
        return self._tokenizer

    def stream(self, context: Any) -> Iterator[TextGenerationOutput]:
        """The parts of the answer to a request, each as soon as a step gives it.

        Other calls share the steps. Where the iterator is closed before its end, the request is
        cancelled.

        Args:
            context: The state of the request, which `tokenizer` makes.

        Raises:
            InputError: ML139, ML160, ML981 (a ValueError), the request cannot be answered as it
                asks.
            ExecutionError: ML141, the model failed to answer it; ML142, its process has ended (each
                a RuntimeError).
        """
        self._require_accepted(context)
        return self._parts(context)

    def _require_accepted(self, context: Any) -> None:
        require_accepted(context, self._config)
        require_words(context, self._config)

    def _parts(self, context: Any) -> Iterator[TextGenerationOutput]:
        answers = self._worker.submit([context])
        is_open = True
        try:
            while is_open:
                progress.check()
                try:
                    request_id, answer = answers.get(timeout=progress.PERIOD_S)
                except queue.Empty:
                    continue
                if isinstance(answer, Exception):
                    is_open = False
                    if getattr(answer, "code", None) == "ML142":
                        raise answer
                    raise failed_request(request_id, answer) from answer
                is_open = not answer.is_done
                if answer.result is not None:
                    yield answer.result
        finally:
            if is_open:
                self._worker.cancel([context.request_id])

    async def _contexts(self, requests: Sequence[TextGenerationRequest]) -> list[Any]:
        return list(await asyncio.gather(*(self._tokenizer.new_context(one) for one in requests)))

    def _params(self, given: SamplingParamsInput, max_new_tokens: int | None) -> SamplingParams:
        """The parameters of a request, with a seed of its own unless ``given`` has one."""
        if given.max_new_tokens is None:
            given = replace(given, max_new_tokens=max_new_tokens)
        return SamplingParams.from_input_and_generation_config(
            given,
            sampling_params_defaults=self._config.model_config.sampling_params_defaults,
        )

    def _collect(
        self, texts: dict[RequestID, _Text], answers: queue.SimpleQueue[Answer], use_tqdm: bool
    ) -> None:
        """Adds the answers to their texts until all are complete."""
        open_ids = set(texts)
        try:
            with progress.working(f"generate {len(texts)} answers"), _bar(texts, use_tqdm) as bar:
                while open_ids:
                    progress.step("generating", len(texts) - len(open_ids), len(texts))
                    try:
                        request_id, answer = answers.get(timeout=progress.PERIOD_S)
                    except queue.Empty:
                        continue
                    if isinstance(answer, Exception):
                        if getattr(answer, "code", None) == "ML142":
                            open_ids.clear()
                            raise answer
                        raise failed_request(request_id, answer) from answer
                    if answer.result is not None:
                        texts[request_id].add(answer.result.tokens)
                    is_stopped = texts[request_id].is_stopped
                    if is_stopped and not answer.is_done:  # by a token that a grammar implied
                        self._worker.cancel([request_id])
                    if is_stopped or answer.is_done:
                        open_ids.discard(request_id)
                        bar.update(1)
        except BaseException:
            if open_ids:
                self._worker.cancel(list(open_ids))
            raise

    # ------------------------------------------------------------ steps
    def pause(self) -> None:
        """Lets the scheduler take no step until `resume`; calls of `generate` wait meanwhile.

        Raises:
            ExecutionError: ML142 (a RuntimeError), the process of the model has ended.
        """
        self._worker.control(Control(paused=True))

    def resume(self) -> None:
        """Lets the scheduler take steps again.

        Raises:
            ExecutionError: ML142 (a RuntimeError), the process of the model has ended.
        """
        self._worker.control(Control(paused=False))

    def step(self, count: int = 1) -> None:
        """Lets the scheduler take steps while it is paused, as soon as there is something to do.

        Args:
            count: The number of steps, 1 or more.

        Raises:
            InputError: ML981 (a ValueError), ``count`` is below 1.
            ExecutionError: ML142 (a RuntimeError), the process of the model has ended.
        """
        fields.integer(1)("count", count)
        self._worker.control(Control(steps=count))

    def close(self) -> None:
        """Ends the process of the model. Calls of `generate` raise then."""
        self._worker.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LLM({self._config.model_config.model_name!r})"


class _Text:
    """The answer to a request as text."""

    def __init__(
        self, tokenizer: Any, request: TextGenerationRequest, prompt: Sequence[int]
    ) -> None:
        self.request_id = request.request_id
        self._tokenizer = tokenizer
        # A tokenizer of somebody else may not know how to decode piece by piece.
        stream = getattr(tokenizer, "stream", None)
        self._decoder = None if stream is None else stream(request, prompt)
        self._tokens: list[int] = []
        self._pieces: list[str] = []

    def add(self, tokens: list[int]) -> None:
        self._tokens += tokens
        if self._decoder is not None:
            self._pieces.append(self._decoder.push(tokens))

    @property
    def is_stopped(self) -> bool:
        """Whether a text that ends it was found."""
        return getattr(self._decoder, "stopped", None) is not None

    def text(self) -> str:
        if self._decoder is not None:
            return "".join([*self._pieces, self._decoder.finish()])
        return str(run_to_end(self._tokenizer.decode(np.array(self._tokens, np.int64))))


def _prompts(prompts: Any) -> list[str | TextGenerationRequest]:
    """The prompts as a list.

    Raises:
        InputError: ML981, there are none, or one is neither a text nor a request, or is there
            twice.
    """
    expected = "a text, a request, or a list of them"
    if isinstance(prompts, (str, TextGenerationRequest)):
        prompts = [prompts] if prompts else []
    if not isinstance(prompts, Sequence) or isinstance(prompts, (bytes, bytearray)):
        raise fields.out_of_range("prompts", prompts, expected)
    if not prompts:
        raise fields.out_of_range("prompts", prompts, f"{expected}, with one at least,")
    seen: set[RequestID] = set()
    for place, one in enumerate(prompts):
        if isinstance(one, TextGenerationRequest):
            if one.request_id in seen:
                raise fields.out_of_range(f"prompts[{place}]", one, "a request with its own id")
            if one.logprobs or one.echo:
                raise fields.out_of_range(
                    f"prompts[{place}]", one, "a request for text alone; stream() tells the rest"
                )
            seen.add(one.request_id)
        elif not isinstance(one, str):
            raise fields.out_of_range(f"prompts[{place}]", one, "a text or a request")
    return list(prompts)


def _given_params(given: Any, count: int) -> list[SamplingParamsInput]:
    """The parameters of each prompt.

    Raises:
        InputError: ML981, there are not as many as prompts.
        InputTypeError: ML980, something else than parameters.
    """
    if given is None or isinstance(given, SamplingParamsInput):
        return [given or SamplingParamsInput()] * count
    fields.listed(fields.instance(SamplingParamsInput), kinds=(list, tuple))(
        "sampling_params", given
    )
    if len(given) != count:
        raise fields.out_of_range(
            "sampling_params", given, f"one SamplingParamsInput for each of {count} prompts"
        )
    return list(given)


class _NoBar:
    """Stands for the bar where none is shown."""

    def update(self, count: int) -> None:
        del count


@contextmanager
def _bar(texts: Sequence[Any] | dict[Any, Any], use_tqdm: bool) -> Iterator[Any]:
    if not use_tqdm:
        yield _NoBar()
        return
    with needed_by("use_tqdm=True", "tqdm"):
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

    with tqdm(total=len(texts), desc="generate", unit="answer") as bar:
        yield bar


__all__ = ["LLM"]
