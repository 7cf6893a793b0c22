"""The answers to requests, path by path."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from maxlab.interfaces import AudioGenerationOutput, GenerationStatus
from maxlab.interfaces.waves import as_samples
from maxlab.pipelines.lib.audio_generator_pipeline import joined
from maxlab.pipelines.lib.lora_adapter import AdapterPathError
from maxlab.pipelines.lib.lora_names import AdapterNameError, NoAdapterError
from maxlab.serve import asking
from maxlab.serve.answers import Answers, ChatAnswers, CompletionAnswers, Json
from maxlab.serve.asking import Asked
from maxlab.serve.choices import Choice, Choices, Piece
from maxlab.serve.embedding import EmbeddingEngine, coded
from maxlab.serve.engine import Conversation, TextEngine
from maxlab.serve.errors import SERVER, ApiError, api_error, timed_out
from maxlab.serve.limits import Limits
from maxlab.serve.log_probabilities import TokenTexts
from maxlab.serve.metrics import CONTENT_TYPE, Metrics
from maxlab.serve.reading import read_body
from maxlab.serve.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingRequest,
    LoadAdapterRequest,
    SpeechRequest,
    UnloadAdapterRequest,
)
from maxlab.serve.speech import Speech, SpeechEngine

_JSON = "application/json"
_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
Engine = TextEngine | EmbeddingEngine | SpeechEngine


class Routes:
    """Answers the requests to a model.

    Args:
        engine: The model.
        limits: How much is taken.
        metrics: What is counted.
    """

    def __init__(self, engine: Engine, limits: Limits, metrics: Metrics) -> None:
        self._engine, self._limits, self._metrics = engine, limits, metrics
        self._texts = TokenTexts(engine.tokenizer)
        self._since = int(time.time())

    def table(self) -> list[Route]:
        """The paths with their functions."""
        return [
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/embeddings", self.embeddings, methods=["POST"]),
            Route("/v1/audio/speech", self.speech, methods=["POST"]),
            Route("/v1/load_lora_adapter", self.load_adapter, methods=["POST"]),
            Route("/v1/unload_lora_adapter", self.unload_adapter, methods=["POST"]),
        ]

    # ------------------------------------------------------------ about the server
    async def health(self, request: Request) -> Response:
        """200 while the model runs, and 503 with the reason when its process has ended."""
        del request
        if self._engine.ended is not None:
            raise api_error(self._engine.ended)
        return Response()

    async def metrics(self, request: Request) -> Response:
        """The metrics in the text format of Prometheus."""
        del request
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)

    async def models(self, request: Request) -> Response:
        """The list of the model and its adapters."""
        del request
        names = [self._engine.name, *self._engine.adapters]
        return _json({"object": "list", "data": [self._about(name) for name in names]})

    async def model(self, request: Request) -> Response:
        """The model, or an adapter, of a name."""
        name = request.path_params["name"]
        self._engine.model_of(name)
        return _json(self._about(name))

    def _about(self, name: str) -> Json:
        found: Json = {
            "id": name,
            "object": "model",
            "created": self._since,
            "owned_by": "maxlab",
        }
        return {**found, "parent": self._engine.name} if name in self._engine.adapters else found

    # ------------------------------------------------------------ adapters
    async def load_adapter(self, request: Request) -> Response:
        """Loads an adapter (LoRA), as vLLM's servers do; requests name it from then on."""
        body = await read_body(request, LoadAdapterRequest, self._limits)
        try:
            await self._text_engine().load_adapter(body.lora_path, body.lora_name)
        except AdapterNameError as error:
            raise ApiError(400, str(error), param="lora_name", code="adapter_exists") from None
        except AdapterPathError as error:
            raise ApiError(404, str(error), param="lora_path", code="adapter_not_found") from None
        return PlainTextResponse(f"Success: the adapter {body.lora_name!r} is loaded")

    async def unload_adapter(self, request: Request) -> Response:
        """Forgets an adapter; what is written with it ends with an error."""
        body = await read_body(request, UnloadAdapterRequest, self._limits)
        try:
            await self._text_engine().unload_adapter(body.lora_name)
        except NoAdapterError as error:
            raise ApiError(404, str(error), param="lora_name", code="adapter_not_found") from None
        return PlainTextResponse(f"Success: the adapter {body.lora_name!r} is unloaded")

    # ------------------------------------------------------------ text
    async def chat(self, request: Request) -> Response:
        """The answer to a conversation, whole or as a stream."""
        body = await read_body(request, ChatRequest, self._limits)
        engine = self._text_engine()
        name = engine.model_of(body.model)
        images = self._limits if engine.sees else None
        asked = asking.chat(body, request.url.path, name, engine.defaults, images)
        return await self._answer(request, engine, asked, ChatAnswers, 1)

    async def completions(self, request: Request) -> Response:
        """The text behind prompts, whole or as a stream."""
        body = await read_body(request, CompletionRequest, self._limits)
        engine = self._text_engine()
        name = engine.model_of(body.model)
        asked = asking.completion(body, request.url.path, name, engine.defaults)
        prompts = len(asked.requests) // (body.n or 1)
        return await self._answer(request, engine, asked, CompletionAnswers, prompts)

    def _text_engine(self) -> TextEngine:
        if isinstance(self._engine, TextEngine):
            return self._engine
        raise ApiError(
            400, f"{self._engine.name} makes {self._engine.task} and writes no text", param="model"
        )

    async def _answer(
        self,
        request: Request,
        engine: TextEngine,
        asked: Asked,
        kind: type[Answers],
        prompts: int,
    ) -> Response:
        self._require_few(len(asked.requests))
        contexts = await engine.contexts(asked.requests)
        choices = Choices(engine.tokenizer, self._texts, asked, contexts)
        answers = kind(choices, asked.model, prompts)
        conversation = engine.ask(contexts)
        self._metrics.prompt_tokens.add(choices.usage(prompts)["prompt_tokens"])
        if asked.is_stream:
            return _Stream(self._stream(conversation, choices, answers), conversation.close)
        whole = self._whole(conversation, choices, answers)
        return _json(await _while_connected(request, whole))

    def _require_few(self, count: int) -> None:
        if count > self._limits.answers_each:
            raise ApiError(
                400,
                f"at most {self._limits.answers_each} prompts times n expected ≠ {count} given",
                param="n",
            )

    async def _whole(self, conversation: Conversation, choices: Choices, answers: Answers) -> Json:
        """The body with all answers."""
        async for choice, piece in self._pieces(conversation, choices):
            answers.add(choice, piece)
        return answers.whole()

    async def _stream(
        self, conversation: Conversation, choices: Choices, answers: Answers
    ) -> AsyncIterator[bytes]:
        """The events of a stream. An error is the last one."""
        try:
            for chunk in answers.begin():
                yield _event(chunk)
            async for choice, piece in self._pieces(conversation, choices):
                if piece:
                    yield _event(answers.chunk(choice, piece))
            for chunk in answers.end():
                yield _event(chunk)
            yield b"data: [DONE]\n\n"
        except Exception as error:
            yield _event(api_error(error).data())

    async def _pieces(
        self, conversation: Conversation, choices: Choices
    ) -> AsyncIterator[tuple[Choice, Piece]]:
        """The additions of outputs to answers, as they come.

        Raises:
            ApiError: 504, it took too long.
        """
        started = time.monotonic()
        end = asyncio.get_running_loop().time() + self._limits.request_s
        told = False
        async with conversation:
            outputs = aiter(conversation)
            while True:
                try:
                    async with asyncio.timeout_at(end):
                        output = await anext(outputs)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise timed_out(self._limits.request_s) from None
                if output.tokens and not told:
                    told = True
                    self._metrics.first_token.add(time.monotonic() - started)
                self._metrics.generated_tokens.add(len(output.tokens))
                choice, piece = choices.take(output)
                if choice.is_done:
                    conversation.drop(output.request_id)
                if piece.finish is not None:
                    self._metrics.answers.add(1, piece.finish)
                yield choice, piece

    # ------------------------------------------------------------ embeddings
    async def embeddings(self, request: Request) -> Response:
        """The embeddings of texts."""
        body = await read_body(request, EmbeddingRequest, self._limits)
        engine = self._engine
        if not isinstance(engine, EmbeddingEngine):
            raise ApiError(
                400, f"{engine.name} makes {engine.task} and no embeddings", param="model"
            )
        engine.model_of(body.model)
        prompts = asking.texts(body.input, "input")
        self._require_few(len(prompts))
        found, tokens = await _while_connected(
            request, asyncio.wait_for(engine.embed(prompts), self._limits.request_s)
        )
        if body.dimensions not in (None, len(found[0])):
            raise ApiError(
                400,
                f"this model has {len(found[0])} dimensions ≠ {body.dimensions} asked for",
                param="dimensions",
            )
        self._metrics.prompt_tokens.add(tokens)
        encoding = body.encoding_format or "float"
        return _json(
            {
                "object": "list",
                "model": body.model,
                "data": [
                    {"object": "embedding", "index": index, "embedding": coded(one, encoding)}
                    for index, one in enumerate(found)
                ],
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )

    # ------------------------------------------------------------ speech
    async def speech(self, request: Request) -> Response:
        """The audio of a text: a WAV file, or samples while they are made."""
        body = await read_body(request, SpeechRequest, self._limits)
        engine = self._engine
        if not isinstance(engine, SpeechEngine):
            raise ApiError(400, f"{engine.name} makes {engine.task} and no audio", param="model")
        name = engine.model_of(body.model)
        context = await engine.context(asking.speech(body, name, engine.defaults))
        said = engine.ask(context)
        self._metrics.prompt_tokens.add(len(context.prompt_tokens))
        pieces = self._spoken(said)
        try:
            if body.response_format == "pcm":
                first = await _while_connected(request, anext(pieces))
                rate = first.metadata.sample_rate
                kind = f"audio/pcm; rate={rate}; channels=1"
                return _Stream(_samples(first, pieces), said.close, kind)
            whole = await _while_connected(request, _all(pieces))
        except BaseException:
            said.close()
            raise
        said.close()
        return Response(joined(whole).to_wav(), media_type="audio/wav")

    async def _spoken(self, said: Speech) -> AsyncIterator[AudioGenerationOutput]:
        """The pieces of a request, as they come.

        Raises:
            ApiError: 504, it took too long.
        """
        started = time.monotonic()
        end = asyncio.get_running_loop().time() + self._limits.request_s
        told = False
        outputs = aiter(said)
        while True:
            try:
                async with asyncio.timeout_at(end):
                    output = await anext(outputs)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise timed_out(self._limits.request_s) from None
            if output.steps_executed and not told:
                told = True
                self._metrics.first_token.add(time.monotonic() - started)
            self._metrics.generated_tokens.add(output.steps_executed)
            if output.is_done:
                ended = output.final_status is GenerationStatus.END_OF_SEQUENCE
                self._metrics.answers.add(1, "stop" if ended else "length")
            yield output


async def _all(pieces: AsyncIterator[AudioGenerationOutput]) -> list[AudioGenerationOutput]:
    return [piece async for piece in pieces]


async def _samples(
    first: AudioGenerationOutput, pieces: AsyncIterator[AudioGenerationOutput]
) -> AsyncIterator[bytes]:
    """The samples of pieces: 16 bits each, little-endian."""
    yield as_samples(first.audio_data).astype("<i2").tobytes()
    async for piece in pieces:
        yield as_samples(piece.audio_data).astype("<i2").tobytes()


class _Stream(StreamingResponse):
    """A stream, by default of events, which calls off what is not complete when it ends, begun or
    not."""

    def __init__(
        self,
        parts: AsyncIterator[bytes],
        close: Callable[[], None],
        kind: str = "text/event-stream",
    ) -> None:
        super().__init__(parts, media_type=kind, headers=_STREAM_HEADERS)
        self._close = close

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


async def _while_connected(request: Request, work: Awaitable[Any]) -> Any:
    """The result of ``work``, which is cancelled when the client goes away before.

    Raises:
        ApiError: 499, nobody waits any more; 504, it took too long.
    """
    doing = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ApiError(499, "the client went away", kind=SERVER)
        return doing.result()
    except TimeoutError:
        raise ApiError(504, "the answer took too long", kind=SERVER, code="timeout") from None
    finally:
        for one in (doing, gone):
            one.cancel()
        await asyncio.gather(doing, gone, return_exceptions=True)


async def _gone(request: Request) -> None:
    """Returns when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json(data: Any) -> Response:
    return Response(msgspec.json.encode(data), media_type=_JSON)


def _event(data: Any) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


__all__ = ["Routes"]
