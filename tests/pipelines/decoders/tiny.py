"""Folders of tiny models that write text, with random weights, as transformers writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SIZES: dict[str, Any] = {
    "vocab_size": 509,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def decoder_folder(folder: Path, kind: str, seed: int = 0, **entries: Any) -> Any:
    """Writes a tiny model of the class ``kind`` of transformers; returns it.

    Matrices are of the standard deviation 0.2, with which greedy texts do not repeat one token;
    vectors (norms, biases, sinks) are what transformers makes them plus noise, so that none of them
    can be left out.
    """
    import torch
    import transformers

    torch.manual_seed(seed)
    made: Any = getattr(transformers, kind)
    model = made(made.config_class(**{**SIZES, **entries})).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:
                weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(folder)
    return model


__all__ = ["SIZES", "decoder_folder"]
