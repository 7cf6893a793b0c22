"""The configuration of a pipeline: where keywords go, what is refused, and what is chosen."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxlab.driver import DeviceSpec
from maxlab.engine import GPUProfilingMode, InferenceSession
from maxlab.errors import InputError, InputTypeError, MaxlabError, UnsupportedError
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import PipelineTask
from maxlab.nn.kv_cache import KVCacheStrategy
from maxlab.pipelines.lib import architectures
from maxlab.pipelines.lib.config import (
    AudioGenerationConfig,
    KVCacheConfig,
    LoRAConfig,
    MAXModelConfig,
    PipelineConfig,
    PrependPromptSpeechTokens,
    ProfilingConfig,
    SamplingConfig,
)
from maxlab.pipelines.lib.config_enums import RopeType, SupportedEncoding
from maxlab.pipelines.lib.settings import Origin, settings_of
from tests.pipelines.config import folders

PARTS = (PipelineConfig, MAXModelConfig, KVCacheConfig, SamplingConfig, ProfilingConfig, LoRAConfig)


# ---------------------------------------------------------------- routing
def test_no_two_configurations_have_a_setting_of_one_name() -> None:
    names = [name for part in PARTS for name in settings_of(part)]
    assert len(names) == len(set(names))
    assert not [name for name in names if name.startswith("draft_")]


ROUTED: dict[str, tuple[str, Any]] = {
    "max_batch_size": ("", 3),
    "served_model_name": ("model_config", "m"),
    "use_subgraphs": ("model_config", False),
    "kv_cache_page_size": ("model_config.kv_cache_config", 64),
    "enable_kvcache_swapping_to_host": ("model_config.kv_cache_config", True),
    "enable_min_tokens": ("sampling_config", True),
    "gpu_profiling": ("profiling_config", GPUProfilingMode.ON),
    "draft_served_model_name": ("draft_model_config", "d"),
    "draft_kv_cache_page_size": ("draft_model_config.kv_cache_config", 32),
    "max_lora_rank": ("lora_config", 8),
}


@settings(max_examples=20, deadline=None)
@given(st.sets(st.sampled_from(sorted(ROUTED))))
def test_keywords_go_to_the_configuration_that_has_them(tiny: str, names: set[str]) -> None:
    kwargs = {name: ROUTED[name][1] for name in names}
    if any(name.startswith("draft_") for name in names):
        kwargs["draft_model_path"] = tiny
    if "max_lora_rank" in names:
        kwargs["enable_lora"] = True
    before = dict(kwargs)
    config = PipelineConfig(model_path=tiny, **kwargs)
    assert kwargs == before
    for name, (where, value) in ROUTED.items():
        owner: Any = config
        for part in filter(None, where.split(".")):
            owner = getattr(owner, part, None)
        if name in names:
            assert getattr(owner, name.removeprefix("draft_")) == value
            assert config.origin(name) is Origin.user
        elif owner is not None and name != "max_batch_size":
            assert getattr(owner, name.removeprefix("draft_")) != value
    assert (config.draft_model_config is not None) == ("draft_model_path" in kwargs)
    assert (config.lora_config is not None) == ("max_lora_rank" in names)


def test_a_part_may_be_given_whole(tiny: str) -> None:
    sampling = SamplingConfig(do_penalties=True)
    config = PipelineConfig(model_config=MAXModelConfig(model_path=tiny), sampling_config=sampling)
    assert config.sampling_config is sampling
    assert config.model_config.model_path == tiny


@pytest.mark.parametrize(
    ("kwargs", "code", "told"),
    [
        ({"max_batchsize": 3}, "ML125", "did you mean max_batch_size"),
        ({"draft_model_pth": "x"}, "ML125", "draft_model_path"),
        ({"cache_page_size": 3}, "ML125", "kv_cache_page_size"),
        ({"x" * 10**6: 3}, "ML125", "help()"),
        (
            {"max_batch_size": 0},
            "ML981",
            "max_batch_size: an int in [1, 2147483647]",
        ),
        ({"max_batch_size": "3"}, "ML980", "PipelineConfig.max_batch_size"),
        ({"max_length": -1}, "ML981", "PipelineConfig.max_length"),
        ({"max_length": 257}, "ML981", "at most 256"),
        ({"max_num_steps": -2}, "ML981", "PipelineConfig.max_num_steps"),
        ({"pdl_level": 1}, "ML980", "PipelineConfig.pdl_level"),
        ({"use_vendor_blas": "True"}, "ML981", "'false', 'true'"),
        ({"zmq_endpoint_base": "tcp://1.2.3.4:5"}, "ML981", "ipc://"),
        ({"pipeline_role": "both"}, "ML981", "prefill_and_decode"),
        ({"ep_size": 2}, "ML981", "PipelineConfig.ep_size"),
        ({"draft_served_model_name": "x"}, "ML982", "draft_model_path"),
        ({"max_lora_rank": 8}, "ML982", "enable_lora"),
        ({"lora_paths": ["a"]}, "ML982", "enable_lora"),
        ({"enable_lora": True, "lora_paths": ["a", "b"]}, "ML982", "max_num_loras"),
        ({"model": "other"}, "ML982", "model_path"),
        ({"sampling_config": {}}, "ML980", "SamplingConfig"),
        ({"do_penalties": True, "sampling_config": SamplingConfig()}, "ML982", "do_penalties"),
        ({"model_config": MAXModelConfig()}, "ML982", "model_path"),
        ({"device_specs": [DeviceSpec.accelerator(77)]}, "ML410", "gpu:77"),
        ({"chat_template": "/no/such.jinja"}, "ML136", "/no/such.jinja"),
        ({"custom_architectures": ["no_such_module_of_this_name"]}, "ML133", "no_such_module"),
        ({"quantization_encoding": "bfloat16"}, "ML131", "float32"),
        ({"quantization_encoding": "q4_k"}, "ML131", "float32"),
        ({"weight_path": ["other.safetensors"]}, "ML", "other.safetensors"),
        ({"allow_safetensors_weights_fp32_bf6_bidirectional_cast": True}, "ML982", "encoding"),
    ],
)
def test_what_cannot_be_is_refused(tiny: str, kwargs: dict[str, Any], code: str, told: str) -> None:
    with pytest.raises(MaxlabError) as raised:
        PipelineConfig(model_path=tiny, **kwargs)
    assert isinstance(raised.value, (ValueError, TypeError, FileNotFoundError))
    assert raised.value.code.startswith(code)
    assert told in str(raised.value)
    assert len(str(raised.value)) < 800


def test_a_model_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ML130"):
        PipelineConfig()
    with pytest.raises(MaxlabError):
        PipelineConfig(model_path=str(tmp_path))


def test_assignments_are_checked_as_arguments_are(tiny: str) -> None:
    config = PipelineConfig(model_path=tiny)
    with pytest.raises(InputError, match=r"PipelineConfig\.max_batch_size"):
        config.max_batch_size = 0
    with pytest.raises(InputError, match="did you mean max_batch_size"):
        config.max_batchsize = 3
    with pytest.raises(AttributeError):
        config.model_config = MAXModelConfig()  # type: ignore[misc]
    config.max_batch_size = 5
    assert config.max_batch_size == 5
    assert config.origin("max_batch_size") is Origin.user


EVERY = {
    f"{place.owner.__name__}.{place.name}": place
    for place in AudioGenerationConfig._places().values()
    if not place.section.startswith("draft_")
}
"""Every setting that there is."""


@pytest.mark.parametrize("name", EVERY)
def test_every_setting_refuses_what_it_does_not_take(name: str) -> None:
    place = EVERY[name]
    made: Any = place.owner.__new__(place.owner)
    for value in (object(), "\0", -(10**400), [[]], {1: 2}):
        with pytest.raises((InputError, InputTypeError), match=re.escape(name)) as raised:
            setattr(made, place.name, value)
        assert raised.value.code in ("ML980", "ML981")
        assert "expected ≠" in str(raised.value)
        assert place.name not in vars(made)


def test_every_setting_has_a_help_of_its_own() -> None:
    told = [place.setting.help for place in EVERY.values()]
    assert len(set(told)) == len(told)
    assert all(text.endswith(".") for text in told)
    assert set(PipelineConfig.help()) == set(PipelineConfig._places())
    for kind in PARTS:
        assert set(settings_of(kind)) <= set(kind.help())


# ---------------------------------------------------------------- resolving
def test_what_nobody_decides_is_chosen(tiny: str) -> None:
    config = PipelineConfig(model_path=tiny)
    model = config.model_config
    assert config.max_num_steps == 1
    assert config.max_length == 256
    assert config.max_batch_size == 512
    assert model.quantization_encoding is SupportedEncoding.float32
    assert model.weight_path == [Path("model.safetensors")]
    assert model.kv_cache_config.cache_strategy is KVCacheStrategy.PAGED
    assert config.graph_quantization_encoding is None
    names = ("max_num_steps", "max_length", "weight_path", "cache_strategy")
    assert {config.origin(name) for name in names} == {Origin.resolved}
    assert config.to_arguments() == [f"--model-path={tiny}"]
    before = copy.deepcopy(config)
    config.resolve()
    assert config == before
    assert PipelineConfig(model_path=tiny, max_num_steps=4).max_num_steps == 4


def test_configurations_travel_and_are_told_apart_by_their_endpoints(tiny: str) -> None:
    one = PipelineConfig(model_path=tiny, kv_cache_page_size=64)
    other = PipelineConfig(model_path=tiny, kv_cache_page_size=64)
    assert one == other
    assert one.zmq_endpoint_base != other.zmq_endpoint_base
    assert len(f"{one.zmq_endpoint_base}-lora_response") < 107
    assert one.model_config.huggingface_config.vocab_size == 96  # read, and not sent
    text = pickle.dumps(one)
    assert b"LlamaConfig" not in text
    again = pickle.loads(text)
    assert again == one
    assert again.zmq_endpoint_base == one.zmq_endpoint_base
    assert again.origin("kv_cache_page_size") is Origin.user
    assert again.model_config.huggingface_config.vocab_size == 96


def test_a_chat_template_is_read_from_its_file(tiny: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.jinja"
    for text, told in [
        ("{{ messages }}", "{{ messages }}"),
        (json.dumps({"chat_template": "{{ a }}"}), "{{ a }}"),
        ('{"other": 1}', '{"other": 1}'),
        ("[1]", "[1]"),
    ]:
        path.write_text(text)
        assert PipelineConfig(model_path=tiny, chat_template=path).retrieve_chat_template() == told
    assert PipelineConfig(model_path=tiny).retrieve_chat_template() is None
    config = PipelineConfig(model_path=tiny, chat_template=str(path))
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match="ML136"):
        config.retrieve_chat_template()


def test_environment_variables_are_defaults(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_LEVEL", "1")
    monkeypatch.setenv("MODULAR_ENABLE_PROFILING", "detailed")
    config = PipelineConfig(model_path=tiny)
    assert config.pdl_level == "1"
    assert config.origin("gpu_profiling") is Origin.environment
    assert (
        ProfilingConfig(gpu_profiling=GPUProfilingMode.OFF).origin("gpu_profiling") is Origin.user
    )
    for text, mode in (("1", GPUProfilingMode.ON), ("0", GPUProfilingMode.OFF)):
        monkeypatch.setenv("MODULAR_ENABLE_PROFILING", text)
        assert ProfilingConfig().gpu_profiling is mode
    monkeypatch.setenv("PDL_LEVEL", "9")
    with pytest.raises(InputError, match=r"PDL_LEVEL"):
        PipelineConfig(model_path=tiny)


def test_a_session_is_configured(tiny: str, caplog: pytest.LogCaptureFixture) -> None:
    modes: list[GPUProfilingMode] = []
    session: Any = SimpleNamespace(gpu_profiling=modes.append)
    config = PipelineConfig(model_path=tiny, gpu_profiling="on", use_vendor_blas="true")
    config.configure_session(session)
    config.configure_session(session)
    told = [one for one in caplog.records if "use_vendor_blas=true has no effect" in one.message]
    assert len(told) <= 1  # once a process
    PipelineConfig(model_path=tiny).configure_session(session)
    assert modes == [GPUProfilingMode.ON, GPUProfilingMode.ON, GPUProfilingMode.OFF]
    PipelineConfig(model_path=tiny).configure_session(InferenceSession())


# ---------------------------------------------------------------- architectures
class Model:
    """What a configuration asks of the class of an architecture's models."""

    @classmethod
    def calculate_max_seq_len(cls, pipeline_config: Any, huggingface_config: Any) -> int:
        return min(pipeline_config.max_length or 100, 100)

    @classmethod
    def infer_optimal_batch_size(cls, *args: Any) -> int:
        return 7

    @classmethod
    def estimate_activation_memory(cls, pipeline_config: Any, huggingface_config: Any) -> int:
        return 12345


