"""A folder of a tiny Qwen2.5-VL with random weights, as transformers writes it, and pictures."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|vision_start|>", "<|vision_end|>",
           "<|image_pad|>", "<|video_pad|>")  # fmt: skip
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for part in m.content %}{% if part.type == 'image' %}<|vision_start|>"
    "<|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SEES = "<|vision_start|><|image_pad|><|vision_end|>"
"""An image in a prompt."""


@cache
def _tokenizer_json() -> str:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    from tests.pipelines.tokenizer.trained import TEXTS

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=list(SPECIAL),
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    return str(made.to_str())


def vision_folder(folder: Path, seed: int = 0, *, tied: bool = False, **text: Any) -> Any:
    """Writes a tiny model with a tokenizer and settings of images; returns the model.

    The standard deviation of matrices is large enough that greedy texts do not repeat one token.
    Windows are of two by two tokens, and the second of three layers sees whole images.
    """
    import torch
    import transformers

    torch.manual_seed(seed)
    ids = {name: number for number, name in enumerate(SPECIAL)}
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 400,
            "hidden_size": 48,
            "intermediate_size": 80,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            "initializer_range": 0.2,
            "rope_parameters": {
                "rope_type": "default",
                "mrope_section": [1, 2, 3],
                "rope_theta": 10000.0,
            },
            "bos_token_id": None,
            "eos_token_id": ids["<|im_end|>"],
            "pad_token_id": ids["<|endoftext|>"],
            **text,
        },
        vision_config={
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 40,
            "num_heads": 2,
            "patch_size": 4,
            "window_size": 16,
            "out_hidden_size": 48,
            "fullatt_block_indexes": [1],
            "initializer_range": 0.2,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=tied,
    )
    model: Any = transformers.Qwen2_5_VLForConditionalGeneration(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:
                weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(_tokenizer_json(), "utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<|im_end|>",
                "pad_token": "<|endoftext|>",
                "chat_template": TEMPLATE,
                "clean_up_tokenization_spaces": False,
                "model_max_length": 512,
            }
        ),
        "utf-8",
    )
    (folder / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "image_processor_type": "Qwen2VLImageProcessor",
                "patch_size": 4,
                "merge_size": 2,
                "temporal_patch_size": 2,
                "min_pixels": 64,
                "max_pixels": 4096,
            }
        ),
        "utf-8",
    )
    return model


def picture(width: int, height: int, seed: int = 0) -> bytes:
    """The bytes of a PNG file with colours of no pattern."""
    from PIL import Image

    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


__all__ = ["SEES", "SPECIAL", "picture", "vision_folder"]
