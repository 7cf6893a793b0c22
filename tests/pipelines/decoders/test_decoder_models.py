"""What models that write text share: their logits, files, dtypes, and what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")

import torch

from maxlab import driver
from maxlab.driver import Tensor
from maxlab.engine import InferenceSession
from maxlab.errors import InputError, UnsupportedError
from maxlab.interfaces import PipelineTask
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.architectures import deepseek_v2, gemma3, llama, mistral, register_all_models
from maxlab.pipelines.architectures.decoder import DecoderModel
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.pipeline_variants import TextGenerationPipeline
from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY
from tests.pipelines.decoders.gguf_folders import neighbours
from tests.pipelines.decoders.running import Run, compare, decoder_of
from tests.pipelines.decoders.tiny import decoder_folder

LLAMA = llama.ARCHITECTURES[0]


@pytest.fixture(autouse=True, scope="module")
def known() -> None:
    register_all_models()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of a tiny Llama, and the model of transformers."""
    folder = tmp_path_factory.mktemp("llama")
    return folder, decoder_folder(folder, "LlamaForCausalLM")


def contexts(model: DecoderModel, *prompts: list[int]) -> tuple[list[TextContext], list[Any]]:
    """The states of texts that are to be read, and the cache."""
    made = [TextContext(max_length=512, tokens=np.array(prompt)) for prompt in prompts]
    for one in made:
        model.kv_manager.claim(one.request_id)
        model.kv_manager.alloc(one, num_steps=2)
    return made, model.kv_manager.get_runtime_inputs(made, num_steps=2)


def test_logits_of_several_last_tokens(saved: tuple[Path, Any]) -> None:
    folder, other = saved
    model = decoder_of(folder, LLAMA, ReturnLogits.VARIABLE)
    prompts = [[5, 6, 7, 8], [9, 10, 11]]
    batch, cache = contexts(model, *prompts)
    with pytest.raises(InputError, match="ML981"):
        model.prepare_initial_token_inputs(batch, cache, return_n_logits=4)
    outputs = model.execute(model.prepare_initial_token_inputs(batch, cache, return_n_logits=2))
    assert outputs.logit_offsets is not None
    assert outputs.next_token_logits is not None
    assert outputs.logit_offsets.to_numpy().tolist() == [0, 2, 4]
    with torch.no_grad():
        wanted = [other(torch.tensor([prompt])).logits[0].numpy() for prompt in prompts]
    last = np.stack([rows[-1] for rows in wanted])
    logits = outputs.logits.to_numpy()
    np.testing.assert_allclose(logits, np.concatenate([rows[-2:] for rows in wanted]), atol=1e-4)
    np.testing.assert_allclose(outputs.next_token_logits.to_numpy(), last, atol=1e-4)


def test_the_next_token_follows_without_a_look_at_contexts(saved: tuple[Path, Any]) -> None:
    """A second step of the same batch, with lengths that the manager advances."""
    folder, other = saved
    model = decoder_of(folder, LLAMA, ReturnLogits.LAST_TOKEN)
    prompts = [[5, 6, 7, 8], [9]]
    batch, cache = contexts(model, *prompts)
    with pytest.raises(InputError, match="ML981"):
        model.prepare_initial_token_inputs(batch, cache, return_n_logits=2)
    inputs = model.prepare_initial_token_inputs(batch, cache)
    first = model.execute(inputs)
    drawn = first.logits.to_numpy().argmax(-1)
    cache = model.kv_manager.increment_cache_lengths(cache, inputs)
    inputs.kv_cache_inputs = [tensor for one in cache for tensor in one]
    inputs = model.prepare_next_token_inputs(Tensor.from_numpy(drawn.astype(np.int64)), inputs)
    second = model.execute(inputs).logits.to_numpy()
    for prompt, token, row in zip(prompts, drawn.tolist(), second, strict=True):
        with torch.no_grad():
            wanted = other(torch.tensor([[*prompt, token]])).logits[0, -1].numpy()
        np.testing.assert_allclose(row, wanted, atol=1e-4)


PROGRAM = """
import json, sys
import numpy as np
sys.modules["torch"] = None
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.architectures import register_all_models
from maxlab.pipelines.architectures.llama import ARCHITECTURES
from tests.pipelines.decoders.running import Run, compare, decoder_of
register_all_models()
run = Run(decoder_of(sys.argv[1], ARCHITECTURES[0]))
text = run.begin([5, 6, 7])
run.write(text, count=5)
found = [name for name in sys.modules if "models." in name and ".modeling_" in name]
print(json.dumps({"tokens": text.tokens, "found": found}))
"""


