"""The tables of the prelude are what ``kernels/c/tables.py`` finds."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType

import numpy as np
import pytest

from tests.kernels_c.conftest import SOURCES, sections

NAMES = ("erf", "normal", "sigmoid", "tanh_sigmoid")
_TABLE = re.compile(r"mx_(\w+)_table\[(\d+)\]\[16\][^=]*=(.*?);", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?=f)")


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", SOURCES / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tables"] = module
    spec.loader.exec_module(module)
    return module


def written(name: str) -> np.ndarray:
    """The rows of a table as they stand in the prelude."""
    match = _TABLE.search(sections()[f"{name}_table"][1])
    assert match is not None
    assert match[1] == name
    numbers = np.array([float(n) for n in _NUMBER.findall(match[3])])
    return numbers.reshape(int(match[2]), 16)


def test_every_table_has_a_section(tables: ModuleType) -> None:
    assert sorted(tables.TABLES) == sorted(NAMES)
    found = {name for name in sections() if name.endswith("_table")}
    assert found == {f"{name}_table" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_are_those_that_are_found(tables: ModuleType, name: str) -> None:
    """A coefficient counts as much as it adds to the function at the end of its piece."""
    numbers, made = written(name), np.array(tables.rows(name))
    assert numbers.shape == made.shape
    np.testing.assert_allclose(numbers[:2], made[:2], rtol=1e-7)
    for k, piece in enumerate(tables.TABLES[name].pieces):
        half = (piece.high - piece.low) / 2 * (2 if piece.low == 0 else 1.5)
        size = half ** np.arange(len(made) - 2)
        assert (np.abs(numbers[2:, k] - made[2:, k]) * size).max() < 2.0**-24


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_off_by_little_of_a_unit(tables: ModuleType, name: str) -> None:
    errors = tables.errors(name, written(name).tolist())
    assert 0 < max(errors) < 0.3 * 2.0**-24


def test_another_number_in_a_table_is_noticed(tables: ModuleType) -> None:
    numbers = written("erf")
    numbers[4, 2] += 1e-4
    assert max(tables.errors("erf", numbers.tolist())) > 2.0**-24


@pytest.mark.parametrize("name", NAMES)
def test_the_function_of_a_middle_is_nearly_a_float(tables: ModuleType, name: str) -> None:
    table, numbers = tables.TABLES[name], written(name)
    for k, piece in enumerate(table.pieces):
        if not piece.near and piece.low > 0:
            assert piece.low < numbers[0, k] < piece.high
            exact = float(table.function(numbers[:1, k])[0])
            assert abs(numbers[1, k] / exact - 1) < 2.0**-28
