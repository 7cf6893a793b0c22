"""The examples in the docstrings of the diagnostics run as printed."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["context", "recorder", "stats"])
def test_docstring_examples(name: str) -> None:
    module = importlib.import_module(f"maxlab.diagnostics.gpu.{name}")
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
