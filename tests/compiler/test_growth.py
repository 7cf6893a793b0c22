"""What graphs cost grows as they do: lines of Python are counted, no times."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from maxlab.compiler import Options, compile_function
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops

RIGHT = np.eye(8, dtype=np.float32)
SIZES = (40, 80, 160)


def counted(call: Callable[[], Any]) -> tuple[Any, int]:
    """What ``call`` gives, and how many lines of Python ran for it in this thread."""
    count = 0

    def watch(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        found = call()
    finally:
        sys.settrace(before)
    return found, count


def grown(step: Callable[[Any, int], Any], length: int) -> Graph:
    """A graph of ``length`` turns of ``step``."""
    with Graph("grown", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
        x = graph.inputs[0].tensor
        for number in range(length):
            x = step(x, number)
        graph.output(x)
    return graph


CHAINS: dict[str, tuple[Callable[[Any, int], Any], Options]] = {
    "steps": (lambda x, n: ops.tanh(x), Options(fuse=False)),
    "products": (lambda x, n: x @ ops.constant(RIGHT), Options()),
    "maps": (lambda x, n: ops.tanh(x * (1 + n / 64)), Options()),
    "views": (lambda x, n: ops.tanh(ops.transpose(x, 0, 1)), Options()),
    "rows": (lambda x, n: ops.softmax(x) + x, Options()),
    "parts": (lambda x, n: ops.concat([x[:, 4:], x[:, :4]], axis=1), Options()),
}


@pytest.mark.parametrize("name", CHAINS)
def test_building_and_compiling_a_chain_takes_work_in_proportion_to_its_length(name: str) -> None:
    step, options = CHAINS[name]
    built: list[int] = []
    compiled: list[int] = []
    compile_function(grown(step, SIZES[0]).function, options)  # imports, what is kept for later
    for length in SIZES:
        graph, count = counted(lambda n=length: grown(step, n))  # type: ignore[misc]
        built.append(count)
        compile_function(graph.function, options)  # so that no kernel is new below
        compiled.append(counted(lambda f=graph.function: compile_function(f, options))[1])  # type: ignore[misc]
    for counts in (built, compiled):
        first, second = counts[1] - counts[0], counts[2] - counts[1]
        assert second < 2.06 * first, counts  # twice as many turns; of a square it would be 4
