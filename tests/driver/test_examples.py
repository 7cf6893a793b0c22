"""The examples in the docstrings of dtypes, toolchain and driver run as printed."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "maxlab.dtype",
    "maxlab.toolchain.units",
    "maxlab.driver.accelerator",
    "maxlab.driver.base",
    "maxlab.driver.device",
    "maxlab.driver.tensor",
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
