"""The model in a process of its own: its texts, its threads, and what happens when it ends."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch not installed")

from maxlab import driver, progress, trace
from maxlab.driver import DeviceSpec
from maxlab.entrypoints.llm import LLM
from maxlab.entrypoints.messages import Control, portable
from maxlab.entrypoints.worker import Worker
from maxlab.errors import CancelledError, ExecutionError, InputError, WeightError
from maxlab.interfaces import (
    GenerationStatus,
    RequestID,
    SamplingParams,
    SamplingParamsInput,
    TextGenerationRequest,
)
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.scheduler import StepRecord
from tests.pipelines.serving.idle import Idle, broken, factory
from tests.pipelines.serving.running import TEXTS
from tests.pipelines.tiny.models import FOLDER

COUNT = 10


@pytest.fixture(scope="module")
def llm(llama: Path) -> Iterator[LLM]:
    """Its process cannot import torch: a model that runs by it would fail."""
    blocking = [f"{FOLDER}:without_torch"]
    config = PipelineConfig(
        model_path=str(llama), max_batch_size=8, max_length=300, custom_architectures=blocking
    )
    with LLM(config) as made:
        yield made


@pytest.fixture(scope="module")
def wanted(llama: Path) -> list[str]:
    """What transformers writes behind the prompts."""
    import torch
    import transformers

    model: Any = transformers.AutoModelForCausalLM.from_pretrained(llama)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(llama)
    found = []
    for text in TEXTS:
        ids = torch.tensor([tokenizer.encode(text)])
        options = {"do_sample": False, "max_new_tokens": COUNT, "pad_token_id": 0}
        (written,) = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        found.append(tokenizer.decode(written[ids.shape[1] :], skip_special_tokens=True))
    return found


def test_it_writes_what_transformers_writes(llm: LLM, wanted: list[str]) -> None:
    assert llm.generate(TEXTS, max_new_tokens=COUNT, use_tqdm=False) == wanted
    assert len(set(wanted)) == len(TEXTS)
    (first,) = llm.generate(TEXTS[0], COUNT)
    assert first == wanted[0]
    assert repr(llm).startswith("LLM(")


def test_several_devices_write_the_same(llama: Path, wanted: list[str]) -> None:
    """The process has as many virtual CPUs as this one."""
    specs = [DeviceSpec(number, "cpu") for number in range(2)]
    with driver.virtual_cpus(2):
        config = PipelineConfig(model_path=str(llama), device_specs=specs, max_length=300)
        with LLM(config) as made:
            assert made.generate(TEXTS[:2], max_new_tokens=COUNT, use_tqdm=False) == wanted[:2]


def test_its_steps_are_events_of_this_process(llm: LLM) -> None:
    trace.recorder().clear()
    llm.generate(TEXTS[:3], max_new_tokens=4, use_tqdm=False)
    told = [StepRecord.of(event.data) for event in trace.recorder().events("schedule")]
    assert sum(one.generated_tokens for one in told) == 12
    assert told[-1].free_pages == told[-1].pages


def test_it_can_be_paused(llm: LLM) -> None:
    llm.pause()
    found: list[list[str]] = []
    asking = threading.Thread(
        target=lambda: found.append(llm.generate("a", max_new_tokens=3, use_tqdm=False))
    )
    trace.recorder().clear()
    asking.start()
    llm.step(2)
    for _ in range(600):
        if len(trace.recorder().events("schedule")) == 2:
            break
        time.sleep(0.02)
    time.sleep(0.05)
    assert len(trace.recorder().events("schedule")) == 2
    assert not found
    llm.resume()
    asking.join()
    assert len(found[0]) == 1


def request_for(**given: Any) -> TextGenerationRequest:
    params = SamplingParams(temperature=0.0, max_new_tokens=COUNT)
    return TextGenerationRequest(RequestID("one"), "tiny", sampling_params=params, **given)


def test_requests_stand_beside_texts(llm: LLM, wanted: list[str]) -> None:
    mixed: list[str | TextGenerationRequest] = [TEXTS[1], request_for(prompt=TEXTS[0])]
    assert llm.generate(mixed, COUNT, use_tqdm=False) == [wanted[1], wanted[0]]
    assert llm.generate(request_for(prompt=TEXTS[1]), use_tqdm=False) == [wanted[1]]


@pytest.mark.parametrize(
    "prompts",
    ["", [], (), None, 7, b"a", ["a", 7], [b"a"], [["a"]], [request_for(prompt="a")] * 2,
     request_for(prompt="a", logprobs=1), request_for(prompt="a", echo=True)],
)  # fmt: skip
def test_prompts_are_texts_or_requests(llm: LLM, prompts: Any) -> None:
    with pytest.raises(ValueError, match=r"prompts.*ML981"):
        llm.generate(prompts)


def test_each_prompt_may_have_parameters_of_its_own(llm: LLM, wanted: list[str]) -> None:
    stop = wanted[0][3:5]
    params = [SamplingParamsInput(stop=[stop]), SamplingParamsInput(max_new_tokens=2)]
    first, second = llm.generate(TEXTS[:2], COUNT, False, sampling_params=params)
    assert first == wanted[0][: wanted[0].index(stop)]
    assert wanted[1].startswith(second)
    assert len(second) < len(wanted[1])
    for given in (params[:1], {"seed": 1}, [None, None]):
        with pytest.raises((ValueError, TypeError), match="sampling_params"):
            llm.generate(TEXTS[:2], COUNT, False, sampling_params=given)  # type: ignore[arg-type]


def test_what_it_cannot_write_is_refused(llm: LLM) -> None:
    with pytest.raises(ValueError, match="max_new_tokens"):
        llm.generate("a", max_new_tokens=0)
    with pytest.raises(ValueError, match="ML160"):
        llm.generate("a" * 400)


def _stops(text: str) -> list[str]:
    """Texts that begin and end at many places of ``text``, in and between tokens."""
    return [text[n : n + size] for n in range(1, len(text) - 4, 3) for size in (1, 2, 5)]


def test_a_stop_cuts_an_answer_right_before_it(llm: LLM, wanted: list[str]) -> None:
    (whole,) = llm.generate(TEXTS[0], COUNT, use_tqdm=False)
    for stop in _stops(whole):
        params = SamplingParamsInput(stop=[stop])
        (text,) = llm.generate(TEXTS[0], COUNT, use_tqdm=False, sampling_params=params)
        assert text == whole[: whole.index(stop)], stop


def test_a_stream_has_the_text_before_a_stop(llm: LLM, wanted: list[str]) -> None:
    (whole,) = llm.generate(TEXTS[0], COUNT, use_tqdm=False)
    for stop in _stops(whole)[::4]:
        params = SamplingParams(temperature=0, max_new_tokens=COUNT)
        request = TextGenerationRequest(
            RequestID(), llm.name, prompt=TEXTS[0], stop=stop, sampling_params=params
        )
        context = asyncio.run(llm.tokenizer.new_context(request))
        decoder = llm.tokenizer.stream(request, context.prompt_tokens.tolist())
        parts = list(llm.stream(context))
        text = "".join([decoder.push(token) for one in parts for token in one.tokens])
        assert text + decoder.finish() == whole[: whole.index(stop)], stop
        assert parts[-1].final_status is GenerationStatus.END_OF_SEQUENCE


def test_a_stop_is_not_looked_for_before_the_least_number_of_tokens(
    llama: Path, wanted: list[str]
) -> None:
    config = PipelineConfig(model_path=str(llama), max_length=300, enable_min_tokens=True)
    with LLM(config) as made:
        (whole,) = made.generate(TEXTS[0], COUNT, use_tqdm=False)
        params = SamplingParamsInput(stop=[whole[2:4]], min_new_tokens=COUNT)
        assert made.generate(TEXTS[0], COUNT, False, sampling_params=params) == [whole]


def test_a_model_without_adapters_refuses_them(llm: LLM) -> None:
    assert llm.adapters == []
    with pytest.raises(ValueError, match=r"enable_lora.*ML139"):
        llm.load_adapter("poems")
    with pytest.raises(ValueError, match=r"enable_lora.*ML139"):
        llm.unload_adapter("poems")
    with pytest.raises(ValueError, match=r"poems.*ML539"):
        llm.generate("a", 2, False, model="poems")


def test_threads_ask_at_once_and_some_call_off(llm: LLM, wanted: list[str]) -> None:
    """Eight threads ask for sixteen prompts each; a quarter of the calls are cancelled midway."""
    faults: list[str] = []
    counts = {"told": 0, "cancelled": 0}

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(4):
            picked = [rng.randrange(len(TEXTS)) for _ in range(4)]
            work = progress.Work("asking")
            if rng.random() < 0.25:
                threading.Timer(rng.random() / 50, work.cancel).start()
            try:
                with progress.working(work):
                    found = llm.generate(
                        [TEXTS[n] for n in picked], max_new_tokens=COUNT, use_tqdm=False
                    )
            except CancelledError:
                counts["cancelled"] += 1
                continue
            counts["told"] += 1
            if found != [wanted[n] for n in picked]:
                faults.append(f"{picked}: {found}")

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert counts["told"] > 8
    assert counts["told"] + counts["cancelled"] == 32
    # A cancelled request has given its pages back by the end of the next step.
    llm.generate("a", max_new_tokens=1, use_tqdm=False)
    last = StepRecord.of(trace.recorder().events("schedule")[-1].data)
    assert (last.free_pages, last.waiting, last.active) == (last.pages, (), ())


def test_a_request_that_the_process_cannot_take_fails_alone(llm: LLM, wanted: list[str]) -> None:
    """The checks of the caller are passed over, as by a configuration that changed."""
    request = TextGenerationRequest(
        RequestID(), "m", prompt="a", sampling_params=SamplingParams(repetition_penalty=2)
    )
    context = asyncio.run(llm._tokenizer.new_context(request))
    _, answer = llm._worker.submit([context]).get(timeout=60)
    assert isinstance(answer, InputError)
    assert answer.code == "ML139"
    assert llm.generate(TEXTS, max_new_tokens=COUNT, use_tqdm=False) == wanted


def test_what_loading_raises_is_raised_here() -> None:
    with pytest.raises(WeightError, match=r"up_proj.*ML601"):
        Worker(factory(broken))


def test_classes_that_no_other_process_has_are_refused() -> None:
    class Mine(Idle):
        pass

    with pytest.raises(InputError, match=r"Mine.*ML143"):
        Worker(factory(Mine))


def test_errors_travel() -> None:
    class OwnError(ValueError):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} {two}")

    error = portable(InputError("ML139", "no", fix="yes"))
    assert isinstance(error, InputError)
    assert repr(portable(OwnError(1, 2))) == "RuntimeError('OwnError: 1 2')"
    assert isinstance(portable(MemoryError("all")), RuntimeError)


def test_a_process_that_is_killed_ends_calls_with_an_error(llm: LLM) -> None:
    worker = llm._worker.process
    raised: list[BaseException] = []
    begun = threading.Event()

    def ask() -> None:
        try:
            while True:
                begun.set()
                llm.generate(TEXTS, max_new_tokens=100, use_tqdm=False)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    begun.wait()
    time.sleep(0.05)
    os.kill(worker.pid, signal.SIGKILL)
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive(), "it waits for an answer that cannot come"
    assert len(raised) == 2
    for error in raised:
        assert isinstance(error, RuntimeError)
        assert isinstance(error, ExecutionError)
        assert "SIGKILL" in str(error)
    with pytest.raises(RuntimeError, match="ML142"):
        llm.generate("a")
    with pytest.raises(RuntimeError, match="ML142"):
        llm.step()


def test_the_process_ends_with_its_owner() -> None:
    made = Worker(factory(Idle))
    process = made.process
    assert process.poll() is None
    del made
    gc.collect()
    assert process.wait(timeout=30) == 0


def test_a_closed_one_tells_those_who_wait() -> None:
    made = Worker(factory(Idle))
    made.control(Control(paused=True))
    context: Any = SimpleNamespace(request_id=RequestID("a"))
    answers = made.submit([context])
    made.close()
    assert made.process.returncode == 0
    request_id, error = answers.get(timeout=30)
    assert request_id == RequestID("a")
    assert isinstance(error, RuntimeError)
    assert "closed" in str(error)
    with pytest.raises(RuntimeError, match="closed"):
        made.submit([context])
