"""What every analysis may be of: a model or its profile, and a clear word about anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError
from maxlab.graph import Graph, TensorType, ops

X = np.linspace(0, 1, 24, dtype=np.float32).reshape(3, 8)


def entered(target: Any) -> None:
    """Enter and leave a tripwire."""
    with maxlab.tripwire(target):
        pass


ANALYSES: dict[str, Callable[[Any], Any]] = {
    "memory": maxlab.memory,
    "stages": maxlab.stages,
    "compile_report": maxlab.compile_report,
    "why": lambda t: maxlab.why(t, "n0", "n1"),
    "compare": maxlab.compare,
    "values": lambda t: maxlab.values(t, "n0"),
    "first_nonfinite": maxlab.first_nonfinite,
    "watch": lambda t: maxlab.watch(t, "n0.max()"),
    "tripwire": entered,
}


@pytest.fixture(scope="module")
def profile() -> Any:
    with Graph("soft", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
        graph.output(ops.softmax(ops.tanh(graph.inputs[0].tensor)))
    model = engine.InferenceSession(num_threads=1).load(graph)
    return model.profile(X, runs=1)


@pytest.mark.parametrize("name", ANALYSES)
def test_of_a_model_and_of_its_profile(name: str, profile: Any) -> None:
    ANALYSES[name](profile.model)
    ANALYSES[name](profile)


@pytest.mark.parametrize("wrong", [None, 3, "model", X], ids=["None", "int", "text", "array"])
@pytest.mark.parametrize("name", ANALYSES)
def test_of_nothing_else(name: str, wrong: Any) -> None:
    words = rf"{name} needs a compiled model or its profile, got {type(wrong).__name__}"
    with pytest.raises(ArgumentTypeError, match=words) as caught:
        ANALYSES[name](wrong)
    assert caught.value.code == "ML674"


def test_memory_of_a_profile_has_its_sizes(profile: Any) -> None:
    profile.model(np.ones((5, 8), np.float32))
    assert maxlab.memory(profile).dims == {"n": 3}
    assert maxlab.memory(profile.model).dims == {"n": 5}
    with pytest.raises(ArgumentTypeError, match="sizes of dims by their names, got ndarray"):
        maxlab.memory(profile.model, X)
