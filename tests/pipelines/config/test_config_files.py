"""Configurations in YAML files and on command lines: what is read, and hostile ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maxlab.driver import DeviceSpec
from maxlab.errors import DocumentError, FileError, InputError, InputTypeError, MaxlabError
from maxlab.nn.kv_cache import KVCacheStrategy
from maxlab.pipelines.lib import config_files
from maxlab.pipelines.lib.config import (
    AudioGenerationConfig,
    KVCacheConfig,
    LoRAConfig,
    MAXModelConfig,
    PipelineConfig,
    ProfilingConfig,
)
from maxlab.pipelines.lib.settings import Origin
from tests.pipelines.config.test_settings import VALUES

BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"
HOSTILE = {
    "a tag of Python": "lora_paths: !!python/object/apply:os.system ['touch owned']",
    "a tag of a module": "max_num_loras: !!python/name:os.system",
    "a tag of its own": "max_num_loras: !count 3",
    "a plain tag": "max_num_loras: !!int 3",
    "an anchor": "max_num_loras: &a 3",
    "an alias": "a: &a 3\nmax_num_loras: *a",
    "a bomb of aliases": BOMB,
    "a merge": "base: &b {max_num_loras: 3}\nlora_config:\n  <<: *b",
    "two documents": "max_num_loras: 3\n---\nmax_num_loras: 4",
    "a list": "- max_num_loras",
    "a scalar": "max_num_loras",
    "a section that is a list": "lora_config: [1]",
    "a name that is a list": "? [a, b]\n: 3",
    "set twice": "max_num_loras: 3\nmax_num_loras: 4",
    "set in two places": "max_num_loras: 3\nlora_config:\n  max_num_loras: 4",
    "depth": "[" * 5000,
    "deep mappings": "a: " + "{a: " * 40 + "1" + "}" * 40,
    "a broken quote": "lora_paths: ['a",
    "a tab": "lora_config:\n\tmax_num_loras: 3",
    "NUL": "max_num_loras: \0",
    "a control character": "max_num_loras: \x07",
    "a lone surrogate": "max_num_loras: '\ud800'",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MaxlabError) as raised:
        LoRAConfig.from_yaml(HOSTILE[name])
    assert isinstance(raised.value, DocumentError)
    assert raised.value.code == "ML128"
    assert len(str(raised.value)) < 500
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=60))
def test_any_text_is_a_configuration_or_a_typed_error(text: str) -> None:
    try:
        found = LoRAConfig.from_yaml(text)
    except MaxlabError:
        return
    assert isinstance(found, LoRAConfig)


def test_a_file_that_is_too_large_or_none_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (config_files.MOST_BYTES + 1))
    for path, code in ((large, "ML004"), (tmp_path, "ML001"), (tmp_path / "no", "ML002")):
        with pytest.raises(FileError) as raised:
            KVCacheConfig.from_config_file(path)
        assert raised.value.code == code
    (tmp_path / "latin.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(FileError, match="UTF-8"):
        KVCacheConfig.from_config_file(tmp_path / "latin.yaml")


@pytest.mark.parametrize(
    ("kind", "text", "name", "value"),
    [
        (ProfilingConfig, "gpu_profiling: off", "gpu_profiling", "off"),
        (ProfilingConfig, "gpu_profiling: on", "gpu_profiling", "on"),
        (LoRAConfig, "enable_lora: yes", "enable_lora", True),
        (LoRAConfig, "enable_lora: 'true'", "enable_lora", True),
        (KVCacheConfig, "cache_strategy: paged", "cache_strategy", KVCacheStrategy.PAGED),
        (KVCacheConfig, "device_memory_utilization: 1e-1", "device_memory_utilization", 0.1),
        (KVCacheConfig, "kv_cache_config:\n  kv_cache_page_size: 64", "kv_cache_page_size", 64),
        (MAXModelConfig, "kv_cache_config: {kv_cache_page_size: 64}", "model_path", ""),
        (MAXModelConfig, "model_path: 0123", "model_path", "0123"),
        (MAXModelConfig, "huggingface_model_revision: 1e10", "huggingface_model_revision", "1e10"),
        (MAXModelConfig, "served_model_name: ~", "served_model_name", None),
        (MAXModelConfig, "served_model_name: 'null'", "served_model_name", "null"),
        (MAXModelConfig, "device_specs: [gpu:0]", "device_specs", [DeviceSpec.accelerator()]),
        (MAXModelConfig, "device_specs: cpu", "device_specs", [DeviceSpec.cpu()]),
        (MAXModelConfig, "weight_path: []", "weight_path", []),
        (
            MAXModelConfig,
            "vision_config_overrides: {a: 1, b: [yes, 'no', 1.5, null, true], c: {d: x}}",
            "vision_config_overrides",
            {"a": 1, "b": ["yes", "no", 1.5, None, True], "c": {"d": "x"}},
        ),
        (LoRAConfig, "", "max_num_loras", 1),
        (LoRAConfig, "# nothing\n", "max_num_loras", 1),
        (LoRAConfig, "---\n", "max_num_loras", 1),
    ],
)
def test_yaml_is_read_as_the_setting_means_it(
    kind: Any, text: str, name: str, value: object
) -> None:
    found = getattr(kind.from_yaml(text), name)
    assert getattr(found, "value", found) == getattr(value, "value", value)


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("kv_cache_pagesize: 3", "ML125", "kv_cache_page_size"),
        ("kv_cache_confg: {}", "ML125", "kv_cache_config"),
        ("kv_cache_config: {page_size: 3}", "ML125", "kv_cache_page_size"),
        ("kv_cache_page_size: many", "ML126", "KVCacheConfig.kv_cache_page_size"),
        ("kv_cache_page_size: 0", "ML981", "[1, 2147483647]"),
        ("kv_cache_page_size: ~", "ML980", "an int"),
        ("kv_cache_page_size: [3]", "ML980", "expected"),
        ("kv_cache_page_size: {a: 3}", "ML980", "expected"),
        ("kv_cache_page_size: 3.5", "ML126", "3.5"),
        ("weight_path: [[a]]", "ML980", "weight_path"),
    ],
)
def test_yaml_that_fits_no_setting_is_refused(text: str, code: str, told: str) -> None:
    with pytest.raises((InputError, InputTypeError)) as raised:
        MAXModelConfig.from_yaml(text)
    assert raised.value.code == code
    assert told in str(raised.value)


# ---------------------------------------------------------------- round trips
def _settings_of_a_user() -> st.SearchStrategy[dict[str, Any]]:
    """Settings of a pipeline that neither the machine nor the files of the tiny model refuse."""
    counts = st.integers(1, 10**6)
    possible: dict[str, st.SearchStrategy[Any]] = {
        "max_batch_size": st.none() | st.integers(1, 4),
        "max_length": st.none() | st.integers(1, 256),
        "max_queue_size_tg": st.none() | counts,
        "ce_delay_ms": VALUES["open"],
        "prefill_chunk_size": counts,
        "enable_echo": st.booleans(),
        "pool_embeddings": st.booleans(),
        "pdl_level": VALUES["words"],
        "zmq_endpoint_base": st.sampled_from(["ipc:///tmp/a", "ipc://b"]),
        "served_model_name": st.none() | VALUES["text"].filter(bool),
        "trust_remote_code": st.booleans(),
        "vision_config_overrides": VALUES["mapping"],
        "kv_cache_page_size": st.integers(1, 256),
        "device_memory_utilization": st.floats(0.5, 1),
        "enable_prefix_caching": st.booleans(),
        "in_dtype": VALUES["dtype"],
        "do_penalties": st.booleans(),
        "gpu_profiling": VALUES["mode"],
    }
    names = st.lists(st.sampled_from(sorted(possible)), max_size=6, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({n: possible[n] for n in chosen}))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_settings_of_a_user())
def test_flags_and_yaml_say_the_same_configuration(
    tiny: str, given_settings: dict[str, Any]
) -> None:
    config = PipelineConfig(model_path=tiny, **given_settings)
    by_flags = PipelineConfig.from_arguments(config.to_arguments())
    by_yaml = PipelineConfig.from_yaml(config.to_yaml())
    again = PipelineConfig.from_arguments(by_flags.to_arguments())
    for other in (by_flags, by_yaml, again):
        assert other == config
        assert other.to_arguments() == config.to_arguments()
    for name, value in given_settings.items():
        if value is None and name in ("max_batch_size", "max_length"):
            continue  # chosen by the memory
        assert getattr(config._part(config._places()[name].section), name) == value
        assert by_flags.origin(name) is Origin.flags
        assert by_yaml.origin(name) is Origin.file
        assert config.origin(name) is Origin.user


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--kv-cache-page-size", "64"], "kv_cache_page_size", 64),
        (["--kv-cache-page-size=64"], "kv_cache_page_size", 64),
        (["--enable-prefix-caching"], "enable_prefix_caching", True),
        (["--enable-prefix-caching", "false"], "enable_prefix_caching", False),
        (["--no-enable-prefix-caching"], "enable_prefix_caching", False),
        (["--weight-path=a", "--weight-path", "b"], "weight_path", [Path("a"), Path("b")]),
        (["--weight-path="], "weight_path", []),
        (["--served-model-name="], "served_model_name", None),
        (["--served-model-name=-x"], "served_model_name", "-x"),
        (["--device-specs", "gpu:0", "--device-specs=gpu:1"], "device_specs",
         [DeviceSpec.accelerator(0), DeviceSpec.accelerator(1)]),
        (["--vision-config-overrides", '{"a": 1}'], "vision_config_overrides", {"a": 1}),
    ],
)  # fmt: skip
def test_flags_are_read(words: list[str], name: str, value: object) -> None:
    config = MAXModelConfig.from_arguments(words)
    found = getattr(config if hasattr(config, name) else config.kv_cache_config, name)
    assert found == value
    assert config.origin(name) is Origin.flags


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--kv-cache-pagesize", "64"], "ML125", "--kv-cache-page-size"),
        (["--kv-cache"], "ML125", "--kv-cache-page-size"),
        (["--kv-cache-page-size"], "ML129", "expected one argument"),
        (["--kv-cache-page-size", "many"], "ML126", "--kv-cache-page-size"),
        (["--kv-cache-page-size", "0"], "ML981", "[1, 2147483647]"),
        (["stray"], "ML129", "'stray'"),
        (["--enable-prefix-caching=perhaps"], "ML126", "perhaps"),
        ("--kv-cache-page-size", "ML980", "a list"),
        ([3], "ML980", "arguments[0]"),
        (["--config-file", "/no/such.yaml"], "ML002", "/no/such.yaml"),
    ],
)
def test_flags_that_cannot_be_read_are_refused(words: Any, code: str, told: str) -> None:
    with pytest.raises(MaxlabError) as raised:
        MAXModelConfig.from_arguments(words)
    assert raised.value.code == code
    assert told in str(raised.value)


def test_flags_win_over_a_file_and_a_file_over_the_environment(
    tmp_path: Path, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDL_LEVEL", "1")
    monkeypatch.setenv("USE_EXPERIMENTAL_KERNELS", "true")
    monkeypatch.setenv("MAX_SERVE_USE_VENDOR_BLAS", "true")
    path = tmp_path / "config.yaml"
    path.write_text(f"model_path: '{tiny}'\npdl_level: 2\nuse_vendor_blas: 'false'\nmax_length: 9")
    config = PipelineConfig.from_arguments(
        ["--config-file", str(path), "--pdl-level=3", "--max-length=8"], max_length=7
    )
    got = {
        name: (getattr(config, name), str(config.origin(name)))
        for name in ("pdl_level", "use_vendor_blas", "use_experimental_kernels", "max_length")
    }
    assert got == {
        "pdl_level": ("3", "command line"),
        "use_vendor_blas": ("false", "file"),
        "use_experimental_kernels": ("true", "environment"),
        "max_length": (7, "user"),
    }
    assert config.to_yaml().count("use_experimental_kernels") == 1
    assert PipelineConfig.from_config_file(path, max_length=5).max_length == 5


def test_the_help_of_a_command_names_every_flag() -> None:
    told = AudioGenerationConfig.argument_parser("serve").format_help()
    assert told.startswith("usage: serve")
    for name in AudioGenerationConfig.help():
        assert f"--{name.replace('_', '-')}" in told
