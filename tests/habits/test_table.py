"""The table of habits: each row gives the value of NumPy or PyTorch, or a typed error that names a
call, which is executed."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine, nn
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import MaxlabError
from maxlab.graph import (
    BufferType,
    DeviceRef,
    Dim,
    Graph,
    Shape,
    TensorType,
    TensorValue,
    Weight,
    ops,
)
from tests.habits import (
    building,
    calls,
    front,
    functions,
    hour_after,
    hour_building,
    results,
    second_after,
    second_building,
)
from tests.habits import names as names_
from tests.habits.rows import Refused, Row

torch = pytest.importorskip("torch")

FAMILIES: dict[str, list[Row]] = {
    "numpy": building.NUMPY,
    "methods": building.METHODS,
    "types": building.TYPES,
    "ops": functions.OPS,
    "results": results.RESULTS,
    "front": front.FRONT,
    "objects": front.OBJECTS,
    "layers": front.LAYERS,
    "names": names_.WHILE_BUILDING,
    "afterwards": names_.AFTERWARDS,
    "calls": calls.CALLS_WHILE_BUILDING,
    "calls afterwards": calls.CALLS_AFTERWARDS,
    "shapes in an hour": hour_building.SHAPES,
    "indices in an hour": hour_building.INDICES,
    "numpy in an hour": hour_building.NUMPY,
    "ops in an hour": hour_building.OPS,
    "results in an hour": hour_after.RESULTS,
    "types in an hour": hour_after.TYPES,
    "graphs in an hour": hour_after.GRAPHS,
    "loading in an hour": hour_after.LOADING,
    "models in an hour": hour_after.MODELS,
    "front in an hour": hour_after.FRONT,
    "pairs": second_building.PAIRS,
    "more folds": second_building.FOLDS,
    "sizes": second_building.SIZES,
    "more elements": second_building.ELEMENTS,
    "more places": second_building.PLACES,
    "changes": second_building.CHANGES,
    "more results": second_after.RESULTS,
    "more of the front": second_after.FRONT,
}
_HOUR = ("results", "types", "graphs", "loading", "models", "front")
AFTERWARDS = (
    *("results", "front", "objects", "afterwards", "calls afterwards"),
    *(f"{one} in an hour" for one in _HOUR),
    *("more results", "more of the front"),
)
"""The families whose rows are typed outside of any graph."""
BARE = Path(__file__).with_name("bare.txt")
"""Rows that are not kept yet, one a line: ``family: text``. Empty when the table is done."""

X = np.array([[-1.5, 0.25, 2.0, 0.5], [-0.75, 1.25, -0.125, 3.0]], np.float32)
ARRAYS: dict[str, Any] = {
    "X": X,
    "Y": np.array([[1.0, -0.5, 2.0, 0.125], [-2.0, 1.25, 0.5, -1.0]], np.float32),
    "P": np.abs(X) + np.float32(0.5),
    "M": (np.arange(12, dtype=np.float32).reshape(4, 3) - 5) / 4,
    "W": (np.arange(12, dtype=np.float32).reshape(3, 4) - 6) / 8,
    "V": np.array([0.5, -1.25, 2.0, 0.75], np.float32),
    "C": np.array([0.5, -1.25, 2.0], np.float32),
    "C2": np.array([0.5, 1.25, 2.0], np.float32),
    "Q": (np.arange(9, dtype=np.float32).reshape(3, 3) - 4) / 4,
    "S": (np.arange(18, dtype=np.float32).reshape(2, 3, 3) - 8) / 8,
    "Z": (np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2) - 11) / 8,
    "E": np.arange(16, dtype=np.float32).reshape(8, 2),
    "I": np.array([[1, 0, 7, 2], [3, 3, 5, 6]], np.int32),
    "B": np.array([[True, False, True, False], [False, False, True, True]]),
}


class Forward(nn.Module):
    """A layer that is written as PyTorch's are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3, DType.float32, DeviceRef.CPU())

    def forward(self, x: Any) -> Any:
        return self.inner(x)


class Listed(nn.Module):
    """Layers in a plain list."""

    def __init__(self) -> None:
        self.layers = [nn.Linear(4, 4, DType.float32, DeviceRef.CPU())]
        self.layers.append(nn.Linear(4, 4, DType.float32, DeviceRef.CPU()))


