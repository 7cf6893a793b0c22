"""Requests of several adapters, in batches of a scheduler, against transformers."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch not installed")

from maxlab.errors import InputError
from maxlab.interfaces import LoRAOperation, LoRARequest, LoRAStatus, RequestID, SamplingParams
from maxlab.pipelines.architectures import llama as llamas
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.pipeline_variants import TextGenerationPipeline
from maxlab.pipelines.lib.registry import PipelineRegistry
from maxlab.pipelines.lib.scheduler import TextGenerationScheduler
from tests.pipelines.decoders.adapters import adapter_folder
from tests.pipelines.serving.running import Pipe, written

COUNT, TIE = 9, 1e-3
NAMES = ("one", "", "two", "three", "one", "three", "two", "tiny")
"""Of the requests; ``tiny`` is the name that the model is served by."""


@pytest.fixture(scope="module")
def oracles(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The base and three adapters, merged; and where the adapters are, by ``name path``."""
    import transformers

    folder = tmp_path_factory.mktemp("adapters")
    base: Any = transformers.LlamaForCausalLM.from_pretrained(llama).eval()
    found = {"": base, "tiny": base}
    for seed, (name, rank) in enumerate((("one", 4), ("two", 8), ("three", 1))):
        found[name] = adapter_folder(folder / name, base, seed, rank, 6.0)
    return {**found, "folder": folder}


@pytest.fixture(scope="module")
def adapted(registry: PipelineRegistry, llama: Path, oracles: dict[str, Any]) -> Pipe:
    """A pipeline with two slots and three adapters, of which the third is loaded by a request."""
    registry.register(llamas.ARCHITECTURES[0], allow_override=True)
    config = PipelineConfig(
        model_path=str(llama), served_model_name="tiny", max_batch_size=8, max_length=300,
        max_num_steps=4, enable_lora=True, max_num_loras=2, max_lora_rank=8,
        lora_paths=[f"{name}={oracles['folder'] / name}" for name in ("one", "two")],
    )  # fmt: skip
    _, found = registry.retrieve(config)
    assert isinstance(found, TextGenerationPipeline)
    manager = found.lora_manager
    assert manager is not None
    path = str(oracles["folder"] / "three")
    done = manager.answer(LoRARequest(LoRAOperation.LOAD, "three", path))
    assert done.status is LoRAStatus.SUCCESS
    return found


def _request(seed: int, name: str) -> TextContext:
    tokens = np.random.default_rng(seed).integers(3, 400, 3 + 20 * seed)
    params = SamplingParams(temperature=0.0, max_new_tokens=COUNT, ignore_eos=True)
    return TextContext(
        max_length=300, tokens=tokens, model_name=name, request_id=RequestID(),
        sampling_params=params, ignore_eos=True,
    )  # fmt: skip


def _check(request: TextContext, tokens: list[int], model: Any) -> None:
    """Raises unless each token has the largest logit, or nearly so."""
    assert len(tokens) == COUNT
    _follows([int(token) for token in request.prompt_tokens], tokens, model)


def _follows(prompt: list[int], tokens: list[int], model: Any) -> None:
    """Raises unless each token behind a prompt has the largest logit, or nearly so."""
    import torch

    with torch.no_grad():
        rows = model(torch.tensor([[*prompt, *tokens]])).logits[0].numpy()
    for place, token in enumerate(tokens, len(prompt)):
        row = rows[place - 1]
        assert row[token] > row.max() - TIE


def test_a_scheduler_with_more_adapters_than_slots(adapted: Pipe, oracles: dict[str, Any]) -> None:
    scheduler = TextGenerationScheduler(adapted)
    requests = [_request(seed, name) for seed, name in enumerate(NAMES)]
    for request, result in zip(requests, scheduler.answer(requests), strict=True):
        _check(request, result.tokens, oracles[request.model_name])


def test_several_steps_keep_the_adapters(adapted: Pipe, oracles: dict[str, Any]) -> None:
    requests = [_request(seed, name) for seed, name in enumerate(("two", "", "one"))]
    for request, tokens in zip(requests, written(adapted, *requests, steps=4), strict=True):
        _check(request, tokens, oracles[request.model_name])


