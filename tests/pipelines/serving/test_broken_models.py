"""Folders of models that are broken or do not fit together: typed errors, and no end of others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch not installed")

from maxlab.errors import ExecutionError, InputError, MaxlabError
from maxlab.pipelines.architectures import llama as llamas
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.registry import PipelineRegistry
from maxlab.pipelines.lib.scheduler import TextGenerationScheduler
from tests.pipelines.serving.running import context, written

WEIGHTS, SMALL = "model.safetensors", 300


def _cut(folder: Path) -> None:
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[: len(data) // 2])


def _garbled(folder: Path) -> None:
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[:8] + b"\xff" * 64 + data[72:])


def _enormous(folder: Path) -> None:
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(b"\xff" * 8 + data[8:])


def _changed(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    from safetensors.numpy import load_file, save_file

    save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS)


def _configured(folder: Path, **entries: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def _without_a_layer(folder: Path) -> None:
    _changed(folder, lambda all_: {key: one for key, one in all_.items() if "up_proj" not in key})


def _without_tokenizer(folder: Path) -> None:
    for one in folder.glob("token*"):
        one.unlink()


def _nan(folder: Path) -> None:
    _changed(folder, lambda all_: {**all_, "model.norm.weight": all_["model.norm.weight"] * np.nan})


def _few_words(folder: Path) -> None:
    """The tokenizer has more words than the model."""
    words = ("embed_tokens", "lm_head")
    _changed(
        folder,
        lambda all_: {
            key: one[:SMALL].copy() if any(word in key for word in words) else one
            for key, one in all_.items()
        },
    )
    _configured(folder, vocab_size=SMALL)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "weights that are cut off": (_cut, "ML633"),
    "weights with a garbled head": (_garbled, "ML633"),
    "weights with a head larger than memory": (_enormous, "ML633"),
    "no bytes of weights": (lambda folder: (folder / WEIGHTS).write_bytes(b""), "ML633"),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), "ML131"),
    "weights of another size": (lambda folder: _configured(folder, intermediate_size=160), "ML707"),
    "weights without a layer": (_without_a_layer, "ML7"),
    "a configuration that is cut off": (
        lambda folder: (folder / "config.json").write_text("{"), "ML132",
    ),
    "a tokenizer that is cut off": (
        lambda folder: (folder / "tokenizer.json").write_text("{"), "ML152",
    ),
    "no tokenizer": (_without_tokenizer, "ML151"),
}  # fmt: skip


def _copied(llama: Path, folder: Path, spoil: Callable[[Path], object]) -> Path:
    shutil.copytree(llama, folder)
    spoil(folder)
    return folder


def _retrieved(registry: PipelineRegistry, folder: Path) -> Any:
    registry.register(llamas.ARCHITECTURES[0], allow_override=True)
    return registry.retrieve(PipelineConfig(model_path=str(folder), max_length=300))[1]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_folder_is_refused(
    registry: PipelineRegistry, llama: Path, tmp_path: Path, name: str
) -> None:
    spoil, code = BROKEN[name]
    folder = _copied(llama, tmp_path / "broken", spoil)
    with pytest.raises(MaxlabError) as caught:
        _retrieved(registry, folder)
    assert caught.value.code.startswith(code), caught.value


def test_a_tokenizer_with_more_words_than_the_model_fails_no_batch(
    registry: PipelineRegistry, llama: Path, tmp_path: Path
) -> None:
    pipeline = _retrieved(registry, _copied(llama, tmp_path / "small", _few_words))
    good, bad = context(pipeline, "a"), context(pipeline, "The quick 世界 weather")
    assert good.prompt_tokens.max() < SMALL <= bad.prompt_tokens.max()
    (wanted,) = written(pipeline, context(pipeline, "a"))
    scheduler = TextGenerationScheduler(pipeline)
    scheduler.submit(good)
    with pytest.raises(InputError, match=rf"below {SMALL}.*ML981"):
        scheduler.submit(bad)
    while scheduler.has_work:
        assert not scheduler.step().errors
    assert good.generated_tokens.tolist() == wanted
    with pytest.raises(InputError, match="ML981"):
        written(pipeline, bad)


def test_weights_that_make_no_numbers_are_told(
    registry: PipelineRegistry, llama: Path, tmp_path: Path
) -> None:
    pipeline = _retrieved(registry, _copied(llama, tmp_path / "nan", _nan))
    with pytest.raises(ExecutionError, match="ML183"):
        written(pipeline, context(pipeline, "a"))
