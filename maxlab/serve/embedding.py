"""The model of a server that makes embeddings: batches of all that wait."""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from maxlab.errors import InputError
from maxlab.interfaces import (
    EmbeddingsGenerationInputs,
    PipelineTask,
    RequestID,
    TextGenerationRequest,
    fields,
)
from maxlab.pipelines.architectures import register_all_models
from maxlab.pipelines.lib.pipeline_variants.accepting import vocab_size
from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY
from maxlab.serve.engine import unknown_model
from maxlab.serve.errors import ApiError

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

Floats = npt.NDArray[np.floating[Any]]


class EmbeddingEngine:
    """A model of embeddings in a thread, which takes what waits as one batch.

    Args:
        config: The model, and how it is run.
        most: The most texts that wait at a time.

    Raises:
        InputError: ML192 (a ValueError), ``pool_embeddings`` is False: a text has one embedding in
            OpenAI's API.
        MaxlabError: What loading the model raises.
    """

    task = "embeddings"
    adapters: Sequence[str] = ()
    ended: Exception | None = None

    def __init__(self, config: PipelineConfig, most: int) -> None:
        if not config.pool_embeddings:
            raise InputError(
                "ML192",
                "a text has one embedding in OpenAI's API, and pool_embeddings is False",
                fix="leave --no-pool-embeddings out",
            )
        register_all_models()
        task = PipelineTask.EMBEDDINGS_GENERATION
        tokenizer, pipeline = PIPELINE_REGISTRY.retrieve(config, task)
        self.tokenizer: Any = tokenizer
        self._pipeline: Any = pipeline
        self.name = config.model_config.model_name
        self.most = most
        self._words = vocab_size(config.model_config.huggingface_config)
        self._size = config.max_batch_size or 1
        self._waiting: deque[tuple[Any, asyncio.Future[Floats]]] = deque()
        self._works: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "maxlab-serve-embed")

    @property
    def count(self) -> int:
        """The number of texts that wait."""
        return len(self._waiting)

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

    async def embed(self, prompts: Sequence[str | list[int]]) -> tuple[list[Floats], int]:
        """The embedding of each text, of shape [size], and the number of tokens of all.

        Args:
            prompts: Texts, or lists of tokens.

        Raises:
            InputError: ML160, a text is too long; ML981, a token that there is not (each a
                ValueError).
            ApiError: Too many texts wait already.
        """
        contexts = [
            await self.tokenizer.new_context(
                TextGenerationRequest(RequestID(), self.name, prompt=one)
            )
            for one in prompts
        ]
        for context in contexts:
            largest = int(context.prompt_tokens.max())
            if self._words is not None and largest >= self._words:
                raise fields.out_of_range("a token", largest, f"a token below {self._words}")
        if self.count + len(contexts) > self.most:
            raise ApiError(
                429,
                f"{self.count} texts wait, of at most {self.most}",
                kind="rate_limit_error",
                code="queue_full",
                headers={"Retry-After": "1"},
            )
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in contexts]
        self._waiting += zip(contexts, futures, strict=True)
        if self._works is None or self._works.done():
            self._works = loop.create_task(self._work())
        try:
            found = await asyncio.gather(*futures)
        finally:
            for future in futures:  # those that nobody waits for any more are passed over
                future.cancel()
        return found, sum(len(context.prompt_tokens) for context in contexts)

    async def _work(self) -> None:
        """Embeds what waits, a batch after the other."""
        while self._waiting:
            batch: list[tuple[Any, asyncio.Future[Floats]]] = []
            while self._waiting and len(batch) < self._size:
                context, future = self._waiting.popleft()
                if not future.done():
                    batch.append((context, future))
            if batch:
                await self._run(batch)

    async def _run(self, batch: list[tuple[Any, asyncio.Future[Floats]]]) -> None:
        """Embeds a batch; where that fails, each text alone, so that others get theirs."""
        loop = asyncio.get_running_loop()
        by_id = {context.request_id: context for context, _ in batch}
        try:
            found = await loop.run_in_executor(
                self._thread, self._pipeline.execute, EmbeddingsGenerationInputs([by_id])
            )
        except Exception as error:
            if len(batch) > 1:
                for one in batch:
                    await self._run([one])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        for context, future in batch:
            if not future.done():
                future.set_result(found[context.request_id].embeddings)

    def close(self) -> None:
        """Ends the thread after the batch that it computes."""
        self._thread.shutdown(wait=True)


def coded(embedding: Floats, encoding: str) -> list[float] | str:
    """An embedding as a response has it: a list, or the base64 of its little-endian float32.

    Args:
        embedding: The embedding, of shape [size].
        encoding: ``"float"`` or ``"base64"``.

    Example:
        >>> coded(np.array([1.0], np.float32), "base64")
        'AACAPw=='
    """
    if encoding == "base64":
        return base64.b64encode(embedding.astype("<f4").tobytes()).decode()
    found: list[float] = embedding.astype(np.float32).tolist()
    return found


__all__ = ["EmbeddingEngine", "coded"]
