"""Models of GGUF files, against transformers with the numbers that the blocks stand for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")
pytest.importorskip("gguf", reason="gguf not installed")

import torch

from maxlab import driver
from maxlab.driver import DeviceSpec
from maxlab.engine import InferenceSession
from maxlab.errors import MaxlabError
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.weights import WeightsFormat
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.architectures import (
    deepseek_v2,
    gemma3,
    granite,
    llama,
    mistral,
    olmo,
    olmo2,
    phi3,
    qwen2,
    qwen3,
    register_all_models,
)
from maxlab.pipelines.lib.architecture import SupportedArchitecture
from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY
from tests.pipelines.decoders.gguf_folders import HEADS, KINDS, gguf_folder, halves, neighbours
from tests.pipelines.decoders.running import Run, Text, compare, decoder_of
from tests.pipelines.decoders.tiny import decoder_folder


@dataclass(frozen=True)
class Row:
    """An architecture in an encoding, with entries of its config.json."""

    architecture: SupportedArchitecture
    kind: str
    entries: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.architecture.name.removesuffix('ForCausalLM').lower()} {self.kind}"


GEMMA: dict[str, Any] = {
    "head_dim": 64,
    "query_pre_attn_scalar": 64,
    "sliding_window": 16,
    "layer_types": ["sliding_attention", "full_attention"],
    "tie_word_embeddings": True,
}
GRANITE = {
    "attention_multiplier": 0.2,
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.8,
    "logits_scaling": 2.0,
}
TIED = {"tie_word_embeddings": True}
ENTRIES: list[tuple[SupportedArchitecture, dict[str, Any]]] = [
    (llama.ARCHITECTURES[0], {}),
    (mistral.ARCHITECTURES[0], {"head_dim": 64}),
    (qwen2.ARCHITECTURES[0], {}),
    (qwen3.ARCHITECTURES[0], {"head_dim": 64}),
    (gemma3.ARCHITECTURES[0], GEMMA),
    (phi3.ARCHITECTURES[0], {}),
    (olmo.ARCHITECTURES[0], {"clip_qkv": 2.0}),
    (olmo2.ARCHITECTURES[0], {}),
    (granite.ARCHITECTURES[0], GRANITE),
]
ROWS = [
    *(Row(architecture, kind, entries) for architecture, entries in ENTRIES for kind in KINDS),
    Row(llama.ARCHITECTURES[0], "q5_k", {"attention_bias": True, **TIED}),
    Row(qwen2.ARCHITECTURES[0], "q4_0", TIED),
]
GGUF = WeightsFormat.gguf


def rounds_nothing(row: Row) -> bool:
    """Whether all products of a row are those of floats."""
    tied = row.entries.get("tie_word_embeddings")
    return row.kind == "float32" or (row.kind == "q5_k" and not tied)  # whose table is of Q6_K


def near(texts: list[Text], model: Any) -> None:
    """Raises unless logits are those of transformers, but for an input that lies between two
    rounded ones, of which either may be taken, and for the tokens behind it."""
    exact = 0
    for text in texts:
        with torch.no_grad():
            wanted = model(torch.tensor([text.tokens[:-1]])).logits[0].numpy()
        off = np.abs(np.stack([text.rows[place] for place in range(len(wanted))]) - wanted)
        assert off.mean() < 0.02 * wanted.std()
        exact += int((off.max(axis=-1) < 1e-4 * wanted.std()).sum())
    assert exact >= 5


@pytest.fixture(autouse=True, scope="module")
def known() -> None:
    register_all_models()


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_logits_and_tokens_are_those_of_transformers(row: Row, tmp_path: Path) -> None:
    """Two texts; and weights stay packed in the memory of the model."""
    model = gguf_folder(tmp_path, row.architecture.name, row.kind, **row.entries)
    run = Run(decoder_of(tmp_path, row.architecture))
    texts = [run.begin(prompt) for prompt in ([5, 6, 7], list(range(9, 29)))]
    run.write(*texts, count=8)
    if rounds_nothing(row):
        assert sum(compare(text, 8, model) for text in texts) <= 1
    near(texts, model)
    slots = [slot for slot in run.model.model.plan.slots if slot.kind == "weight"]
    file = (tmp_path / f"model-{row.kind}.gguf").stat().st_size
    assert sum(slot.nbytes.evaluate({}) for slot in slots) < file


def test_every_architecture_that_reads_such_files_has_a_row() -> None:
    reads = {
        one.name for one in PIPELINE_REGISTRY.architectures.values() if GGUF in one.weight_adapters
    }
    assert reads == {row.architecture.name for row in ROWS}


def test_the_order_of_rows() -> None:
    """As transformers, which read such files too, put them back."""
    from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

    rows = torch.arange(16).reshape(16, 1)
    assert neighbours(rows, 2).flatten().tolist()[:8] == [0, 4, 1, 5, 2, 6, 3, 7]
    assert halves(neighbours(rows, 2), 2).tolist() == rows.tolist()
    theirs: Any = LlamaTensorProcessor(config={"num_attention_heads": 2, "num_key_value_heads": 2})
    found = theirs.process(neighbours(rows, 2).numpy(), name="blk.0.attn_q.weight")
    assert found.weights.tolist() == rows.tolist()


def test_the_norms_of_gemma(tmp_path: Path) -> None:
    """As transformers, which take 1 from those of the file."""
    from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS

    theirs: Any = TENSOR_PROCESSORS["gemma3"](config={})
    made = theirs.process(np.full(3, 1.25, np.float32), name="blk.0.attn_norm.weight")
    assert made.weights.tolist() == [0.25] * 3


def test_weights_on_their_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are blocks still when the session gets them, and tables of angles are not looked for."""
    seen: dict[str, Any] = {}
    load = InferenceSession.load

    def watched(self: InferenceSession, graph: Any, **given: Any) -> Any:
        seen.update(given.get("weights_registry") or {})
        return load(self, graph, **given)

    monkeypatch.setattr(InferenceSession, "load", watched)
    gguf_folder(
        tmp_path, "LlamaForCausalLM", "q5_k", add=("rope_freqs.weight",), num_hidden_layers=1
    )
    decoder_of(tmp_path, llama.ARCHITECTURES[0])
    packed = [name for name, weight in seen.items() if weight.dtype == np.uint8]
    assert len(packed) == 9
    assert seen["lm_head.weight"].shape == (300, QuantizationEncoding.Q5_K.block_size)


