"""Whole answers of a pipeline: its batches, their order, and what is released."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maxlab.errors import ExecutionError, InputError
from maxlab.interfaces import (
    GenerationStatus,
    Pipeline,
    Request,
    RequestID,
    TextGenerationInputs,
    TextGenerationOutput,
)
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.interfaces import GenerateMixin, get_paged_manager

END = 0


class Prompt(Request):
    """A request of tokens."""

    def __init__(self, tokens: list[int], name: str | None = None) -> None:
        super().__init__(RequestID(name) if name else RequestID())
        self.tokens = tokens


class Tokens:
    """A tokenizer of prompts that are tokens already."""

    eos = END
    expects_content_wrapping = False

    async def new_context(self, request: Prompt) -> TextContext:
        await asyncio.sleep(0)
        return TextContext(
            request_id=request.request_id,
            max_length=20,
            tokens=np.array(request.tokens),
            eos_token_ids={END},
        )

    async def encode(self, prompt: str, add_special_tokens: bool) -> Any:
        raise NotImplementedError

    async def decode(self, encoded: Any, **kwargs: Any) -> str:
        raise NotImplementedError


Inputs = TextGenerationInputs[TextContext]


class CountDown(GenerateMixin[TextContext, Prompt], Pipeline[Inputs, TextGenerationOutput]):
    """Counts from the last token down to 0, which ends the answer."""

    def __init__(self, most: int | None = None, steps: int = -1, replicas: int = 1) -> None:
        self.config: Any = SimpleNamespace(
            max_batch_size=most,
            max_num_steps=steps,
            model_config=SimpleNamespace(data_parallel_degree=replicas),
        )
        self.batches: list[list[int]] = []
        self.released: list[RequestID] = []
        self.held: set[RequestID] = set()

    @property
    def kv_managers(self) -> list[Any]:
        return []

    @property
    def pipeline_config(self) -> Any:
        return self.config

    @property
    def tokenizer(self) -> Any:
        return Tokens()

    def execute(self, inputs: Inputs) -> dict[RequestID, TextGenerationOutput]:
        self.batches.append([len(batch) for batch in inputs.batches])
        self.held |= inputs.batch.keys()
        for context in inputs.batch.values():
            for _ in range(inputs.num_steps):
                if not context.is_done:
                    context.update(int(context.all_tokens[-1]) - 1)
        # In another order than the batch has them.
        found = reversed(inputs.batch.items())
        return {key: context.to_generation_output() for key, context in found}

    def release(self, request_id: RequestID) -> None:
        self.held.remove(request_id)
        self.released.append(request_id)


def counts(start: int) -> list[int]:
    return list(range(start - 1, 0, -1))


STARTS = [3, 7, 1, 5, 2, 9]


@pytest.mark.parametrize("most", [None, 1, 2, 4, 6, 10])
@pytest.mark.parametrize("steps", [-1, 1, 3])
@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_answers_are_in_the_order_of_their_prompts(
    most: int | None, steps: int, replicas: int
) -> None:
    pipeline = CountDown(most, steps, replicas)
    prompts = [Prompt([start]) for start in STARTS]
    answers = pipeline.generate(prompts)
    assert [answer.tokens for answer in answers] == [counts(start) for start in STARTS]
    assert [answer.request_id for answer in answers] == [one.request_id for one in prompts]
    assert {answer.final_status for answer in answers} == {GenerationStatus.END_OF_SEQUENCE}
    assert not pipeline.held
    assert sorted(map(str, pipeline.released)) == sorted(str(one.request_id) for one in prompts)
    assert max(map(sum, pipeline.batches)) == min(most or 6, 6)
    assert all(max(sizes) - min(sizes) <= 1 for sizes in pipeline.batches)
    assert {len(sizes) for sizes in pipeline.batches} == {replicas}


def test_a_prompt_alone_is_answered_too() -> None:
    (answer,) = CountDown().generate(Prompt([4]))
    assert answer.tokens == [3, 2, 1]
    assert CountDown().generate([]) == []


def test_it_works_where_an_event_loop_is_running() -> None:
    async def cell() -> list[TextGenerationOutput]:
        return CountDown().generate([Prompt([3])])

    async def awaited() -> Any:
        return await CountDown().generate_async([Prompt([3])])

    assert asyncio.run(cell())[0].tokens == [2, 1]
    assert asyncio.run(awaited())[0].tokens == [2, 1]


def test_two_requests_with_one_id_are_refused() -> None:
    with pytest.raises(InputError):
        CountDown().generate([Prompt([3], "same"), Prompt([4], "same")])


class Silent(CountDown):
    def execute(self, inputs: Inputs) -> dict[RequestID, TextGenerationOutput]:
        self.held |= inputs.batch.keys()
        return {}


class Foreign(CountDown):
    def execute(self, inputs: Inputs) -> dict[RequestID, TextGenerationOutput]:
        self.held |= inputs.batch.keys()
        other = RequestID("other")
        return {other: TextGenerationOutput(other, [1], GenerationStatus.ACTIVE)}


class Failing(CountDown):
    def execute(self, inputs: Inputs) -> dict[RequestID, TextGenerationOutput]:
        if len(self.batches) == 3:
            raise RuntimeError("out of memory")
        return super().execute(inputs)


@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [
        (Silent, ExecutionError, "without a token"),
        (Foreign, ExecutionError, "other"),
        (Failing, RuntimeError, "out of memory"),
    ],
)
def test_what_was_running_is_released_when_a_step_fails(
    kind: type[CountDown], error: type[Exception], said: str
) -> None:
    pipeline = kind(most=2)
    with pytest.raises(error, match=said):
        pipeline.generate([Prompt([start]) for start in STARTS])
    assert not pipeline.held


def test_what_was_running_is_released_when_it_is_cancelled() -> None:
    pipeline = CountDown()

    async def cancelled() -> None:
        work = asyncio.create_task(pipeline.generate_async([Prompt([9]), Prompt([9])]))
        for _ in range(6):  # turns of the event loop: contexts first, then a step in each
            await asyncio.sleep(0)
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert not pipeline.held
    assert 0 < len(pipeline.batches) < 8


def test_the_manager_of_a_pipeline_is_found() -> None:
    manager, other = object(), object()

    class Managed(CountDown):
        @property
        def kv_managers(self) -> list[Any]:
            return [manager, other]

    class OfModel(Silent):
        _pipeline_model = SimpleNamespace(kv_manager=other)

    class Audio(Silent):
        speech_lm_pipeline = Managed()

    found = [get_paged_manager(kind()) for kind in (CountDown, Managed, OfModel, Audio)]
    assert found == [None, manager, other, manager]
