"""The examples of the reference's page, with their line breaks, run as they are written there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from maxlab.errors import InputTypeError
from maxlab.interfaces import (
    GenerationStatus,
    MAXPullQueue,
    MAXPushQueue,
    Pipeline,
    PipelineInputs,
    PipelineOutput,
    PipelinesFactory,
    PipelineTokenizer,
    RequestID,
    SamplingParams,
    SamplingParamsGenerationConfigDefaults,
    SamplingParamsInput,
    Scheduler,
    TextGenerationOutput,
    TextGenerationRequest,
    drain_queue,
    get_blocking,
)


class MyPipelineInputs(PipelineInputs):
    def __init__(self, data: str, config: dict[str, Any]) -> None:
        self.data = data
        self.config = config


class MyPipeline(Pipeline[MyPipelineInputs, TextGenerationOutput]):
    def execute(self, inputs: MyPipelineInputs) -> dict[RequestID, TextGenerationOutput]:
        key = RequestID(inputs.data)
        return {key: TextGenerationOutput(key, [1], GenerationStatus.END_OF_SEQUENCE)}

    def release(self, request_id: RequestID) -> None:
        self.released = request_id


def test_a_pipeline_of_the_users() -> None:
    pipeline = MyPipeline()
    (output,) = pipeline.execute(MyPipelineInputs("a", {})).values()
    assert isinstance(output, PipelineOutput)
    assert output.is_done
    pipeline.release(output.request_id)
    assert pipeline.released == RequestID("a")


def test_a_pipeline_that_lacks_a_method_is_none() -> None:
    class Half(Pipeline[MyPipelineInputs, TextGenerationOutput]):
        def execute(self, inputs: MyPipelineInputs) -> dict[RequestID, TextGenerationOutput]:
            return super().execute(inputs)  # type: ignore[safe-super]

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]

    class Whole(Half):
        def release(self, request_id: RequestID) -> None:
            super().release(request_id)  # type: ignore[safe-super]

    with pytest.raises(NotImplementedError):
        Whole().execute(MyPipelineInputs("a", {}))
    with pytest.raises(NotImplementedError):
        Whole().release(RequestID("a"))


def test_a_factory() -> None:
    def create_text_pipeline() -> Pipeline[MyPipelineInputs, TextGenerationOutput]:
        return MyPipeline()

    factory: PipelinesFactory[MyPipelineInputs, TextGenerationOutput] = create_text_pipeline
    assert isinstance(factory(), Pipeline)


def test_a_scheduler_needs_its_iteration() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Scheduler()  # type: ignore[abstract]

    class Mine(Scheduler):
        def run_iteration(self) -> None:
            super().run_iteration()  # type: ignore[safe-super]

    with pytest.raises(NotImplementedError):
        Mine().run_iteration()


def test_parameters_with_defaults_of_the_model() -> None:
    model_config = SimpleNamespace(
        sampling_params_defaults=SamplingParamsGenerationConfigDefaults(top_k=50)
    )
    sampling_defaults = model_config.sampling_params_defaults
    params = SamplingParams.from_input_and_generation_config(
        SamplingParamsInput(temperature=0.7),  # User override
        sampling_params_defaults=sampling_defaults,
    )
    assert (params.temperature, params.top_k) == (0.7, 50)


def test_defaults_of_the_model() -> None:
    defaults = SamplingParamsGenerationConfigDefaults(
        temperature=0.7,
        top_k=50,
        max_new_tokens=512,
    )
    params = SamplingParams.from_input_and_generation_config(
        SamplingParamsInput(),
        sampling_params_defaults=defaults,
    )
    assert (params.temperature, params.top_k, params.max_new_tokens) == (0.7, 50, 512)


def test_values_to_update() -> None:
    defaults = SamplingParamsGenerationConfigDefaults(
        temperature=0.7,
        top_k=50,
    )
    assert repr(defaults.values_to_update) == "{'temperature': 0.7, 'top_k': 50}"


MESSAGES = [
    """{
      "role": "user",
      "content": "What's the weather like in Boston today?"
    }""",
    """{
      "role": "user",
      "content": [
        { "type": "text", "text": "What's in this image?" },
        { "type": "image_url", "image_url": { "url": "https://example.com/boardwalk.jpg" } }
      ]
    }""",
    """{
      "role": "user",
      "content": [ { "type": "text", "content": "text content" }, { "type": "image" } ]
    }""",
]


@pytest.mark.parametrize("message", MESSAGES)
def test_messages(message: str) -> None:
    request = TextGenerationRequest(RequestID(), "m", messages=[json.loads(message)])
    assert request.messages == [json.loads(message)]


class Letters:
    """A tokenizer of letters."""

    eos = 0
    expects_content_wrapping = False

    async def new_context(self, request: TextGenerationRequest) -> list[int]:
        assert isinstance(request.prompt, str)
        return await self.encode(request.prompt, False)

    async def encode(self, prompt: str, add_special_tokens: bool) -> list[int]:
        return [*map(ord, prompt), *([self.eos] if add_special_tokens else [])]

    async def decode(self, encoded: list[int], **kwargs: Any) -> str:
        return "".join(map(chr, encoded))


def test_a_tokenizer() -> None:
    tokenizer: PipelineTokenizer[list[int], list[int], TextGenerationRequest] = Letters()
    assert isinstance(tokenizer, PipelineTokenizer)
    assert asyncio.run(tokenizer.encode("hi", True)) == [104, 105, 0]
    request = TextGenerationRequest(RequestID(), "m", prompt="hi")
    assert asyncio.run(tokenizer.decode(asyncio.run(tokenizer.new_context(request)))) == "hi"


# ---------------------------------------------------------------- queues of other libraries
def test_draining() -> None:
    import queue

    items: queue.Queue[int] = queue.Queue()
    assert isinstance(items, MAXPullQueue)
    assert isinstance(items, MAXPushQueue)
    for item in range(5):
        items.put_nowait(item)
    assert drain_queue(items, 0) == []
    assert drain_queue(items, max_items=2) == [0, 1]
    assert drain_queue(items) == [2, 3, 4]
    assert drain_queue(items) == []
    with pytest.raises(ValueError, match="max_items"):
        drain_queue(items, -1)
    with pytest.raises(InputTypeError, match="max_items"):
        drain_queue(items, 1.5)  # type: ignore[arg-type]


def test_an_item_that_comes_late_is_waited_for() -> None:
    import queue
    from threading import Thread

    items: queue.Queue[int] = queue.Queue()
    asked = 0

    class Late:
        def get_nowait(self) -> int:
            nonlocal asked
            asked += 1
            return items.get_nowait()

    found: list[int] = []
    take: Callable[[], None] = lambda: found.append(get_blocking(Late()))  # noqa: E731
    thread = Thread(target=take)
    thread.start()
    while asked < 300:  # it has napped
        pass
    items.put(7)
    thread.join(60)
    assert found == [7]
