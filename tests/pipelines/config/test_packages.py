"""Packages of language models are imported when needed, and named where they are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from maxlab.errors import MissingPackageError
from maxlab.pipelines.lib.config import KVCacheConfig, MAXModelConfig, PipelineConfig
from tests.pipelines.config import folders

_PROBE = """
import sys
from maxlab.pipelines.lib.config import KVCacheConfig, PipelineConfig
KVCacheConfig.from_arguments(KVCacheConfig(kv_cache_page_size=64).to_arguments())
PipelineConfig.help()
print(sorted({name.split(".")[0] for name in sys.modules} & set(sys.argv[1:])))
"""
HEAVY = ("gguf", "huggingface_hub", "jinja2", "torch", "transformers", "yaml", "zmq")


def test_configurations_import_no_heavy_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *HEAVY], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folders.model(tmp_path / "m")
    for name in ("yaml", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (
        lambda: KVCacheConfig.from_yaml("kv_cache_page_size: 64"),
        lambda: KVCacheConfig(kv_cache_page_size=64).to_yaml(),
        lambda: MAXModelConfig(model_path=path).huggingface_config,
        lambda: PipelineConfig(model_path=path),
    ):
        with pytest.raises(MissingPackageError, match=r"ML979[\s\S]*maxlab\[llm\]"):
            call()
    defaults = MAXModelConfig(model_path=path).sampling_params_defaults
    assert defaults.values_to_update == {}  # there is no generation_config.json
