"""Which example of the API reference a test runs, and running the graphs of examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from maxlab import engine
from maxlab.graph import Graph

Array = np.ndarray[Any, Any]
Test = TypeVar("Test", bound=Callable[..., None])


def example(page: str, ordinal: int) -> Callable[[Test], Test]:
    """The test itself, which runs the code block ``ordinal`` of ``page``, counted from 1.

    ``test_pages.py`` reads these marks, and finds blocks without a test.
    """
    assert page
    assert ordinal > 0
    return lambda test: test


def run(graph: Graph, *inputs: Any) -> list[Array]:
    """What the compiled graph gives for ``inputs``."""
    return [out.to_numpy() for out in engine.InferenceSession().load(graph).execute(*inputs)]