def test_a_model_runs_without_torch(saved: tuple[Path, Any]) -> None:
    folder, other = saved
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["found"] == []
    tokens = [5, 6, 7]
    for _ in range(5):
        with torch.no_grad():
            tokens.append(int(other(torch.tensor([tokens])).logits[0, -1].argmax()))
    assert told["tokens"] == tokens


def test_weights_are_those_of_the_mapped_file(
    saved: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No weight is copied on its way from the file to the session."""
    seen: dict[str, Any] = {}
    load = InferenceSession.load

    def watched(self: InferenceSession, graph: Any, **given: Any) -> Any:
        seen.update(given.get("weights_registry") or {})
        return load(self, graph, **given)

    monkeypatch.setattr(InferenceSession, "load", watched)
    decoder_of(saved[0], LLAMA)
    assert len(seen) == 21
    for name, weight in seen.items():
        array = np.asarray(getattr(weight, "data", weight))
        assert not array.flags.owndata, name
        assert not array.flags.writeable, name


VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "activation": (llama, {"hidden_act": "mish"}),
    "angles": (llama, {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}),
    "both ways": (gemma3, {"use_bidirectional_attention": True}),
}


@pytest.mark.parametrize("which", VARIANTS)
def test_variants_that_are_not_computed(which: str, tmp_path: Path) -> None:
    module, entries = VARIANTS[which]
    (architecture,) = module.ARCHITECTURES
    folder = tmp_path
    decoder_folder(folder, architecture.name, **entries)
    with pytest.raises(UnsupportedError, match="ML169"):
        decoder_of(folder, architecture)


def test_the_order_of_rows_may_be_told(saved: tuple[Path, Any], tmp_path: Path) -> None:
    """A file of safetensors whose queries and keys are in the order of GGUF files."""
    from safetensors.torch import load_file, save_file

    folder, other = saved
    state = load_file(folder / "model.safetensors")
    for name in state:
        heads = {"q_proj": 4, "k_proj": 2}.get(name.split(".")[-2])
        if heads is not None:
            state[name] = neighbours(state[name], heads).contiguous()
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    run = Run(decoder_of(tmp_path, LLAMA, rope_type="normal"))
    text = run.begin([5, 6, 7, 8])
    run.write(text, count=2)
    assert compare(text, 2, other) == 0
    assert decoder_of(folder, LLAMA, rope_type="neox")._pairs_neighbours() is False
    with pytest.raises(UnsupportedError, match="ML169"):
        decoder_of(folder, LLAMA, rope_type="yarn")


def test_settings_that_a_model_reads(saved: tuple[Path, Any]) -> None:
    """A pipeline takes ``rope_type`` for a model that reads it."""
    config = PipelineConfig(model_path=str(saved[0]), max_batch_size=1, rope_type="neox")
    model: Any = llama.LlamaModel
    tokenizer: Any = None  # which is asked for nothing before there is a model
    both: list[frozenset[str]] = [model.read_settings, frozenset()]
    for reads in both:
        made = type("Other", (model,), {"read_settings": reads, "__init__": stop})
        with pytest.raises(StopIteration if reads else UnsupportedError):
            TextGenerationPipeline(config, made, 2, LLAMA.weight_adapters, tokenizer)
    assert deepseek_v2.DeepseekV2Model.read_settings == frozenset()


def stop(*args: Any, **given: Any) -> None:
    """Stands for the making of a model."""
    raise StopIteration


def test_a_simulated_gpu(saved: tuple[Path, Any]) -> None:
    folder, other = saved
    with driver.simulated(1):
        specs = [driver.DeviceSpec.accelerator(0)]
        run = Run(decoder_of(folder, LLAMA, device_specs=specs))
        texts = [run.begin([5, 6, 7]), run.begin([8])]
        run.write(*texts, count=2)
    assert sum(compare(text, 2, other) for text in texts) == 0


def test_two_devices_are_refused(tmp_path: Path) -> None:
    decoder_folder(tmp_path, "MistralForCausalLM")
    specs = [driver.DeviceSpec.cpu(0), driver.DeviceSpec.cpu(1)]
    with driver.virtual_cpus(2), pytest.raises(UnsupportedError, match="ML169"):
        decoder_of(tmp_path, mistral.ARCHITECTURES[0], device_specs=specs)


def test_a_text_is_at_most_as_long_as_the_model_takes(saved: tuple[Path, Any]) -> None:
    assert decoder_of(saved[0], LLAMA, max_length=300).max_seq_len == 300
    with pytest.raises(InputError):
        decoder_of(saved[0], LLAMA, max_length=513)


def test_all_are_registered() -> None:
    writes = {
        name
        for name, one in PIPELINE_REGISTRY.architectures.items()
        if one.task is PipelineTask.TEXT_GENERATION
    }
    assert writes >= {f"{name}ForCausalLM" for name in ("Llama", "Mistral", "Qwen2", "Qwen3")}
