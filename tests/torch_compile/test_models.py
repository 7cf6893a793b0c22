"""Small random models of many families, called by ``torch.compile(model, backend="maxlab")`` with
batches of three and of five."""

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

import maxlab.torch  # noqa: E402, F401 - registers the backend

WIDE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
WORDS = {"vocab_size": 100, **WIDE, "intermediate_size": 64}
Made = tuple[Any, Callable[[int], dict[str, Any]]]


def _ids(count: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(3, 100, (count, 12))}


def _decoded(count: int) -> dict[str, Any]:
    return {**_ids(count), "use_cache": False}


def _images(count: int) -> dict[str, Any]:
    return {"pixel_values": torch.rand(count, 3, 32, 32)}


def distilbert() -> Made:
    config = transformers.DistilBertConfig(vocab_size=100, dim=32, n_layers=2, n_heads=4)
    return transformers.DistilBertModel(config), _ids


def gpt2() -> Made:
    config = transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4)
    return transformers.GPT2LMHeadModel(config), _decoded


def llama() -> Made:
    config = transformers.LlamaConfig(**WORDS, num_key_value_heads=2, head_dim=8)
    return transformers.LlamaForCausalLM(config), _decoded


def t5() -> Made:
    config = transformers.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4
    )
    return transformers.T5EncoderModel(config), _ids


def mamba() -> Made:
    config = transformers.MambaConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, state_size=4
    )
    return transformers.MambaForCausalLM(config), _decoded


def vit() -> Made:
    config = transformers.ViTConfig(**WIDE, intermediate_size=64, image_size=32, patch_size=8)
    return transformers.ViTModel(config), _images


def swin() -> Made:
    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    return transformers.SwinModel(config), _images


def resnet() -> Made:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
    )
    return transformers.ResNetModel(config), _images


def convnext() -> Made:
    config = transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2)
    return transformers.ConvNextModel(config), _images


@pytest.mark.filterwarnings("ignore:Dynamo detected a call:UserWarning")  # of transformers' code
@pytest.mark.parametrize(
    "make",
    [distilbert, gpt2, llama, t5, mamba, vit, swin, resnet, convnext],
    ids=lambda make: make.__name__,
)
def test_batches_of_three_and_five(make: Callable[[], Made], graphs: list[Any]) -> None:
    model, inputs = make()
    model.eval()
    compiled = torch.compile(model, backend="maxlab")
    with torch.no_grad():
        for count in (3, 5, 4):
            given = inputs(count)
            for value in given.values():
                if isinstance(value, torch.Tensor):
                    torch._dynamo.mark_dynamic(value, 0)
            found, expected = _tensors(compiled(**given)), _tensors(model(**given))
            for made, wanted in zip(found, expected, strict=True):
                scale = float(wanted.abs().max())
                torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-4 * scale)
    (graph,) = graphs
    ours = sum(row.count for row in graph.coverage if row.by == "maxlab")
    assert ours >= 0.95 * sum(row.count for row in graph.coverage), graph.fallbacks


def _tensors(made: Any) -> list[Any]:
    return [x for x in made.to_tuple() if isinstance(x, torch.Tensor)]
