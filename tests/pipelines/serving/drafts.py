"""Pipelines of a tiny decoder with draft models that guess well, badly, and always right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxlab.graph.weights import load_weights
from maxlab.graph.weights.writing import write_safetensors
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.registry import PipelineRegistry
from maxlab.pipelines.lib.speculative_decoding import SpeculativeDecodingTextGenerationPipeline
from tests.pipelines.serving.running import settings
from tests.pipelines.tiny.models import decoder_folder

Pair = SpeculativeDecodingTextGenerationPipeline
FEATURES = {"do_penalties": True, "enable_min_tokens": True}


def draft_folders(folder: Path, noise: float = 0.05, **entries: Any) -> dict[str, Path]:
    """Folders of the target and of drafts: ``same`` is the target, ``near`` has noise on its
    weights, ``far`` has others."""
    places = {name: folder / name for name in ("target", "near", "far")}
    for place in places.values():
        place.mkdir()
    decoder_folder(places["target"], **entries)
    decoder_folder(places["near"], **entries)
    decoder_folder(places["far"], **{**entries, "num_hidden_layers": 1})
    file = places["near"] / "model.safetensors"
    rng = np.random.default_rng(3)
    arrays = {name: np.array(one.data) for name, one in _data(file).items()}
    write_safetensors(
        file,
        {
            name: (array + noise * rng.standard_normal(array.shape)).astype(np.float32)
            for name, array in arrays.items()
        },
    )
    return {"same": places["target"], **places}


def _data(file: Path) -> dict[str, Any]:
    return {name: weight.data() for name, weight in load_weights([file]).items()}


def paired(registry: PipelineRegistry, folders: dict[str, Path], draft: str, **given: Any) -> Pair:
    """The pipeline of the target with a draft model."""
    config = settings(folders["target"], draft_model_path=str(folders[draft]), **given)
    _, found = registry.retrieve(PipelineConfig(**config))
    assert isinstance(found, Pair)
    return found


def runs(pair: Pair) -> tuple[int, int]:
    """How often the draft model and the target have run."""
    draft: Any = pair._draft_model
    target: Any = pair._target_model
    return draft.runs, target.runs


__all__ = ["FEATURES", "Pair", "draft_folders", "paired", "runs"]
