"""Folders of tiny models, for tests of configurations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.pipelines.hub.models import plain

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "vocab_size": 96,
}
"""The config.json of a Llama whose cache holds 2 * 2 * 8 numbers of a token in each of 2 layers."""
BERT: dict[str, Any] = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "vocab_size": 50,
}


def model(
    folder: Path,
    config: Mapping[str, Any] = LLAMA,
    kind: str = "F32",
    generation: Mapping[str, Any] | str | None = None,
    name: str = "model.safetensors",
) -> str:
    """The path of a new folder of a model, with one weight file of 1000 numbers."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / name).write_bytes(plain(kind, 1000))
    if generation is not None:
        text = generation if isinstance(generation, str) else json.dumps(generation)
        (folder / "generation_config.json").write_text(text)
    return str(folder)


GPTQ: dict[str, Any] = {
    "quant_method": "gptq",
    "bits": 4,
    "group_size": 128,
    "desc_act": False,
    "sym": True,
}
"""How a checkpoint of GPTQ says that it was quantised."""