def architecture(**changed: Any) -> Any:
    """An architecture of the tiny Llama."""
    parts = {
        "name": "LlamaForCausalLM",
        "default_encoding": SupportedEncoding.float32,
        "supported_encodings": {SupportedEncoding.float32: [KVCacheStrategy.PAGED]},
        "pipeline_model": Model,
        "task": PipelineTask.TEXT_GENERATION,
        "default_weights_format": WeightsFormat.safetensors,
        "rope_type": RopeType.neox,
        "multi_gpu_supported": False,
        "required_arguments": {},
        "supports_empty_batches": False,
    }
    return SimpleNamespace(**{**parts, **changed})


@pytest.fixture
def registered() -> Iterator[Any]:
    """A registry with one architecture, which a test may set."""
    found: Any = SimpleNamespace(architecture=architecture())
    found.retrieve_architecture = lambda repo: found.architecture
    found.get_active_huggingface_config = architectures_config
    before = architectures.registry()
    architectures.use_registry(found)
    yield found
    architectures.use_registry(before)


def architectures_config(repo: Any) -> Any:
    """The configuration of Hugging Face in a folder."""
    return SimpleNamespace(**folders.LLAMA)


def test_an_architecture_decides(tiny: str, registered: Any) -> None:
    registered.architecture = architecture(required_arguments={"kv_cache_page_size": 256})
    config = PipelineConfig(model_path=tiny)
    assert config.max_length == 100
    assert config.max_batch_size == 7
    assert config.model_config.rope_type is RopeType.neox
    assert config.model_config.kv_cache_config.kv_cache_page_size == 256
    assert config.origin("kv_cache_page_size") is Origin.resolved
    assert config.estimate_memory().activations == 12345
    assert config.estimate_memory().per_token == 0  # its models have no cache
    assert config.model_config.kv_cache_config.available_cache_memory == 0
    forced = PipelineConfig(model_path=tiny, force=True)
    assert forced.model_config.kv_cache_config.kv_cache_page_size == 128


