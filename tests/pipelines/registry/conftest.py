"""A registry of each test's own, which configurations are resolved by."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.registry import PipelineRegistry

OF_TESTS = {"bag_of_words", "mine", "other", "package", "short"}


@pytest.fixture
def registry() -> Iterator[PipelineRegistry]:
    """An empty registry in place of the one that pipelines use."""
    before, mine = current(), PipelineRegistry([])
    use_registry(mine)
    yield mine
    use_registry(before)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Puts modules, and the places of modules, back as they were."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.split(".")[0] in OF_TESTS:
            del sys.modules[name]