class Keyed(nn.Module):
    """Layers in a plain dict."""

    def __init__(self) -> None:
        make = partial(nn.Linear, 4, 4, DType.float32, DeviceRef.CPU())
        self.layers = {"a": make(), "b": make()}


def doubled() -> Graph:
    with Graph("doubled", input_types=[TensorType(DType.float32, [2, 4])]) as graph:
        graph.output(graph.inputs[0].tensor * 2)
    return graph


@cache
def folder() -> str:
    kept = TemporaryDirectory()
    pytest_keeps.append(kept)
    return kept.name


pytest_keeps: list[TemporaryDirectory[str]] = []


@cache
def names() -> dict[str, Any]:
    """What every row may name."""
    graph, session = doubled(), InferenceSession()
    model = session.load(graph)
    cpu = DeviceRef.CPU()
    found: dict[str, Any] = {
        "np": np, "math": math, "torch": torch, "F": torch.nn.functional, "copy": copy,
        "pickle": pickle, "maxlab": maxlab, "ops": ops, "nn": nn, "DType": DType,
        "DeviceRef": DeviceRef, "TensorType": TensorType, "BufferType": BufferType,
        "Shape": Shape, "Dim": Dim, "Graph": Graph, "Weight": Weight, "Tensor": Tensor,
        "InferenceSession": InferenceSession, "Forward": Forward, "Listed": Listed,
        "Keyed": Keyed, "graph": graph, "session": session, "model": model, "array": X,
        "doubled": doubled,
        "result": Tensor.from_numpy(X.copy()), "path": f"{folder()}/graph.mlir",
        "linear": nn.Linear(4, 3, DType.float32, cpu, has_bias=True),
        "linear2": nn.Linear(3, 2, DType.float32, cpu, has_bias=True),
        "profile": model.profile(X, runs=1, warmup=0),
        "tensor": Tensor.from_numpy(X.copy()), "driver": driver, "engine": engine,
        "outputs": model(X),
        "module": nn.Linear(4, 3, DType.float32, cpu),
        "t": Tensor.from_numpy(X.copy()), "T_": X,
        "o": Tensor.from_numpy(ARRAYS["Y"].copy()), "O": ARRAYS["Y"],
        "k": Tensor.from_numpy(np.array([1, 2, 3], np.int32)),
        "K": np.array([1, 2, 3], np.int32),
        "one": Tensor.scalar(2.5, DType.float32),
        "h": Tensor.from_numpy(np.array([1.5, -2], DType.bfloat16.ml_numpy)),
        "f8": Tensor.from_numpy(np.array([0.5, 4], DType.float8_e4m3fn.ml_numpy)),
    }  # fmt: skip
    found.update(ARRAYS)
    found.update({f"T{name}": torch.from_numpy(a.copy()) for name, a in ARRAYS.items()})
    graph.save(found["path"])
    return found


def evaluated(text: str, where: dict[str, Any]) -> Any:
    """The value of ``text``; of statements, None."""
    try:
        code = compile(text, "<habit>", "eval")
    except SyntaxError:
        exec(compile(text, "<habit>", "exec"), where)
        return None
    return eval(code, where)


def tried(text: str, where: dict[str, Any]) -> Any:
    """The value of ``text``, or what it raises."""
    try:
        return evaluated(text, where)
    except Exception as error:
        return error


def place(name: str) -> tuple[Graph, dict[str, Any]]:
    """A graph, and all that rows may name, its inputs among them."""
    types = [TensorType(DType.from_numpy(a.dtype), a.shape) for a in ARRAYS.values()]
    graph = Graph(name, input_types=[*types, TensorType(DType.float32, ["n", 4])])
    where = dict(names())
    values = [value.tensor for value in graph.inputs]
    where.update(zip(map(str.lower, ARRAYS), values, strict=False))
    where |= {"u": values[-1], "condition": where["b"]}
    return graph, where


