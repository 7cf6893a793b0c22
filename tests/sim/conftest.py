"""The .cu files of this folder as modules, each compiled once a run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from maxlab.driver.sim import SimModule

FOLDER = Path(__file__).parent


@functools.cache
def _module(name: str, check: bool) -> SimModule:
    return SimModule((FOLDER / name).read_text("utf-8"), check=check, name=name)


@pytest.fixture(scope="session")
def module() -> Callable[[str, bool], SimModule]:
    """Gives the module of a file, with checks or without."""
    return _module
