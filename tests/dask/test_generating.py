"""Texts of a cluster: in order, the same as those of one model, and none lost with a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maxlab import dask, progress
from maxlab.dask.holding import NAME
from maxlab.dask.models import WantedModel
from maxlab.errors import CancelledError, ExecutionError, InputError, InputTypeError
from maxlab.interfaces import SamplingParamsInput
from maxlab.pipelines.lib.config import PipelineConfig
from tests.dask.conftest import LENGTH
from tests.serve.serving import until

COUNT = 12
PROMPTS = [f"{word} {number}" for number in range(3) for word in ("The quick", "a", "世界", "42")]
DRAWN = SamplingParamsInput(temperature=1.0, seed=7)


@pytest.fixture(scope="module")
def config(folder: Path) -> PipelineConfig:
    return PipelineConfig(
        model_path=str(folder), max_length=LENGTH, max_batch_size=8, enable_lora=True,
        max_lora_rank=4, lora_paths=[f"poems={folder / 'poems'}"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def wanted(oracles: dict[str, Any]) -> dict[str, list[str]]:
    """What transformers writes."""
    import torch
    import transformers

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(oracles["folder"])
    found: dict[str, list[str]] = {"base": [], "poems": []}
    for name, texts in found.items():
        for prompt in PROMPTS:
            ids = torch.tensor([tokenizer.encode(prompt)])
            options = {"do_sample": False, "max_new_tokens": COUNT, "pad_token_id": 0}
            mask = torch.ones_like(ids)
            (tokens,) = oracles[name].generate(ids, attention_mask=mask, **options)
            texts.append(tokenizer.decode(tokens[ids.shape[1] :], skip_special_tokens=True))
    return found


def models(client: Any) -> dict[str, int]:
    """The processes of the models that workers hold, by worker."""

    def pid(dask_worker: Any) -> int:
        holder = dask_worker.plugins.get("maxlab-model")
        llm = None if holder is None else holder._llm
        return 0 if llm is None else int(llm._worker.process.pid)

    found: dict[str, int] = client.run(pid)
    return found


def lives(pid: int) -> bool:
    """Whether there is a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_answers_are_those_of_one_model_in_order(
    client: Any, config: PipelineConfig, wanted: dict[str, list[str]]
) -> None:
    assert len({*wanted["base"], *wanted["poems"]}) > len(PROMPTS)
    found = dask.generate(client, config, PROMPTS, COUNT, prompts_each=2)
    assert found == wanted["base"]
    held = models(client)
    assert len(held) == 2
    assert all(held.values()), "each worker has a model"
    poems = dask.generate(client, config, PROMPTS, COUNT, adapter="poems", prompts_each=5)
    assert poems == wanted["poems"]
    drawn = dask.generate(client, config, PROMPTS, COUNT, sampling_params=DRAWN)
    again = dask.generate(client, config, PROMPTS, COUNT, sampling_params=DRAWN, prompts_each=1)
    assert drawn == again != found, "a seed decides, wherever it is drawn"
    assert dask.generate(client, config, PROMPTS[0], COUNT) == wanted["base"][:1]
    assert models(client) == held, "they are loaded once"


def test_prompts_are_taken_as_they_are_answered(
    client: Any, config: PipelineConfig, wanted: dict[str, list[str]]
) -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield PROMPTS[(taken - 1) % len(PROMPTS)]

    told = dask.iter_generate(client, config, endless(), COUNT, prompts_each=1)
    assert [next(told) for _ in range(5)] == wanted["base"][:5]
    assert taken < 12
    told.close()  # type: ignore[attr-defined]
    assert not client.futures


def test_progress_is_told_and_can_be_cancelled(client: Any, config: PipelineConfig) -> None:
    seen: list[tuple[str, int]] = []

    class Told(progress.Work):
        def step(self, phase: str, done: int = 0, total: int = 0, what: str = "") -> None:
            super().step(phase, done, total, what)
            seen.append((what, total))
            if done >= 4:
                self.cancel()

    with pytest.raises(CancelledError, match="ML897"), progress.working(Told("ask")):
        dask.generate(client, config, PROMPTS * 4, COUNT, prompts_each=2)
    assert ("2 workers", len(PROMPTS) * 4) in seen
    assert not client.futures


