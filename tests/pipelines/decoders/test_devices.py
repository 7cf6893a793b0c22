"""Llama on several devices, against transformers with the same weights."""

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
from maxlab.errors import ArgumentError, UnsupportedError
from maxlab.pipelines.architectures import llama, qwen2
from maxlab.pipelines.architectures.decoder import DecoderModel
from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.registry import PipelineRegistry
from tests.pipelines.decoders.running import Run, compare, decoder_of
from tests.pipelines.decoders.tiny import decoder_folder

LLAMA = llama.ARCHITECTURES[0]
COUNT = 6
SIZES: dict[str, Any] = {
    "num_attention_heads": 24,
    "num_key_value_heads": 12,
    "head_dim": 4,
    "intermediate_size": 82,
}
VARIANTS: dict[int, dict[str, Any]] = {
    2: {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    3: {"attention_bias": True, "mlp_bias": True},
    4: {"hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True},
}


@pytest.fixture(autouse=True, scope="module")
def known() -> Iterator[None]:
    """A registry with two architectures."""
    before, mine = current(), PipelineRegistry([])
    use_registry(mine)
    for architecture in (LLAMA, qwen2.ARCHITECTURES[0]):
        mine.register(architecture)
    yield
    use_registry(before)


def specs(count: int) -> list[DeviceSpec]:
    return [DeviceSpec(number, "cpu") for number in range(count)]


def weights_by_device(model: DecoderModel) -> dict[int, dict[str, int]]:
    """The bytes of the weights that each device holds."""
    found: dict[int, dict[str, int]] = {}
    for slot in model.model.plan.slots:
        if slot.kind == "weight":
            here = found.setdefault(slot.device.id, {})
            here[slot.name] = here.get(slot.name, 0) + int(slot.nbytes.evaluate({}))
    return found


@pytest.mark.parametrize("count", VARIANTS)
def test_logits_and_texts_are_those_of_transformers(count: int, tmp_path: Path) -> None:
    """A batch of mixed lengths; pages of a prefix are shared on all devices."""
    wanted = decoder_folder(tmp_path, LLAMA.name, 3, **SIZES, **VARIANTS[count])
    with driver.virtual_cpus(count):
        model = decoder_of(tmp_path, LLAMA, device_specs=specs(count))
        run = Run(model)
        rng = np.random.default_rng(count)
        prompts = [rng.integers(3, 509, length) for length in (7, 140, 1)]
        texts = [run.begin(prompt) for prompt in prompts]
        run.write(*texts, count=COUNT)
        again = run.begin([*prompts[1][:128], *prompts[0]])
        run.write(again, texts[0], count=2)
        assert min(again.rows) == 128, "the tokens of the page are not computed again"
        assert compare(again, 2, wanted) == 0
        assert compare(texts[0], COUNT + 2, wanted) == 0
        assert sum(compare(text, COUNT, wanted) for text in texts[1:]) == 0
        run.end(*texts, again)


def test_no_device_holds_a_whole_matrix(tmp_path: Path) -> None:
    wanted = decoder_folder(tmp_path, LLAMA.name, 0, **SIZES)
    with driver.virtual_cpus(3) as cpus:
        before = [cpu.stats["used_memory"] for cpu in cpus[1:]]
        model = decoder_of(tmp_path, LLAMA, device_specs=specs(3))
        cache = model.kv_manager.params.bytes_per_block(2) * model.kv_manager.total_num_pages
        held = weights_by_device(model)
        assert set(held) == {0, 1, 2}
        matrices = {
            name.removeprefix("model."): weight.numel() * 4
            for name, weight in wanted.named_parameters()
            if weight.dim() > 1
        }
        for name, size in matrices.items():
            parts = [
                sum(n for own, n in here.items() if own.partition("[")[0] == name)
                for here in held.values()
            ]
            assert sum(parts) == size, name
            assert max(parts) < 0.5 * size, name
        whole = sum(matrices.values())  # a device has its third twice: once packed for products
        for cpu, used in zip(cpus[1:], before, strict=True):
            assert cache < cpu.stats["used_memory"] - used < cache + 0.75 * whole


def test_what_is_refused(tmp_path: Path) -> None:
    decoder_folder(tmp_path / "llama", LLAMA.name, **SIZES)
    decoder_folder(tmp_path / "qwen2", "Qwen2ForCausalLM")
    with pytest.raises(ArgumentError, match="ML469"):  # both are the host
        decoder_of(tmp_path / "llama", LLAMA, device_specs=specs(2))
    with driver.virtual_cpus(5):
        with pytest.raises(UnsupportedError, match="ML169"):
            decoder_of(tmp_path / "qwen2", qwen2.ARCHITECTURES[0], device_specs=specs(2))
        with pytest.raises(ArgumentError, match=r"12 heads.*5 devices.*ML166"):
            decoder_of(tmp_path / "llama", LLAMA, device_specs=specs(5))
        adapters: dict[str, Any] = {"enable_lora": True, "max_num_loras": 1, "max_lora_rank": 4}
        with pytest.raises(UnsupportedError, match=r"LoRA.*2 devices.*ML169"):
            decoder_of(
                tmp_path / "llama",
                LLAMA,
                device_specs=specs(2),
                enable_prefix_caching=False,
                **adapters,
            )