def test_blocks_on_several_devices(tmp_path: Path) -> None:
    """Weights are cut between their blocks, and stay packed."""
    sizes: dict[str, Any] = {"hidden_size": 512, "intermediate_size": 512, "num_hidden_layers": 1}
    wanted = gguf_folder(tmp_path, "LlamaForCausalLM", "q5_k", **sizes)
    with driver.virtual_cpus(2):
        specs = [DeviceSpec(number, "cpu") for number in range(2)]
        model = decoder_of(tmp_path, llama.ARCHITECTURES[0], device_specs=specs)
        slots = [slot for slot in model.model.plan.slots if slot.kind == "weight"]
        assert len([slot for slot in slots if slot.dtype.size_in_bytes == 1]) == 9 * 2
        run = Run(model)
        texts = [run.begin(prompt) for prompt in ([5, 6, 7], list(range(9, 29)))]
        run.write(*texts, count=4)
        near(texts, wanted)


def test_other_architectures_read_no_such_files(tmp_path: Path) -> None:
    folder = tmp_path / "llama"
    gguf_folder(folder, "LlamaForCausalLM", "q5_k", num_hidden_layers=1)
    other = tmp_path / "other"
    decoder_folder(other, "DeepseekV2ForCausalLM", num_attention_heads=HEADS)
    (other / "model.safetensors").unlink()
    (other / "model-q5_k.gguf").write_bytes((folder / "model-q5_k.gguf").read_bytes())
    with pytest.raises(MaxlabError, match="q5_k"):
        decoder_of(other, deepseek_v2.ARCHITECTURES[0], ReturnLogits.LAST_TOKEN)