def test_errors_name_the_worker(client: Any, config: PipelineConfig, folder: Path) -> None:
    with pytest.raises(InputError, match=r"ML160[^$]*Dask worker tcp://127"):
        dask.generate(client, config, ["a", "a" * 400], COUNT)
    with pytest.raises(InputError, match=r"poem[^$]*ML539[^$]*tcp://127"):
        dask.generate(client, config, "a", COUNT, adapter="poem")
    with pytest.raises(ValueError, match=r"no-such[^$]*tcp://127"):
        dask.generate(client, folder / "no-such", "a", COUNT)
    assert not client.futures


def test_a_worker_with_another_model_or_maxlab_is_told(
    client: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = WantedModel.of(folder, {"max_length": LENGTH})
    made.require_same("tcp://w")
    for change, told in (
        ({"version": "0.0.9"}, r"maxlab 0\.0\.9 of the client expected"),
        ({"files": {**(made.files or {}), "config.json": "1 f"}}, "config.json differs"),
        ({"files": {**(made.files or {}), "more.gguf": "9 "}}, "more.gguf differs"),
        ({"path": str(tmp_path / "none")}, "is not there for the worker tcp://w"),
    ):
        other = WantedModel(**{**vars(made), **change})
        with pytest.raises(ExecutionError, match=told) as caught:
            other.require_same("tcp://w")
        assert caught.value.code == "ML871"
        assert "tcp://w" in str(caught.value)
    monkeypatch.setattr("maxlab.config.VERSION", "0.0.9")
    with pytest.raises(RuntimeError, match=r"0\.0\.9[^$]*tcp://127[^$]*ML871"):
        dask.generate(client, folder, "a", COUNT, max_length=LENGTH)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"client": "tcp://nowhere"}, InputTypeError), ({"model": 7}, InputTypeError),
        ({"prompts": []}, InputError), ({"prompts": ["a", ""]}, InputError),
        ({"prompts": ["a", 7]}, InputTypeError), ({"max_new_tokens": 0}, InputError),
        ({"prompts_each": 0}, InputError), ({"sampling_params": {"seed": 1}}, InputTypeError),
        ({"retries": -1}, InputError), ({"max_length": 9}, InputError),
    ],
)  # fmt: skip
def test_arguments_are_checked(
    client: Any, config: PipelineConfig, given: dict[str, Any], kind: type[Exception]
) -> None:
    """The last one is a setting beside a whole configuration."""
    with pytest.raises(kind):
        dask.generate(**{"client": client, "model": config, "prompts": "a", **given})


def test_a_model_at_every_point_of_a_grid(client: Any, config: PipelineConfig) -> None:
    grid: Any = {"temperature": [0.0, 1.5], "seed": [1, 2]}
    found = dask.sweep(client, config, grid, prompts=["a", "42"], max_new_tokens=6)
    assert found.columns == ["temperature", "seed", "prompt", "answer", "seconds", "worker"]
    assert found.column("prompt") == ["a", "42"] * 4
    texts = found.column("answer")
    assert texts[:2] == texts[2:4] != texts[4:6] != texts[6:8]
    assert texts[:2] == dask.generate(client, config, ["a", "42"], 6)


def test_a_worker_that_is_killed_loses_no_answer(
    client: Any, config: PipelineConfig, wanted: dict[str, list[str]]
) -> None:
    """Its model dies with it; after that, no model is left by `release` either."""
    told = iter(dask.iter_generate(client, config, PROMPTS, COUNT, prompts_each=1))
    found = [next(told)]
    before, (victim, *_) = models(client), client.run(os.getpid).values()
    os.kill(victim, signal.SIGKILL)
    assert [*found, *told] == wanted["base"]
    client.wait_for_workers(2, timeout=60)
    assert victim not in client.run(os.getpid).values()
    left = models(client)
    dask.release(client)
    assert not any(models(client).values())
    assert until(lambda: not any(map(lives, {*before.values(), *left.values()} - {0})))
    dask.release(client)


def test_nothing_is_imported_early() -> None:
    code = (
        "import sys, maxlab, maxlab.dask; "
        "assert not {'dask', 'distributed'} & {one.partition('.')[0] for one in sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert NAME == "maxlab-model"
