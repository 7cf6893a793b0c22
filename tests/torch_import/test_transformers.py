"""Small random models of transformers, imported whole: as many layers as a test can wait for, and
all of the code that makes masks, positions and caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
torch = pytest.importorskip(
    "torch", reason="torch not installed; scripts/test --oracle installs it"
)
transformers = pytest.importorskip(
    "transformers", reason="no transformers; scripts/test --oracle installs it"
)

from maxlab.torch import load  # noqa: E402 - needs torch

SMALL = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
IDS = torch.randint(0, 100, (2, 12), generator=torch.Generator().manual_seed(3))
MASK = torch.ones(2, 12, dtype=torch.long)
MASK[1, 8:] = 0


def minilm() -> tuple[Any, dict[str, Any]]:
    """all-MiniLM-L6-v2 with fewer and narrower layers."""
    config = transformers.BertConfig(
        **SMALL, intermediate_size=64, max_position_embeddings=64, layer_norm_eps=1e-12
    )
    return transformers.BertModel(config), {"input_ids": IDS, "attention_mask": MASK}


def llama() -> tuple[Any, dict[str, Any]]:
    config = transformers.LlamaConfig(**SMALL, intermediate_size=64, num_key_value_heads=2)
    return transformers.LlamaForCausalLM(config), {"input_ids": IDS, "use_cache": False}


def qwen() -> tuple[Any, dict[str, Any]]:
    config = transformers.Qwen2Config(**SMALL, intermediate_size=64, num_key_value_heads=2)
    inputs = {"input_ids": IDS, "attention_mask": MASK, "use_cache": False}
    return transformers.Qwen2ForCausalLM(config), inputs


def gpt2() -> tuple[Any, dict[str, Any]]:
    config = transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4)
    return transformers.GPT2LMHeadModel(config), {"input_ids": IDS, "use_cache": False}


def t5() -> tuple[Any, dict[str, Any]]:
    config = transformers.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4
    )
    return transformers.T5EncoderModel(config), {"input_ids": IDS, "attention_mask": MASK}


def vit() -> tuple[Any, dict[str, Any]]:
    sizes = {key: value for key, value in SMALL.items() if key != "vocab_size"}
    config = transformers.ViTConfig(**sizes, intermediate_size=64, image_size=16, patch_size=4)
    return transformers.ViTModel(config), {"pixel_values": torch.randn(2, 3, 16, 16)}


@pytest.mark.parametrize("make", [minilm, qwen, t5, llama, gpt2, vit], ids=lambda f: f.__name__)
def test_a_model_agrees_with_torch(make: Callable[[], tuple[Any, dict[str, Any]]]) -> None:
    torch.manual_seed(0)
    module, inputs = make()
    module.eval()
    model = load(module, **inputs)
    found = model.check(**inputs)
    assert found.ok, str(found)
    assert found.elements > 0
    assert [row.name for row in model.coverage if row.by == "torch"] == []
    assert type(model(**inputs)) is type(module(**inputs))


def test_minilm_is_one_kernel_for_each_attention() -> None:
    module, inputs = minilm()
    model = load(module.eval(), dynamic_batch=True, **inputs)
    kernels = list(model.model.kernels.values())
    assert sum(k.kind == "attention" for k in kernels) == 2
    # a product with its bias is one kernel each: query, key, value, output, up, down; the pooler
    assert sum(k.kind == "contract" for k in kernels) == 2 * 6 + 1
    scopes = {op.scope for op in model.graph.function.ops}
    assert "encoder.layer.1.attention.self.query" in scopes
    (product,) = [
        op
        for op in model.graph.function.ops
        if op.name == "mo.matmul" and op.scope == "encoder.layer.0.intermediate.dense"
    ]
    assert product.loc is not None
    assert product.loc.file.endswith("modeling_bert.py")
    assert "self.dense(hidden_states)" in product.loc.text
    for rows in (1, 2):
        more = {name: value[:rows] for name, value in inputs.items()}
        assert model.check(**more).ok
