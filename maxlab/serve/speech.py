"""The model of a server that speaks: batches that change from piece to piece."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from maxlab.errors import InputError, InsufficientBlocksError
from maxlab.interfaces import (
    AudioGenerationInputs,
    AudioGenerationOutput,
    AudioGenerationRequest,
    PipelineTask,
    RequestID,
)
from maxlab.pipelines.architectures import register_all_models
from maxlab.pipelines.core import TTSContext
from maxlab.pipelines.lib.interfaces.generate import give_way
from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY
from maxlab.serve.engine import unknown_model
from maxlab.serve.errors import ApiError

if TYPE_CHECKING:
    from maxlab.interfaces import SamplingParamsGenerationConfigDefaults
    from maxlab.pipelines.lib.audio_config import AudioGenerationConfig

Piece = AudioGenerationOutput | Exception
"""A piece of audio, or the reason why no more comes."""


class SpeechEngine:
    """A model that speaks, in a thread; requests join its batch and leave it between pieces.

    Args:
        config: The model, and how it is run.
        most: The most requests that are spoken or wait at a time.

    Raises:
        MaxlabError: What loading the model raises.
    """

    task = "audio"
    adapters: Sequence[str] = ()
    ended: Exception | None = None

    def __init__(self, config: AudioGenerationConfig, most: int) -> None:
        register_all_models()
        task = PipelineTask.AUDIO_GENERATION
        tokenizer, pipeline = PIPELINE_REGISTRY.retrieve(config, task)
        self.tokenizer: Any = tokenizer
        self._pipeline: Any = pipeline
        self.config = config
        self.name = config.model_config.model_name
        self.most = most
        self._size = self._room = config.max_batch_size or 1
        self._waiting: deque[tuple[RequestID, TTSContext]] = deque()
        self._running: dict[RequestID, TTSContext] = {}
        self._listeners: dict[RequestID, asyncio.Queue[Piece]] = {}
        self._works: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "maxlab-serve-speak")

    @property
    def count(self) -> int:
        """The number of requests that are spoken or wait."""
        return len(self._listeners)

    @property
    def defaults(self) -> SamplingParamsGenerationConfigDefaults:
        """The parameters that the model sets."""
        return self.config.model_config.sampling_params_defaults

    def model_of(self, name: str) -> str:
        """The name by which the pipeline knows the model.

        Args:
            name: What a client calls it.

        Raises:
            ApiError: There is none.
        """
        if name != self.name:
            raise unknown_model(name, [self.name])
        return name

    async def context(self, request: AudioGenerationRequest) -> TTSContext:
        """The state of a request, which the pipeline can answer.

        Args:
            request: The request.

        Raises:
            InputError: ML139, ML159, ML160, ML981, a request that it cannot answer as it asks.
        """
        context: TTSContext = await self.tokenizer.new_context(request)
        self._pipeline.speech_lm_pipeline.require_accepted(context)
        return context

    def ask(self, context: TTSContext) -> Speech:
        """The audio of a request, as a context manager that calls off what is not complete.

        Args:
            context: The state of the request.

        Raises:
            ApiError: Too many requests are spoken or wait already.
        """
        if self.count >= self.most:
            raise ApiError(
                429,
                f"{self.count} texts are spoken or wait, of at most {self.most}",
                kind="rate_limit_error",
                code="queue_full",
                headers={"Retry-After": "1"},
            )
        inbox: asyncio.Queue[Piece] = asyncio.Queue()
        self._listeners[context.request_id] = inbox
        self._waiting.append((context.request_id, context))
        if self._works is None or self._works.done():
            self._works = asyncio.get_running_loop().create_task(self._work())
        return Speech(self, context.request_id, inbox)

    def call_off(self, request_id: RequestID) -> None:
        """Ends a request, whose pages come back before the next piece is made.

        Args:
            request_id: The request.
        """
        self._listeners.pop(request_id, None)

    # ------------------------------------------------------------ pieces
    async def _work(self) -> None:
        """Makes pieces until nobody waits for one."""
        while self._waiting or self._running:
            for request_id in [one for one in self._running if one not in self._listeners]:
                self._leave(request_id)
            while self._waiting and len(self._running) < self._room:
                request_id, context = self._waiting.popleft()
                if request_id in self._listeners:
                    self._running[request_id] = context
            if self._running:
                await self._step()

    async def _step(self) -> None:
        """Makes a piece for each request; where that fails, for each alone, so that others get
        theirs."""
        try:
            await self._execute(self._running)
        except InsufficientBlocksError as error:
            if len(self._running) == 1:
                self._fail(next(iter(self._running)), error)
            else:
                self._waiting.appendleft(give_way(self._pipeline, self._running))
                self._room = max(len(self._running), 1)  # until one of them leaves
        except Exception as error:
            if len(self._running) == 1:
                self._fail(next(iter(self._running)), error)
                return
            for request_id, context in list(self._running.items()):
                try:
                    await self._execute({request_id: context})
                except Exception as own:
                    self._fail(request_id, own)

    async def _execute(self, batch: dict[RequestID, TTSContext]) -> None:
        """Makes a piece for each request of ``batch``, and tells it to who listens."""
        outputs = await asyncio.get_running_loop().run_in_executor(
            self._thread, self._pipeline.execute, AudioGenerationInputs(dict(batch))
        )
        for request_id, output in outputs.items():
            listener = self._listeners.get(request_id)
            if listener is not None:
                listener.put_nowait(output)
            if output.is_done:
                self._leave(request_id)

    def _fail(self, request_id: RequestID, error: Exception) -> None:
        listener = self._listeners.get(request_id)
        if listener is not None:
            listener.put_nowait(error)
        self._leave(request_id)

    def _leave(self, request_id: RequestID) -> None:
        """Takes a request out of the batch, and gives back its pages."""
        del self._running[request_id]
        self._room = self._size
        with suppress(InputError):  # it may have failed before it had a place in the cache
            self._pipeline.release(request_id)

    def close(self) -> None:
        """Ends the thread after the piece that it makes."""
        self._thread.shutdown(wait=True)


class Speech:
    """The pieces of audio of a request, as they are made.

    Args:
        engine: The engine.
        request_id: The request.
        inbox: Where the engine puts the pieces.
    """

    def __init__(
        self, engine: SpeechEngine, request_id: RequestID, inbox: asyncio.Queue[Piece]
    ) -> None:
        self._engine, self._request_id, self._inbox = engine, request_id, inbox

    async def __aiter__(self) -> AsyncIterator[AudioGenerationOutput]:
        while True:
            piece = await self._inbox.get()
            if isinstance(piece, Exception):
                raise piece
            yield piece
            if piece.is_done:
                return

    def close(self) -> None:
        """Calls the request off if it is not complete. Called again it does nothing."""
        self._engine.call_off(self._request_id)


__all__ = ["Speech", "SpeechEngine"]
