"""Folders of tiny models with random weights, as transformers and users write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from maxlab.graph.weights.writing import write_safetensors

WORDS = ["the", "quiet", "river", "turns", "into", "light", "green", "bread"]
FOLDER = Path(__file__).parent
SIZES = {"num_attention_heads": 1, "num_hidden_layers": 1, "max_position_embeddings": 8}
"""Entries that a configuration needs whose architecture is not registered yet."""
CUSTOM = f"{FOLDER}:bag_of_words"
"""The setting ``custom_architectures`` for `bag_of_words_folder`."""


def bag_of_words_folder(folder: Path, **entries: Any) -> np.ndarray[Any, Any]:
    """Writes a model for ``bag_of_words.py``; returns its table, float32 of shape [words, 6]."""
    table = np.random.default_rng(5).standard_normal((len(WORDS), 6)).astype(np.float32)
    write_safetensors(folder / "model.safetensors", {"words": table})
    config = {
        "architectures": ["BagOfWords"],
        "model_type": "bag-of-words",
        "vocab_size": len(WORDS),
        "hidden_size": 6,
        "longest_text": 8,
        **entries,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "words.txt").write_text("\n".join(WORDS))
    return table


def encoder_folder(folder: Path, kind: str = "BertModel", **entries: Any) -> Any:
    """Writes a tiny encoder with its tokenizer; returns the model of transformers."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    torch.manual_seed(0)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]"}
    special |= {"sep_token": "[SEP]", "mask_token": "[MASK]"}
    vocabulary = {word: n for n, word in enumerate([*special.values(), *WORDS])}
    given: dict[str, Any] = {
        "vocab_size": len(vocabulary),
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 40,
        "max_position_embeddings": 20,
        "initializer_range": 0.3,
        **entries,
    }
    made: Any = getattr(transformers, kind)
    model = made(made.config_class(**given)).eval()
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    fast.save_pretrained(folder)
    return model


DECODER = f"{FOLDER}:looking_back"
"""The setting ``custom_architectures`` for `decoder_folder`."""


def decoder_folder(folder: Path, **entries: Any) -> Path:
    """``folder`` with a model for ``looking_back.py`` and a byte-level tokenizer."""
    from tests.pipelines.tokenizer import trained

    trained.folder(folder)
    config: dict[str, Any] = {
        "architectures": ["LookingBack"],
        "model_type": "looking-back",
        "vocab_size": 400,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "max_position_embeddings": 512,
        "eos_token_id": 1,
        **entries,
    }
    (folder / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(7)
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    size = hidden // config["num_attention_heads"]
    rows = (config["num_attention_heads"] + 2 * config["num_key_value_heads"]) * size
    shapes = {"embed.weight": (vocabulary, hidden), "head.weight": (vocabulary, hidden)}
    for layer in range(config["num_hidden_layers"]):
        shapes[f"qkv.{layer}.weight"] = (rows, hidden)
        shapes[f"out.{layer}.weight"] = (hidden, hidden)
    write_safetensors(
        folder / "model.safetensors",
        {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()},
    )
    return folder


def speaking_folder(folder: Path, kind: str = "Speaking", **entries: Any) -> Path:
    """``folder`` with a model for ``speaking.py``, and ``decoder.safetensors`` for its decoder."""
    decoder_folder(folder, architectures=[kind], **entries)
    rng = np.random.default_rng(11)
    loudness = (rng.random((400, 5)) / 5).astype(np.float32)
    write_safetensors(folder / "decoder.safetensors", {"loudness": loudness})
    return folder
