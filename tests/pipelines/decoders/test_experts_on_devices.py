"""Models with mixtures of experts on several devices, against transformers with the same weights:
each device holds and computes some of the experts, and gets the tokens that chose them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")

from maxlab import driver
from maxlab.driver import DeviceSpec
from maxlab.errors import ShapeError, UnsupportedError
from maxlab.nn.steps import StepRecorder
from maxlab.pipelines.architectures import deepseek_v2, gpt_oss, qwen3_moe
from maxlab.pipelines.architectures.decoder import DecoderModel
from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.registry import PipelineRegistry
from tests.devices.places import weights_on
from tests.pipelines.decoders.running import Run, compare, decoder_of
from tests.pipelines.decoders.tiny import decoder_folder

QWEN = qwen3_moe.ARCHITECTURES[0]
OSS = gpt_oss.ARCHITECTURES[0]
DEEPSEEK = deepseek_v2.ARCHITECTURES[0]
COUNT = 4
HEADS: dict[str, Any] = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8}
QWEN_SIZES: dict[str, Any] = {
    **HEADS,
    "num_experts": 6,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
    "norm_topk_prob": True,
    "mlp_only_layers": [0],
}
OSS_SIZES: dict[str, Any] = {
    **HEADS,
    "num_local_experts": 6,
    "num_experts_per_tok": 2,
    "intermediate_size": 24,
    "sliding_window": 16,
    "swiglu_limit": 2.0,
}
DEEPSEEK_SIZES: dict[str, Any] = {
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "q_lora_rank": 20,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 20,
    "first_k_dense_replace": 1,
    "attention_bias": True,
}
CASES = [
    (QWEN, QWEN_SIZES, 2),
    (QWEN, QWEN_SIZES, 4),
    (OSS, OSS_SIZES, 2),
    (OSS, OSS_SIZES, 4),
    (DEEPSEEK, DEEPSEEK_SIZES, 2),
    (DEEPSEEK, DEEPSEEK_SIZES, 4),
]


@pytest.fixture(autouse=True, scope="module")
def known() -> Iterator[None]:
    """A registry with these architectures alone."""
    before, mine = current(), PipelineRegistry([])
    use_registry(mine)
    for architecture in (QWEN, OSS, DEEPSEEK):
        mine.register(architecture)
    yield
    use_registry(before)


def specs(count: int) -> list[DeviceSpec]:
    return [DeviceSpec(number, "cpu") for number in range(count)]


def experts_by_device(model: DecoderModel) -> dict[int, int]:
    """The bytes of weights of routed experts that each device gets."""
    return {
        device: sum(size for name, size in here.items() if ".experts." in name)
        for device, here in weights_on(model.model).items()
    }


@pytest.mark.parametrize(
    ("architecture", "sizes", "count"), CASES, ids=[f"{a.name} {n}" for a, _, n in CASES]
)
def test_logits_and_texts_are_those_of_transformers(
    architecture: Any, sizes: dict[str, Any], count: int, tmp_path: Path
) -> None:
    """A batch of mixed lengths, then steps with fewer tokens than devices."""
    wanted = decoder_folder(tmp_path, architecture.name, count, **sizes)
    whole = sum(
        weight.numel() * 4 for name, weight in wanted.named_parameters() if ".experts." in name
    )
    with driver.virtual_cpus(count):
        recorder = StepRecorder(layers=["layers.1.mlp"])
        try:
            model = decoder_of(tmp_path, architecture, device_specs=specs(count))
        finally:
            recorder.remove()
        held = experts_by_device(model)
        assert set(held) == set(range(count))
        assert sum(held.values()) == whole
        assert max(held.values()) <= -(-8 // count) / 6 * whole, "no device has all experts"
        run = Run(model)
        rng = np.random.default_rng(count)
        texts = [run.begin(rng.integers(3, 509, length)) for length in (7, 21, 1)]
        run.write(*texts, count=COUNT)
        sent = recorder.recording[-1].experts().sent["layers.1.mlp"]
        chosen = sizes["num_experts_per_tok"]
        assert sent.vectors.sum(1).tolist() == [
            chosen * (3 * (n + 1) // count - 3 * n // count) for n in range(count)
        ]
        assert sent.dispatch_bytes == 4 * 48 + 4
        run.step(texts[0])
        assert compare(texts[0], COUNT + 1, wanted) == 0
        assert sum(compare(text, COUNT, wanted) for text in texts[1:]) == 0
        run.end(*texts)


def test_what_is_refused(tmp_path: Path) -> None:
    decoder_folder(tmp_path / "few", QWEN.name, **{**QWEN_SIZES, "num_experts": 3})
    decoder_folder(tmp_path / "scaled", DEEPSEEK.name, **{**DEEPSEEK_SIZES, "hidden_act": "gelu"})
    with driver.virtual_cpus(4):
        with pytest.raises(ShapeError, match=r"3 experts.*4 devices.*ML798"):
            decoder_of(tmp_path / "few", QWEN, device_specs=specs(4))
        with pytest.raises(UnsupportedError, match=r"hidden_act.*ML169"):
            decoder_of(tmp_path / "scaled", DEEPSEEK, device_specs=specs(2))
