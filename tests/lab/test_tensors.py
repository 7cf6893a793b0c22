"""What a notebook is given of a tensor: words, a page with a histogram, and a magic with counts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import maxlab
from maxlab.dtype import DType
from maxlab.experimental.statistics import Stats
from maxlab.experimental.tensor import Tensor
from maxlab.graph import Graph, TensorType
from maxlab.lab import tensors

SPECIAL = np.array([1, 2, 2, 3, np.nan, np.inf, -np.inf, np.nan], np.float32)


def test_the_forms_of_a_tensor() -> None:
    """Reading any of them computes it, once."""
    x = Tensor.from_dlpack(SPECIAL) * 1
    data = x._repr_mimebundle_()
    assert x.real
    assert set(data) == {"text/plain", "text/html"}
    assert data["text/plain"] == repr(x)
    assert "dtype float32, shape (8,), device cpu:0" in data["text/html"]
    assert set(x._repr_mimebundle_(include=["text/html"])) == {"text/html"}
    assert set(x._repr_mimebundle_(exclude=["text/html"])) == {"text/plain"}


def test_a_histogram_counts_what_is_no_number() -> None:
    page = tensors.histogram(Tensor.from_dlpack(SPECIAL) + 0)
    assert "2 NaN, 1 +inf, 1 -inf" in page
    (label,) = re.findall(r'aria-label="([^"]*)"', page)
    assert label.startswith("histogram from 1 to 3: ")
    assert sum(map(int, label.partition(": ")[2].split(", "))) == 4


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array([True, False, True]), "0 … 1, mean 0.6667"),
        (np.array([7, 7], np.int64), "7 … 7, mean 7"),
        (np.array([np.nan, np.nan], np.float32), "2 NaN"),
        (np.array([-1.7e308, 1.7e308]), "-1.7e+308 … 1.7e+308"),
        (np.zeros((0, 3), np.float32), ""),
        (np.float32(3) * np.ones(()), ""),
    ],
)
def test_histograms_of_unusual_tensors(array: np.ndarray, said: str) -> None:
    x = Tensor.from_dlpack(np.asarray(array))
    page = tensors.histogram(x + x * 0 if array.dtype.kind == "f" else x)
    assert said in page
    assert bool(page) == bool(said)


def test_a_large_tensor_is_counted_at_equal_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "MOST_READ", 10)
    page = tensors.histogram(Tensor.from_dlpack(np.arange(100, dtype=np.float32)))
    assert "of every 10th element" in page
    (label,) = re.findall(r'aria-label="([^"]*)"', page)
    assert sum(map(int, label.partition(": ")[2].split(", "))) == 10


def test_types_that_numpy_lacks() -> None:
    x = Tensor.constant([1, 2, 4], dtype=DType.bfloat16)
    assert "1 … 4" in tensors.page_of(x)


def test_a_tensor_of_a_graph_shows_its_words() -> None:
    with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        x = Tensor.from_graph_value(graph.inputs[0].tensor)
        assert set(x._repr_mimebundle_()) == {"text/plain"}


def test_the_magic_counts() -> None:
    shell: Any = InteractiveShell()  # type: ignore[no-untyped-call]  # IPython has no types
    maxlab.load_ipython_extension(shell)
    shell.user_ns["x"] = Tensor.ones((7,))
    made = shell.run_line_magic("tensors", "y = [(x * n + 0.75).numpy() for n in range(5)]")
    assert isinstance(made, Stats)
    assert (made.recorded, made.runs, made.compiled) == (10, 5, 2)
    assert dict(made.why) == {"a new structure": 1, "another number": 1}
    assert len(shell.user_ns["y"]) == 5
    total = shell.run_line_magic("tensors", "")
    assert total.recorded >= 10
    with pytest.raises(ZeroDivisionError):
        shell.run_line_magic("tensors", "1 / 0")
