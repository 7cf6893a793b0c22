"""The model of a server: texts of a process of its own, for coroutines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from maxlab.entrypoints.adapters import Adapters
from maxlab.entrypoints.worker import Answer, Worker
from maxlab.errors import shown
from maxlab.interfaces import RequestID, TextGenerationOutput, TextGenerationRequest
from maxlab.pipelines.architectures import register_all_models
from maxlab.pipelines.lib.lora_names import base_names
from maxlab.pipelines.lib.pipeline_variants.accepting import (
    require_accepted,
    require_words,
    vocab_size,
)
from maxlab.pipelines.lib.pipeline_variants.grammars import Grammars
from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY
from maxlab.serve.errors import SERVER, ApiError

if TYPE_CHECKING:
    from maxlab.interfaces import SamplingParamsGenerationConfigDefaults
    from maxlab.pipelines.lib.config import PipelineConfig

_LOG = logging.getLogger(__name__)


def unknown_model(name: str, known: Sequence[str]) -> ApiError:
    """The error of a request for a model that is not served.

    Args:
        name: The model that was asked for.
        known: The models that there are.
    """
    return ApiError(
        404,
        f"there is no model {shown(name)}; there is {', '.join(known)}",
        param="model",
        code="model_not_found",
    )


class TextEngine:
    """A model of language in a process of its own, which coroutines ask.

    Args:
        config: The model, and how it is run.
        most: The most answers that are written or wait at a time.

    Raises:
        InputError, ExecutionError, MaxlabError: As by `maxlab.entrypoints.llm.LLM`.
    """

    task = "text"

    def __init__(self, config: PipelineConfig, most: int) -> None:
        register_all_models()
        tokenizer: Any
        tokenizer, factory = PIPELINE_REGISTRY.retrieve_factory(config)
        self.tokenizer = tokenizer
        self.config = config
        self.name = config.model_config.model_name
        self.most = most
        self.count = 0
        """The number of answers that are written or wait."""
        model = config.model_config
        self._base = base_names([model.model_path, model.served_model_name])
        self._grammars: Grammars | None = None
        if config.sampling_config.enable_structured_output:
            words = vocab_size(model.huggingface_config) or 0
            self._grammars = Grammars(
                getattr(tokenizer, "delegate", None), words, tokenizer.eos_token_ids
            )
        self._worker = Worker(factory)
        self._adapters = Adapters(config, self._worker)
        # One thread sends: what calls a request off is behind what asked for it.
        self._sender = ThreadPoolExecutor(1, "maxlab-serve-send")

    # ------------------------------------------------------------ what it knows
    @property
    def sees(self) -> bool:
        """Whether the model takes images."""
        return bool(getattr(self.tokenizer, "expects_content_wrapping", False))

    @property
    def defaults(self) -> SamplingParamsGenerationConfigDefaults:
        """The parameters that the model sets."""
        return self.config.model_config.sampling_params_defaults

    @property
    def ended(self) -> Exception | None:
        """The reason why the process of the model has ended; None while it runs."""
        return self._worker.ended

    @property
    def adapters(self) -> list[str]:
        """The names of the adapters that are loaded."""
        return self._adapters.names

    async def load_adapter(self, path: str, name: str) -> None:
        """Loads an adapter, while answers are written.

        Args:
            path: Its folder, or the id of its repository in the cache.
            name: What requests call it.

        Raises:
            InputError, ExecutionError: As by `maxlab.entrypoints.llm.LLM.load_adapter`.
        """
        await asyncio.to_thread(self._adapters.load, path, name)

    async def unload_adapter(self, name: str) -> None:
        """Forgets an adapter.

        Args:
            name: What requests call it.

        Raises:
            InputError, ExecutionError: As by `maxlab.entrypoints.llm.LLM.unload_adapter`.
        """
        await asyncio.to_thread(self._adapters.unload, name)

    def model_of(self, name: str) -> str:
        """The name by which the pipeline knows a model or adapter.

        Args:
            name: What a client calls it.

        Raises:
            ApiError: There is none.
        """
        if name in self.adapters:
            return name
        if name in self._base:
            return self.name
        raise unknown_model(name, [self.name, *self.adapters])

    # ------------------------------------------------------------ asking
    async def contexts(self, requests: Sequence[TextGenerationRequest]) -> list[Any]:
        """The states of requests, which the pipeline can answer.

        Args:
            requests: The requests.

        Raises:
            InputError: ML139, ML160, ML191, ML981, a request that it cannot answer as it asks.
            UnsupportedError: ML995, one that no pipeline can.
        """
        found = [await self.tokenizer.new_context(one) for one in requests]
        for context in found:
            require_accepted(context, self.config)
            require_words(context, self.config)
        if self._grammars is not None:
            for schema in {one.json_schema for one in found} - {None}:
                await asyncio.to_thread(self._grammars.require_possible, schema)
        return found

    def ask(self, contexts: Sequence[Any]) -> Conversation:
        """The answers to requests, as a context manager that calls off what is not complete.

        Args:
            contexts: The states of the requests.

        Raises:
            ApiError: There are too many requests already, or the process of the model has ended.
        """
        if self.ended is not None:
            raise self.ended
        if self.count + len(contexts) > self.most:
            raise ApiError(
                429,
                f"{self.count} answers are being written or wait, of at most {self.most}",
                kind="rate_limit_error",
                code="queue_full",
                headers={"Retry-After": "1"},
            )
        self.count += len(contexts)
        return Conversation(self, contexts)

    def send(self, contexts: list[Any], inbox: Any) -> asyncio.Future[None]:
        """Sends requests to the process; done when they are sent.

        Args:
            contexts: The states of the requests.
            inbox: What takes the outputs.
        """
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._sender, self._worker.submit_to, inbox, contexts)

    def call_off(self, request_ids: list[RequestID]) -> None:
        """Ends requests; nothing more comes of them.

        Args:
            request_ids: The requests.
        """
        try:
            self._sender.submit(self._worker.cancel, request_ids)
        except RuntimeError:
            pass  # the engine is closed, and its process with all requests gone

    def close(self) -> None:
        """Ends the process of the model; those who wait for answers get an error."""
        self._worker.close()
        self._sender.shutdown(wait=True)


class Conversation:
    """The answers to requests while they are written.

    Args:
        engine: The engine, which has counted the requests.
        contexts: The states of the requests.
    """

    def __init__(self, engine: TextEngine, contexts: Sequence[Any]) -> None:
        self._engine = engine
        self._contexts = list(contexts)
        self._open = {context.request_id for context in contexts}
        self._count = len(contexts)
        self._loop = asyncio.get_running_loop()
        self._answers: asyncio.Queue[Answer] = asyncio.Queue()

    def put(self, answer: Answer, /) -> None:
        """Takes an output from the thread that reads them.

        Args:
            answer: The request with its output, or with the reason why there is none.
        """
        try:
            self._loop.call_soon_threadsafe(self._answers.put_nowait, answer)
        except RuntimeError:
            pass  # the loop is closed, and nobody waits any more

    def __aiter__(self) -> AsyncIterator[TextGenerationOutput]:
        return self._outputs()

    async def _outputs(self) -> AsyncIterator[TextGenerationOutput]:
        """The outputs of all requests as they come.

        Raises:
            Exception: The reason why a request failed.
            ApiError: A request was called off here.
        """
        await self._engine.send(self._contexts, self)
        while self._open:
            request_id, answer = await self._answers.get()
            if request_id not in self._open:  # it was dropped
                continue
            if isinstance(answer, Exception):
                self._open.discard(request_id)
                raise answer
            if answer.is_done:
                self._open.discard(request_id)
            if answer.result is None:
                raise ApiError(
                    503,
                    "the request was called off before its answer was complete",
                    kind=SERVER,
                    code="cancelled",
                )
            yield answer.result

    def drop(self, request_id: RequestID) -> None:
        """Calls off one request, whose answer is complete without more tokens.

        Args:
            request_id: The request.
        """
        if request_id in self._open:
            self._open.discard(request_id)
            self._engine.call_off([request_id])

    async def __aenter__(self) -> Conversation:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Calls off the requests whose answers are not complete. Called again it does nothing."""
        if self._open:
            self._engine.call_off(sorted(self._open, key=str))
            self._open.clear()
        self._engine.count -= self._count
        self._count = 0


__all__ = ["Conversation", "TextEngine", "unknown_model"]