def test_a_request_of_no_adapter_fails_alone(adapted: Pipe, oracles: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        adapted.require_accepted(_request(1, "four"))
    assert caught.value.code == "ML539"
    assert adapted.fits_together([_request(0, name) for name in ("one", "", "two", "tiny")])
    assert not adapted.fits_together([_request(0, name) for name in ("one", "two", "three")])


def test_an_adapter_that_is_unloaded_ends_its_requests_alone(
    adapted: Pipe, oracles: dict[str, Any]
) -> None:
    assert adapted.lora_manager is not None
    scheduler = TextGenerationScheduler(adapted)
    requests = [_request(seed, name) for seed, name in enumerate(("one", "two", ""))]
    for request in requests:
        scheduler.submit(request)
    steps = [scheduler.step() for _ in range(2)]
    adapted.lora_manager.unload_adapter("two")
    while scheduler.has_work:
        steps.append(scheduler.step())
    errors = {key: error for step in steps for key, error in step.errors.items()}
    assert list(errors) == [requests[1].request_id]
    assert "ML539" in str(errors[requests[1].request_id])
    for request in (requests[0], requests[2]):
        _check(request, request.generated_tokens.tolist(), oracles[request.model_name])
    (manager,) = adapted.kv_managers
    assert manager.num_free_blocks == manager.total_num_pages
    adapted.lora_manager.load_adapter(str(oracles["folder"] / "two"), "two")


def _reloaded(adapted: Pipe, oracles: dict[str, Any], name: str, folder: str) -> None:
    """Lets ``name`` mean the adapter of a folder, where it does not yet."""
    manager = adapted.lora_manager
    assert manager is not None
    if name in manager:
        manager.unload_adapter(name)
    manager.load_adapter(str(oracles["folder"] / folder), name)


def test_a_batch_that_is_formed_runs_with_the_adapters_that_it_was_formed_with(
    adapted: Pipe, oracles: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adapter is unloaded, and another one loaded by its name, before the batch runs."""
    manager = adapted.lora_manager
    assert manager is not None
    scheduler = TextGenerationScheduler(adapted)
    requests = [_request(seed, name) for seed, name in enumerate(("one", "two", ""))]
    for request in requests:
        scheduler.submit(request)
    scheduler.step()
    execute = adapted.execute

    def late(inputs: Any) -> Any:
        _reloaded(adapted, oracles, "two", "three")
        return execute(inputs)

    with monkeypatch.context() as patched:
        patched.setattr(adapted, "execute", late)
        step = scheduler.step()
    assert not step.errors
    results = [step.results[one.request_id].result for one in requests]
    assert all(result is not None and result.tokens for result in results)
    prompt = [int(token) for token in requests[1].prompt_tokens]
    _follows(prompt, requests[1].generated_tokens.tolist(), oracles["two"])
    left = [scheduler.step() for _ in range(20) if scheduler.has_work]
    errors = {key: error for one in left for key, error in one.errors.items()}
    assert list(errors) == [requests[1].request_id], "its adapter is another one now"
    assert "ML539" in str(errors[requests[1].request_id])
    for request in (requests[0], requests[2]):
        _check(request, request.generated_tokens.tolist(), oracles[request.model_name])
    (found,) = scheduler.answer([new := _request(3, "two")])
    _check(new, found.tokens, oracles["three"])
    _reloaded(adapted, oracles, "two", "two")
    (found,) = scheduler.answer([new := _request(3, "two")])
    _check(new, found.tokens, oracles["two"])


def test_adapters_come_and_go_while_others_are_used(adapted: Pipe, oracles: dict[str, Any]) -> None:
    stop, faults = threading.Event(), []

    def change() -> None:
        while not stop.is_set():
            try:
                _reloaded(adapted, oracles, "three", "three")
            except Exception as error:
                faults.append(error)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        scheduler = TextGenerationScheduler(adapted)
        for turn in range(4):
            requests = [_request(seed + turn, name) for seed, name in enumerate(("one", "two", ""))]
            for request, one in zip(requests, scheduler.answer(requests), strict=True):
                _check(request, one.tokens, oracles[request.model_name])
    finally:
        stop.set()
        thread.join()
    assert not faults
