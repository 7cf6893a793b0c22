"""Graphs of very many different kernels: which of them the compiler spends less time on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.compiler import compiled
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.graph import Graph, TensorType, ops
from maxlab.toolchain.units import compile_units


def graph() -> Graph:
    """Three kernels of one loop, and one that has a loop for each row."""
    with Graph("many", input_types=[TensorType(DType.float32, ["rows", 10])]) as made:
        x = made.inputs[0].tensor
        maps = [ops.exp(x * (1 + n / 8)) for n in range(3)]
        made.output(*maps, ops.softmax(x))
    return made


def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """By the kind of a kernel, whether it was asked for in brief."""
    found: dict[str, bool] = {}

    def noted(units: list[Any], **how: Any) -> Any:
        found.update({how["called"][unit.name]: unit.brief for unit in units})
        return compile_units(units, **how)

    monkeypatch.setattr("maxlab.compiler.compiled.compile_units", noted)
    model = InferenceSession().load(graph())
    x = np.linspace(-2, 2, 30, dtype=np.float32).reshape(3, 10)
    *maps, rows = model(x)
    for n, one in enumerate(maps):
        np.testing.assert_allclose(one.to_numpy(), np.exp(x * np.float32(1 + n / 8)), 1e-6)
    np.testing.assert_allclose(rows.to_numpy().sum(1), 1, 1e-6)
    return found


def test_kernels_of_one_loop_are_brief_where_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled, "MANY_KERNELS", 4)
    assert asked(monkeypatch) == {"exp": True, "mul_exp": True, "softmax": False}


def test_no_kernel_is_brief_where_there_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(asked(monkeypatch).values()) == {False}
