"""Configurations for GPUs, simulated ones here, and for models of a hub that are in the cache."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from maxlab import driver
from maxlab.driver import DeviceSpec
from maxlab.errors import InputError
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.config_enums import RepoType, SupportedEncoding
from tests.pipelines.config import folders
from tests.pipelines.hub.models import cached, plain


def test_accelerators_are_taken_where_there_are_some(tiny: str, tmp_path: Path) -> None:
    with driver.simulated(2):
        config = PipelineConfig(model_path=tiny)
        assert config.model_config.device_specs == [DeviceSpec.accelerator(n) for n in range(2)]
        assert config.max_num_steps == 10
        estimate = config.estimate_memory()
        assert estimate.device == "gpu:0, gpu:1"
        free = [driver.Accelerator(n).stats["free_memory"] for n in range(2)]
        assert estimate.free == pytest.approx(sum(free), rel=0.05)
        assert PipelineConfig(model_path=tiny, ep_size=2).ep_size == 2
        with pytest.raises(InputError, match="1 or 2, the number of GPUs"):
            PipelineConfig(model_path=tiny, ep_size=3)
        folders.model(tmp_path / "two", kind="BF16", name="b.safetensors")
        both = folders.model(tmp_path / "two", kind="F32", name="a.safetensors")
        on_gpu = PipelineConfig(model_path=both).model_config
        assert on_gpu.quantization_encoding is SupportedEncoding.bfloat16
        on_cpu = PipelineConfig(model_path=both, device_specs=[DeviceSpec.cpu()]).model_config
        assert on_cpu.quantization_encoding is SupportedEncoding.float32


def test_virtual_cpus_share_the_memory_of_the_host(tiny: str) -> None:
    alone = PipelineConfig(model_path=tiny).estimate_memory().free
    with driver.virtual_cpus(3):
        specs = [DeviceSpec.cpu(n) for n in range(3)]
        together = PipelineConfig(model_path=tiny, device_specs=specs).estimate_memory()
    assert together.device == "cpu:0, cpu:1, cpu:2"
    assert together.free < 2 * alone


def test_a_model_of_a_hub_is_configured_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("transformers", reason="transformers not installed; extra oracle has it")
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    files = {
        "config.json": json.dumps(folders.LLAMA).encode(),
        "model.safetensors": plain("F32", 1000),
        "generation_config.json": b'{"top_k": 9}',
    }
    cached(tmp_path / "hub", "org/tiny", files)
    with caplog.at_level(logging.WARNING):
        config = PipelineConfig(model_path="org/tiny")
    model = config.model_config
    assert model.huggingface_model_repo.repo_type is RepoType.online
    assert model.quantization_encoding is SupportedEncoding.float32
    assert model.weights_size() == len(files["model.safetensors"])
    assert model.sampling_params_defaults.top_k == 9
    assert config.max_length == 256
    assert model.model_name == "org/tiny"
