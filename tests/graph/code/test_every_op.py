"""Every operation of the table, on each of its samples, as the program that builds it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest

from maxlab.graph import Graph
from maxlab.opset import OPSET
from tests.compiler.test_matrix import CASES, Case, build
from tests.graph.code.rebuilt import rebuilt, require_formatted

BY_OP = {name: list(cases) for name, cases in groupby(CASES, key=lambda case: case.name)}
ELSEWHERE = frozenset(
    {
        "mo.allgather", "mo.allreduce.sum", "mo.buffer.create", "mo.buffer.load",
        "mo.buffer.load_slice", "mo.buffer.store", "mo.buffer.store_slice", "mo.cache.add_lora",
        "mo.cache.attention",
        "mo.cache.load", "mo.cache.store", "mo.call", "mo.chain",
        "mo.cond", "mo.constant", "mo.constant.external", "mo.custom", "mo.custom.inplace",
        "mo.host", "mo.iota", "mo.latent.attention", "mo.latent.chunk", "mo.latent.expand",
        "mo.latent.load", "mo.output", "mo.print", "mo.recip", "mo.sample.count",
        "mo.sample.penalise", "mo.transfer", "mo.watch", "mo.while",
    }
)  # fmt: skip
"""Operations without samples: `test_whole_graphs` has each of them."""


@pytest.mark.parametrize("cases", BY_OP.values(), ids=BY_OP)
def test_op(cases: Sequence[Case], tmp_path: Path) -> None:
    for number, case in enumerate(cases):
        function, _ = build(case)
        rebuilt(Graph(path=function), tmp_path / f"case{number}.py")
    require_formatted(tmp_path)


def test_all_others_are_known() -> None:
    assert set(OPSET) - set(BY_OP) <= ELSEWHERE
