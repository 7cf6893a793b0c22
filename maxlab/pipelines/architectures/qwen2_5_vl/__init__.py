"""Qwen2.5-VL: a model that sees images and writes text.

The language part is Qwen2's. An image becomes patches, which attend to each other in windows and in
a few layers as a whole, and four neighbours become one token of the text. S. Bai et al.,
"Qwen2.5-VL Technical Report", 2025, arXiv:2502.13923.
"""

from __future__ import annotations

from maxlab.pipelines.architectures.decoder import decoder_architecture
from maxlab.pipelines.architectures.qwen2_5_vl.language import Qwen25VL
from maxlab.pipelines.architectures.qwen2_5_vl.model import (
    Qwen25VLModel,
    convert_safetensor_state_dict,
)
from maxlab.pipelines.architectures.qwen2_5_vl.tokenizer import Qwen25VLTokenizer

ARCHITECTURES = [
    decoder_architecture(
        "Qwen2_5_VLForConditionalGeneration",
        ["Qwen/Qwen2.5-VL-3B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct"],
        Qwen25VLModel,
        convert_safetensor_state_dict,
        tokenizer=Qwen25VLTokenizer,
    )
]

__all__ = ["ARCHITECTURES", "Qwen25VL", "Qwen25VLModel", "Qwen25VLTokenizer"]
