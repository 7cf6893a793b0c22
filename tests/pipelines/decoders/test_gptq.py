"""Models that GPTQ packed, against transformers with the numbers of words and scales."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")

from maxlab.dtype import DType
from maxlab.errors import MaxlabError, WeightError
from maxlab.graph.quantization import QuantizationConfig, QuantizationEncoding
from maxlab.graph.weights import WeightData
from maxlab.pipelines.architectures import gptq, llama, mistral, qwen2, qwen3
from maxlab.pipelines.lib import config_enums
from maxlab.pipelines.lib.architecture import SupportedArchitecture
from maxlab.pipelines.lib.config_enums import SupportedEncoding
from tests.nn.gptq_weights import checkpoint, numbers
from tests.pipelines.decoders.running import Run, compare, decoder_of
from tests.pipelines.decoders.tiny import decoder_folder

SIZES: dict[str, Any] = {
    "vocab_size": 251,
    "hidden_size": 64,
    "intermediate_size": 96,
    "initializer_range": 0.15,
}
GROUP = 32
ROWS: list[tuple[SupportedArchitecture, int, bool, dict[str, Any]]] = [
    (llama.ARCHITECTURES[0], 4, False, {}),
    (llama.ARCHITECTURES[0], 4, True, {"attention_bias": True}),
    (llama.ARCHITECTURES[0], 8, True, {"tie_word_embeddings": True}),
    (mistral.ARCHITECTURES[0], 4, True, {}),
    (qwen2.ARCHITECTURES[0], 4, False, {}),
    (qwen3.ARCHITECTURES[0], 4, True, {"head_dim": 16}),
]
"""Architectures, the bits of a number, whether rows are in the order of activations, and entries of
config.json."""


def gptq_folder(
    folder: Path, name: str, bits: int = 4, desc_act: bool = False, **entries: Any
) -> Any:
    """Writes a tiny model as AutoGPTQ does; returns the model of transformers with the numbers that
    words and scales stand for."""
    import torch
    from safetensors.torch import save_file

    model = decoder_folder(folder, name, **{**SIZES, **entries})
    state = {key: x.to(torch.float16) for key, x in model.state_dict().items()}
    for key, x in state.items():
        model.state_dict()[key].copy_(x.float())
    for number, (full, module) in enumerate(model.named_modules()):
        if not isinstance(module, torch.nn.Linear) or full == "lm_head":
            continue
        rows, columns = module.weight.shape
        found = checkpoint(bits, columns, rows, GROUP, desc_act, seed=number)
        factor = np.float16(0.15 / numbers(found, bits).std())
        found["scales"] = (found["scales"] * factor).astype(np.float16)
        module.weight.data = torch.from_numpy(np.ascontiguousarray(numbers(found, bits).T))
        del state[f"{full}.weight"]
        state |= {f"{full}.{part}": torch.from_numpy(array) for part, array in found.items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "dtype": "float16",
        "quantization_config": {
            "quant_method": "gptq",
            "bits": bits,
            "group_size": GROUP,
            "desc_act": desc_act,
            "sym": True,
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    return model


@pytest.fixture
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Activations and caches of float32."""
    facts = config_enums._Facts(DType.uint8, DType.float32, QuantizationEncoding.GPTQ)
    monkeypatch.setitem(config_enums._FACTS, SupportedEncoding.gptq, facts)


@pytest.mark.usefixtures("_wide")
@pytest.mark.parametrize(("architecture", "bits", "desc_act", "entries"), ROWS)
def test_logits_and_texts(
    tmp_path: Path,
    architecture: SupportedArchitecture,
    bits: int,
    desc_act: bool,
    entries: dict[str, Any],
) -> None:
    wanted = gptq_folder(tmp_path, architecture.name, bits, desc_act, **entries)
    model = decoder_of(tmp_path, architecture)
    assert model.encoding is SupportedEncoding.gptq
    run = Run(model)
    texts = [run.begin(prompt) for prompt in ([5, 9, 200, 17], list(range(30, 53)))]
    run.write(*texts, count=8)
    assert sum(compare(text, 8, wanted) for text in texts) <= 1
    run.end(*texts)
    slots = {slot.name: slot for slot in model.model.plan.slots if slot.kind == "weight"}
    words = [slot.nbytes.evaluate({}) for slot in slots.values()]
    numbers = sum(each.numel() for each in wanted.parameters())
    assert sum(words) < 2 * numbers  # as float32 they would be twice that


def test_activations_of_16_bits(tmp_path: Path) -> None:
    """As the encoding has them: about as far from float32 as transformers are in bfloat16."""
    import torch

    wanted = gptq_folder(tmp_path, "LlamaForCausalLM", desc_act=True)
    run = Run(decoder_of(tmp_path, llama.ARCHITECTURES[0]))
    text = run.begin(list(range(40, 60)))
    run.write(text, count=1)
    tokens = torch.tensor([text.tokens[:-1]])
    with torch.no_grad():
        exact = wanted(tokens).logits[0].numpy()
        halves = wanted.to(torch.bfloat16)(tokens).logits[0].float().numpy()
    made = np.stack([text.rows[place] for place in range(20)])
    ours, theirs = (np.linalg.norm(y - exact, axis=-1).mean() for y in (made, halves))
    assert ours < 1.5 * theirs
    assert theirs < 0.2 * np.linalg.norm(exact, axis=-1).mean()


def test_adapters_are_refused(tmp_path: Path) -> None:
    gptq_folder(tmp_path, "LlamaForCausalLM", num_hidden_layers=1)
    with pytest.raises(MaxlabError, match="ML169"):
        decoder_of(tmp_path, llama.ARCHITECTURES[0], enable_lora=True, enable_prefix_caching=False)


def state_of(desc_act: bool, **changed: Any) -> dict[str, WeightData]:
    """The parts of one layer."""
    found = checkpoint(4, 64, 8, GROUP, desc_act) | changed
    return {
        f"layers.0.q_proj.{part}": WeightData.from_numpy(array, part)
        for part, array in found.items()
        if array is not None
    }


def test_the_parts_of_a_layer() -> None:
    def config(desc_act: bool) -> QuantizationConfig:
        return QuantizationConfig("gptq", 4, GROUP, desc_act=desc_act, sym=True)

    assert sorted(gptq.gptq_of(config(False), state_of(False))) == [
        "layers.0.q_proj.qweight",
        "layers.0.q_proj.scales",
    ]
    second = np.full((2, 1), -0x77777778, np.int32)  # zero points of 8, as the second format has
    assert gptq.gptq_of(config(False), state_of(False, qzeros=second))
    assert "layers.0.q_proj.perm_idx" in gptq.gptq_of(config(True), state_of(True))
    for desc_act, changed in (
        (False, {"qzeros": np.full((2, 1), 0x77777776, np.int32)}),
        (False, {"g_idx": checkpoint(4, 64, 8, GROUP, True)["g_idx"]}),
        (True, {"g_idx": np.zeros(64, np.int32)}),
        (True, {"g_idx": None}),
    ):
        with pytest.raises(WeightError, match="ML524"):
            gptq.gptq_of(config(desc_act), state_of(desc_act, **changed))
