"""Five hundred random graphs as programs: half of the operations that fuse, half over the whole
table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from maxlab.graph import Graph
from tests.compiler.programs import Generator, Program
from tests.compiler.whole import Whole
from tests.graph.code.rebuilt import rebuilt, require_formatted

TOGETHER = 10
MAKERS: dict[str, Callable[[int], Program]] = {
    "fusing": lambda seed: Generator(seed).make(),
    "table": lambda seed: Whole(seed).make(),
}


@pytest.mark.parametrize("first", range(0, 250, TOGETHER))
@pytest.mark.parametrize("kind", MAKERS)
def test_random_graphs(kind: str, first: int, tmp_path: Path) -> None:
    for seed in range(first, first + TOGETHER):
        program = MAKERS[kind](seed)
        graph = Graph(path=program.function)
        rebuilt(graph, tmp_path / f"seed{seed}.py")
        if program.weights:
            rebuilt(graph, tmp_path / f"seed{seed}_data.py", program.weights)
    require_formatted(tmp_path)
