"""Models of PyTorch, imported by name, as the programs that build them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
torch = pytest.importorskip(
    "torch", reason="torch not installed; scripts/test --oracle installs it"
)
transformers = pytest.importorskip(
    "transformers", reason="no transformers; scripts/test --oracle installs it"
)

from maxlab.torch.export import export  # noqa: E402 - needs torch
from maxlab.torch.importer import Importer  # noqa: E402
from maxlab.torch.source import of_export  # noqa: E402
from tests.graph.code.rebuilt import rebuilt, require_formatted  # noqa: E402

WORDS = {
    "vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128,
}  # fmt: skip
GROUPED = {**WORDS, "num_key_value_heads": 2, "head_dim": 16}
T5 = {"vocab_size": 1000, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
BART = {
    "vocab_size": 1000, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
}  # fmt: skip
DISTIL = {"vocab_size": 1000, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}
MODELS: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "bert": ("BertModel", "BertConfig", WORDS, 9),
    "distilbert": ("DistilBertModel", "DistilBertConfig", DISTIL, 6),
    "roberta": ("RobertaModel", "RobertaConfig", WORDS, 9),
    "albert": ("AlbertModel", "AlbertConfig", {**WORDS, "embedding_size": 32}, 20),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": 1000, "n_embd": 64, "n_layer": 2, "n_head": 4},
        12,
    ),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", WORDS, 9),
    "bloom": (
        "BloomForCausalLM",
        "BloomConfig",
        {"vocab_size": 1000, "hidden_size": 64, "n_layer": 2, "n_head": 4},
        9,
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED, 9),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", GROUPED, 9),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**GROUPED, "sliding_window": 8}, 10),
    "t5_encoder": ("T5EncoderModel", "T5Config", T5, 12),
    "bart": ("BartModel", "BartConfig", BART, 12),
    "vit": (
        "ViTModel",
        "ViTConfig",
        {
            **{k: v for k, v in WORDS.items() if k != "vocab_size"},
            "image_size": 32,
            "patch_size": 8,
        },
        9,
    ),
}
"""The class of each model, its configuration, what is smaller there, and how many functions its
program has at most: equal layers are one."""


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_built_again(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    kind, configuration, sizes, most = MODELS[name]
    settings = getattr(transformers, configuration)(**sizes)
    module = getattr(transformers, kind)(settings).eval()
    if name == "vit":
        given: dict[str, Any] = {"pixel_values": torch.rand(1, 3, 32, 32)}
    else:
        given = {"input_ids": torch.randint(3, 1000, (1, 16))}
        if "use_cache" in settings.to_dict():
            given["use_cache"] = False
    exported = export(module, (), given, None, False)
    importer = Importer(of_export(exported.program, exported.names), kind)
    graph = importer.build()
    path = tmp_path / f"{name}.py"
    text = rebuilt(graph, path, importer.weights)
    require_formatted(tmp_path)
    assert text.count("\ndef ") <= most
    assert "Graph.current.op(" not in text
    assert path.with_suffix(".safetensors").exists()
    longest = max(len(function.splitlines()) for function in text.split("\ndef ")[1:])
    assert longest < 120, f"a function of {longest} lines"
