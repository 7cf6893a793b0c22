"""The configuration of a model: its files, its encoding, and its own defaults of sampling."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from maxlab.driver import DeviceSpec
from maxlab.errors import InputError, MaxlabError
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import (
    SamplingParams,
    SamplingParamsGenerationConfigDefaults,
    SamplingParamsInput,
)
from maxlab.nn.kv_cache import KVCacheStrategy
from maxlab.pipelines.lib import config_enums
from maxlab.pipelines.lib.config import MAXModelConfig, PipelineConfig, SamplingConfig
from maxlab.pipelines.lib.config_enums import SupportedEncoding
from maxlab.pipelines.lib.model_encoding import gptq_config
from maxlab.pipelines.lib.settings import Origin
from tests.pipelines.config import folders
from tests.pipelines.hub.models import plain

F32, BF16, F16 = (SupportedEncoding(name) for name in ("float32", "bfloat16", "float16"))


@pytest.fixture(autouse=True)
def _oracle() -> None:
    pytest.importorskip("transformers", reason="transformers not installed; extra oracle has it")


# ---------------------------------------------------------------- encodings
@pytest.mark.parametrize(
    ("files", "kwargs", "encoding", "chosen"),
    [
        ({"model.safetensors": "F32"}, {}, F32, ["model.safetensors"]),
        ({"model.safetensors": "BF16"}, {}, BF16, ["model.safetensors"]),
        ({"model.safetensors": "F16"}, {}, F16, ["model.safetensors"]),
        ({"a.safetensors": "F32"}, {"weight_path": ["a.safetensors"]}, F32, ["a.safetensors"]),
        (
            {"model.safetensors": "F32"},
            {
                "quantization_encoding": "bfloat16",
                "allow_safetensors_weights_fp32_bf6_bidirectional_cast": True,
            },
            BF16,
            ["model.safetensors"],
        ),
        (
            {"model-00001-of-00002.safetensors": "F32", "model-00002-of-00002.safetensors": "F32"},
            {},
            F32,
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
        ),
    ],
)
def test_the_encoding_and_its_files_are_chosen(
    tmp_path: Path,
    files: dict[str, str],
    kwargs: dict[str, Any],
    encoding: SupportedEncoding,
    chosen: list[str],
) -> None:
    for name, kind in files.items():
        path = folders.model(tmp_path / "m", kind=kind, name=name)
    config = PipelineConfig(model_path=path, **kwargs).model_config
    assert config.quantization_encoding is encoding
    assert config.weight_path == [Path(name) for name in chosen]
    assert config.weights_size() == sum((tmp_path / "m" / name).stat().st_size for name in chosen)


def test_a_cast_changes_the_memory_of_the_weights(tmp_path: Path) -> None:
    path = folders.model(tmp_path / "m")
    plain_memory = PipelineConfig(model_path=path).estimate_memory().weights
    config = PipelineConfig(
        model_path=path,
        quantization_encoding="bfloat16",
        allow_safetensors_weights_fp32_bf6_bidirectional_cast=True,
    )
    assert config.estimate_memory().weights == plain_memory // 2
    assert config.model_config._applied_dtype_cast_from is F32
    assert config.model_config._applied_dtype_cast_to is BF16
    config.resolve()
    assert config.estimate_memory().weights == plain_memory // 2


def test_weights_may_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folders.model(tmp_path / "m")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "w.safetensors").write_bytes(plain("BF16", 10))
    monkeypatch.chdir(elsewhere)
    for given in (elsewhere / "w.safetensors", Path("w.safetensors")):
        model = PipelineConfig(model_path=path, weight_path=[given]).model_config
        assert model.weight_path == [elsewhere / "w.safetensors"]
        assert model.quantization_encoding is BF16
        assert model.weights_size() == (elsewhere / "w.safetensors").stat().st_size


@pytest.mark.parametrize(
    ("paths", "model_path", "expected"),
    [
        (["org/name/a.gguf"], "", (["a.gguf"], "org/name")),
        (["org/name/sub/a.gguf"], "o/m", (["sub/a.gguf"], "org/name")),
        (["org/name/a.gguf"], "org/name", (["a.gguf"], None)),
        (["a.gguf", "sub/b.gguf"], "o/m", (["a.gguf", "sub/b.gguf"], None)),
        (["/none/such/a.gguf"], "o/m", (["/none/such/a.gguf"], None)),
    ],
)
def test_weight_paths_may_name_a_repository(
    paths: list[str], model_path: str, expected: tuple[list[str], str | None]
) -> None:
    from maxlab.pipelines.lib.model_files import split_weight_paths

    found, repo = split_weight_paths(model_path, [Path(path) for path in paths])
    assert ([str(path) for path in found], repo) == expected


def test_weight_paths_of_two_repositories_are_refused() -> None:
    from maxlab.pipelines.lib.model_files import split_weight_paths

    with pytest.raises(InputError, match=r"a/b, c/d"):
        split_weight_paths("", [Path("a/b/x.gguf"), Path("c/d/y.gguf")])


def test_the_devices_must_run_the_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    float8 = SupportedEncoding.float8_e4m3fn
    facts = replace(config_enums._FACTS[float8], devices=())
    monkeypatch.setitem(config_enums._FACTS, float8, facts)
    path = folders.model(tmp_path / "m", kind="F8")
    with pytest.raises(InputError, match="float8_e4m3fn"):
        PipelineConfig(model_path=path)
    with pytest.raises(InputError, match="no device in this version"):
        PipelineConfig(model_path=path, quantization_encoding="float8_e4m3fn")


def test_an_architecture_names_the_default(tmp_path: Path) -> None:
    path = folders.model(tmp_path / "m", kind="F32")
    folders.model(tmp_path / "m", kind="BF16", name="other.safetensors")
    config = MAXModelConfig(model_path=path)
    config.validate_and_resolve_quantization_encoding_weight_path(BF16, [BF16, F32])
    assert config.quantization_encoding is BF16
    assert config.origin("quantization_encoding") is Origin.resolved
    supported: dict[SupportedEncoding, list[KVCacheStrategy]] = {BF16: []}
    config.validate_and_resolve_with_resolved_quantization_encoding(
        supported, WeightsFormat.safetensors
    )
    assert config.weight_path == [Path("other.safetensors")]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "quantization_config"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"quantization_config": "gptq"}, "quantization_config"),
        ({"quantization_config": folders.GPTQ, "torch_dtype": "bfloat16"}, "float16"),
    ],
)
def test_gptq_must_be_told(config: dict[str, Any], told: str) -> None:
    from types import SimpleNamespace

    with pytest.raises(InputError, match=told):
        gptq_config(SimpleNamespace(**config))
    good = SimpleNamespace(quantization_config=folders.GPTQ, torch_dtype="torch.float16")
    assert gptq_config(good).group_size == 128


# ---------------------------------------------------------------- configs of the model
@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"model_type": 3}', '{"model_type": "llama", "hidden_size": "x"}',
     "[" * 10**5, '{"model_type": "llama", "num_hidden_layers": -3}', "\ufeff{}"],
)  # fmt: skip
def test_a_hostile_config_is_a_typed_error(tmp_path: Path, text: str) -> None:
    path = folders.model(tmp_path / "m")
    (tmp_path / "m" / "config.json").write_text(text)
    with pytest.raises(MaxlabError) as raised:
        PipelineConfig(model_path=path)
    assert "config" in str(raised.value)


def test_code_of_a_folder_never_runs_unasked(tmp_path: Path) -> None:
    config = {**folders.LLAMA, "model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    path = folders.model(tmp_path / "m", config)
    marker = tmp_path / "ran"
    (tmp_path / "m" / "own.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    PipelineConfig(model_path=path)  # config.json is read as plain data
    assert not marker.exists()


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        (None, {}),
        ({}, {}),
        ({"temperature": 0.6, "top_p": 0.9}, {"temperature": 0.6, "top_p": 0.9}),
        ({"top_k": 20, "repetition_penalty": 1.1}, {"top_k": 20, "repetition_penalty": 1.1}),
        ({"max_new_tokens": 7, "eos_token_id": 3}, {"max_new_tokens": 7}),
        ({"do_sample": True}, {}),
        ({"top_k": 1000, "temperature": 0.5}, {"temperature": 0.5}),
    ],
)
def test_a_generation_config_gives_the_defaults(
    tmp_path: Path, generation: Any, expected: dict[str, Any]
) -> None:
    path = folders.model(tmp_path / "m", generation=generation)
    defaults = MAXModelConfig(model_path=path).sampling_params_defaults
    assert isinstance(defaults, SamplingParamsGenerationConfigDefaults)
    assert defaults.values_to_update == expected
    if generation:
        import transformers

        explicit = transformers.GenerationConfig.from_pretrained(path).to_diff_dict()
        for name, value in expected.items():
            assert explicit[name] == value


def test_a_default_that_no_request_may_have_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = folders.model(tmp_path / "m", generation={"top_k": 1000})
    with caplog.at_level(logging.WARNING, "maxlab.pipelines"):
        assert MAXModelConfig(model_path=path).sampling_params_defaults.top_k is None
    assert "top_k" in caplog.text


def test_a_broken_generation_config_is_a_typed_error(tmp_path: Path) -> None:
    path = folders.model(tmp_path / "m", generation="{")
    with pytest.raises(InputError, match="generation_config.json"):
        PipelineConfig(model_path=path)


def test_the_user_wins_over_the_model_and_the_model_over_the_class(tmp_path: Path) -> None:
    path = folders.model(tmp_path / "m", generation={"temperature": 0.2, "top_k": 50})
    model = PipelineConfig(model_path=path).model_config
    params = SamplingParams.from_input_and_generation_config(
        SamplingParamsInput(temperature=0.7),
        sampling_params_defaults=model.sampling_params_defaults,
    )
    assert (params.temperature, params.top_k, params.top_p) == (0.7, 50, 1.0)


@pytest.mark.parametrize(
    ("generation", "kwargs", "penalties", "least"),
    [
        ({}, {}, False, False),
        ({"repetition_penalty": 1.2}, {}, True, False),
        ({"min_new_tokens": 3}, {}, False, True),
        ({"repetition_penalty": 1.2}, {"do_penalties": False}, False, False),
    ],
)
def test_the_sampler_is_built_for_the_models_own_defaults(
    tmp_path: Path, generation: Any, kwargs: dict[str, Any], penalties: bool, least: bool
) -> None:
    path = folders.model(tmp_path / "m", generation=generation)
    config = PipelineConfig(model_path=path, **kwargs)
    sampling = config.sampling_config
    assert (sampling.do_penalties, sampling.enable_min_tokens) == (penalties, least)
    by_class = SamplingConfig.from_generation_config_sampling_defaults(
        config.model_config.sampling_params_defaults, **kwargs
    )
    assert by_class == sampling


def test_the_network_is_never_asked_for_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    def refuse(*args: object) -> None:
        raise AssertionError("the network is asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    path = folders.model(tmp_path / "m", generation={"top_k": 5})
    config = PipelineConfig(model_path=path)
    assert config.model_config.generation_config.top_k == 5
    assert config.model_config.default_device_spec == DeviceSpec.cpu()
    assert json.loads((tmp_path / "m" / "config.json").read_text()) == folders.LLAMA