@pytest.mark.parametrize(
    ("changed", "kwargs", "told"),
    [
        ({}, {"execute_empty_batches": True}, "takes no empty batches"),
        ({"supported_encodings": {SupportedEncoding.q4_k: []}}, {}, "runs q4_k"),
        (
            {"supported_encodings": {SupportedEncoding.bfloat16: []}},
            {"quantization_encoding": "float32"},
            "bfloat16",
        ),
    ],
)
def test_an_architecture_refuses(
    tiny: str, registered: Any, changed: dict[str, Any], kwargs: dict[str, Any], told: str
) -> None:
    registered.architecture = architecture(**changed)
    with pytest.raises(InputError, match=told):
        PipelineConfig(model_path=tiny, **kwargs)


def test_several_gpus_need_an_architecture_for_them() -> None:
    config = MAXModelConfig(device_specs=[DeviceSpec.accelerator(n) for n in range(2)])
    config.validate_multi_gpu_supported(True)
    with pytest.raises(InputError, match="ML134"):
        config.validate_multi_gpu_supported(False)
    MAXModelConfig(
        device_specs=[DeviceSpec.cpu(0), DeviceSpec.cpu(1)]
    ).validate_multi_gpu_supported(False)


def test_the_log_tells_the_pipeline(
    tiny: str, registered: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = PipelineConfig(model_path=tiny, served_model_name="tiny")
    with caplog.at_level(logging.INFO, "maxlab.pipelines"):
        config.log_basic_config()
    told = "\n".join(one.message for one in caplog.records)
    for part in ("tiny", "LlamaForCausalLM", "text_generation", "max_batch_size  7", "float32"):
        assert part in told
    caplog.clear()
    with caplog.at_level(logging.INFO, "maxlab.pipelines"):
        config.log_pipeline_info()
    assert "kv_cache_page_size" in "\n".join(one.message for one in caplog.records)
    registered.architecture = None
    with pytest.raises(InputError, match="ML134"):
        config.log_basic_config()


# ---------------------------------------------------------------- draft models
def test_sections_of_a_file_may_be_those_of_a_draft_model(tiny: str) -> None:
    text = f"""
model_config: {{model_path: '{tiny}'}}
draft_model_config:
  model_path: '{tiny}'
draft_kv_cache_config:
  kv_cache_page_size: 32
"""
    config = PipelineConfig.from_yaml(text)
    assert config.draft_model_config is not None
    assert config.draft_model_config.kv_cache_config.kv_cache_page_size == 32
    assert config.model_config.kv_cache_config.kv_cache_page_size == 128
    assert str(config.origin("draft_kv_cache_page_size")) == "file"
    assert PipelineConfig.from_arguments(config.to_arguments()) == config
    assert "Draft model: " in PipelineConfig.argument_parser().format_help()


def test_a_draft_model_shares_the_memory_and_the_tokens(tiny: str, tmp_path: Path) -> None:
    config = PipelineConfig(
        model_path=tiny, draft_model_path=tiny, enable_prefix_caching=True, max_length=64
    )
    assert config.draft_model_config is not None
    assert config.sampling_config.enable_variable_logits
    assert not config.model_config.kv_cache_config.enable_prefix_caching
    alone = PipelineConfig(model_path=tiny).estimate_memory()
    assert config.estimate_memory().budget < 0.75 * alone.budget
    other = folders.model(tmp_path / "other", {**folders.LLAMA, "vocab_size": 97})
    with pytest.raises(InputError, match=r"97 tokens[\s\S]*ML138"):
        PipelineConfig(model_path=tiny, draft_model_path=other)
    with pytest.raises(InputError, match="enable_echo"):
        PipelineConfig(model_path=tiny, draft_model_path=tiny, enable_echo=True)


# ---------------------------------------------------------------- audio
def test_audio_has_settings_of_its_own(tiny: str) -> None:
    config = AudioGenerationConfig(
        "decoder", "weights.bin", chunk_size=8, model_path=tiny, buffer=2
    )
    assert (config.audio_decoder, config.audio_decoder_weights) == ("decoder", "weights.bin")
    assert config.chunk_size == [8]
    assert config.prepend_prompt_speech_tokens is PrependPromptSpeechTokens.ONCE
    assert config.origin("audio_decoder") is Origin.user
    assert config.origin("max_queue_size_tg") is Origin.default
    flags = {"audio_decoder": "decoder", "chunk_size": "4,8", "buffer": "3"}
    by_flags = AudioGenerationConfig.from_flags(flags, model_path=tiny, max_length=9)
    assert (by_flags.chunk_size, by_flags.buffer, by_flags.max_length) == ([4, 8], 3, 9)
    assert by_flags.origin("buffer") is Origin.flags
    assert flags == {"audio_decoder": "decoder", "chunk_size": "4,8", "buffer": "3"}
    assert AudioGenerationConfig.from_arguments(by_flags.to_arguments()) == by_flags
    assert pickle.loads(pickle.dumps(by_flags)) == by_flags


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ({}, "ML129"),
        ({"audio_decoder": "d", "bufer": "1"}, "ML125"),
        ({"audio_decoder": "d", "max_length": "1"}, "ML125"),
        ({"audio_decoder": "d", "buffer": "x"}, "ML126"),
        ({"audio_decoder": "d", "buffer": 1}, "ML980"),
        ({"audio_decoder": "d", "chunk_size": "4,0"}, "ML981"),
        ({"audio_decoder": "d", "prepend_prompt_speech_tokens": "always"}, "ML126"),
    ],
)
def test_flags_of_audio_are_checked(tiny: str, flags: dict[str, Any], code: str) -> None:
    with pytest.raises((InputError, InputTypeError)) as raised:
        AudioGenerationConfig.from_flags(flags, model_path=tiny)
    assert raised.value.code == code


@pytest.mark.parametrize("name", ["block_causal", "prepend_prompt_speech_tokens_causal"])
def test_causal_audio_is_not_in_this_version(tiny: str, name: str) -> None:
    asked: dict[str, Any] = {name: True}
    with pytest.raises(UnsupportedError, match="ML127"):
        AudioGenerationConfig("d", model_path=tiny, **asked)


# ---------------------------------------------------------------- showing
def test_configurations_show_values_and_where_they_came_from(tiny: str) -> None:
    config = PipelineConfig(model_path=tiny, served_model_name="<b>&", kv_cache_page_size=64)
    text, page = str(config), config._repr_html_()
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "* kv_cache_page_size 64 user" in lines
    assert "* max_length 256 resolved" in lines
    assert "prefill_chunk_size 8192 default" in lines
    assert "enable_echo False default; not read yet" in lines
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page
    assert "user (default 128)" in page
    for word in ("http", "<script", "<img"):
        assert word not in page.replace("kv_cache", "")
    for name in settings_of(KVCacheConfig):
        assert page.count(f"{name}</td>") == 1
    assert repr(config).startswith(f"PipelineConfig(model_path={tiny!r}, served_model_name=")
