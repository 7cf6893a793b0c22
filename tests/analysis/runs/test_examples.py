"""The examples in the docstrings of runs do as printed."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = ["diff", "facts", "gate", "nodes", "noise", "pairs", "saved", "sweep"]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"maxlab.analysis.runs.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