@cache
def outcomes(family: str) -> dict[str, Any]:
    """What each row of ``family`` gives: all are tried in one graph, which then runs once."""
    found: dict[str, Any] = {}
    graph, where = place("habits")
    if family in AFTERWARDS:
        where = dict(names())
    made: list[tuple[str, TensorValue]] = []
    for row in FAMILIES[family]:
        alone = family == "layers" or "cuda" in row.text or "gpu" in row.text
        beside = place("beside") if alone else (graph, where)
        with beside[0]:
            outcome = tried(row.text, dict(beside[1]))
            if isinstance(outcome, TensorValue):
                made.append((row.text, outcome))
                continue
            call = row.wanted.call if isinstance(row.wanted, Refused) else ""
            if call and isinstance(outcome, MaxlabError) and call in str(outcome):
                with np.errstate(all="ignore"):  # roots of negative numbers are NumPy's matter
                    outcome = (outcome, tried(call, dict(beside[1])))
            found[row.text] = outcome
    if made:
        with graph:
            graph.output(*(value for _, value in made))
        ran = InferenceSession().load(graph)(*ARRAYS.values(), X)
        found.update({text: one for (text, _), one in zip(made, ran, strict=True)})
    return found


def same(found: Any, wanted: Any) -> bool:
    """Whether two values are one to a reader: shape, and numbers to what float32 holds."""
    if isinstance(wanted, torch.Tensor):
        wanted = wanted.detach().numpy()
    if isinstance(found, (Tensor, torch.Tensor, np.ndarray, np.generic)):
        if isinstance(found, Tensor):
            found = found.to_ml_numpy()
        found, wanted = np.asarray(found), np.asarray(wanted)
        if found.shape != wanted.shape:
            return False
        if (found.dtype == bool) != (wanted.dtype == bool):
            return False
        return bool(
            np.allclose(
                found.astype(np.float64), wanted.astype(np.float64), 2e-5, 2e-6, equal_nan=True
            )
        )
    if isinstance(wanted, tuple) and isinstance(found, tuple):
        return found == wanted
    return type(found == wanted) is bool and found == wanted


def problem(family: str, row: Row) -> str | None:
    """What is wrong with a row; None when it is kept."""
    found = outcomes(family)[row.text]
    if isinstance(found, np.ndarray) and found.dtype == object:
        return f"an array of objects: {found!r}"
    if isinstance(row.wanted, Refused):
        error, called = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        if not isinstance(error, MaxlabError):
            return f"no typed error: {type(error).__name__}: {error}"
        if error.code != row.wanted.code:
            return f"{error.code}, not {row.wanted.code}: {error}"
        if row.wanted.call not in str(error):
            return f"{row.wanted.call!r} is not named: {error}"
        if isinstance(called, Exception):
            return f"the call that is named fails: {type(called).__name__}: {called}"
        return None
    if isinstance(found, Exception):
        return f"{type(found).__name__}: {found}"
    with np.errstate(all="ignore"):
        wanted = evaluated(row.wanted, dict(names()))
    return None if same(found, wanted) else f"{found!r}, not {wanted!r}"


def bare() -> set[str]:
    """The rows of the file of those that are not kept yet."""
    return set(BARE.read_text("utf-8").splitlines()) if BARE.exists() else set()


def marked() -> Iterator[Any]:
    waiting = bare()
    for family, table in FAMILIES.items():
        for row in table:
            name = f"{family}: {row.text}"
            marks = [pytest.mark.xfail(strict=True)] if name in waiting else []
            yield pytest.param(family, row, id=name, marks=marks)


@pytest.mark.parametrize(("family", "row"), list(marked()))
def test_a_habit_gives_its_value_or_says_what_does(
    family: str, row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # calls that save files are executed
    found = problem(family, row)
    assert found is None, f"{row.text}: {found}"


def test_the_table_is_large_and_each_row_stands_once() -> None:
    texts = [(family, row.text) for family, table in FAMILIES.items() for row in table]
    assert len(texts) >= 250
    assert len(set(texts)) == len(texts)
    assert bare() <= {f"{family}: {text}" for family, text in texts}


def write_bare(write: Callable[[str], Any] = print) -> None:
    """The rows that are not kept, to the file; ``python -m tests.habits.test_table``."""
    found = {
        f"{family}: {row.text}": said
        for family, table in FAMILIES.items()
        for row in table
        if (said := problem(family, row)) is not None
    }
    BARE.write_text("".join(f"{name}\n" for name in found), "utf-8")
    for name, said in found.items():
        write(f"{name}\n    {said.splitlines()[0][:200]}")
    write(f"{len(found)} of {sum(map(len, FAMILIES.values()))} rows are not kept")


if __name__ == "__main__":
    write_bare()
