"""The names of ``maxlab.pipelines``: each found when it is asked for, and light until then."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import maxlab.pipelines
from maxlab.errors import MissingNameError

PROGRAM = """
import sys
import maxlab.pipelines, maxlab.pipelines.nn
heavy = {"msgspec", "transformers", "torch", "huggingface_hub", "jinja2", "tokenizers"}
print(sorted(heavy & set(sys.modules)))
from maxlab.pipelines import PIPELINE_REGISTRY, PipelineConfig, TextTokenizer
print(sorted((heavy - {"msgspec"}) & set(sys.modules)))
"""


@pytest.mark.parametrize("name", maxlab.pipelines.__all__)
def test_a_name_is_that_of_its_module(name: str) -> None:
    module = importlib.import_module(maxlab.pipelines._MODULE_OF[name])
    assert getattr(maxlab.pipelines, name) is getattr(module, name)
    assert name in dir(maxlab.pipelines)


def test_heavy_packages_wait_until_they_are_needed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["[]", "[]", ""]


def test_a_name_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(MissingNameError, match="PipelineConfig"):
        maxlab.pipelines.PipelinesConfig  # noqa: B018
