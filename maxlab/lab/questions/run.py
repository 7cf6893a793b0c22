"""The question ``run``: the graph is compiled, as far as it changed, and run once."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from maxlab.analysis.runs.inputs import made, shapes_for, symbols
from maxlab.driver import Tensor
from maxlab.engine import Model
from maxlab.errors import ArgumentError, ExecutionError, InputError
from maxlab.files import open_regular
from maxlab.ir import SymbolicDim
from maxlab.lab.inputs import EXAMPLE_SIZES, inputs_for
from maxlab.lab.models import model_for
from maxlab.lab.protocol.changes import RanValue, RunGraphAnswer, RunGraphArgs
from maxlab.lab.protocol.questions import RUN
from maxlab.lab.questions.asking import Answer, Shown, question

OTHER_SIZE = 4
"""Of dims that go by no usual name; small, because the numbers are looked at."""
LINES = 12
"""Of the numbers of a value."""


@question(RUN)
def run(shown: Shown, args: RunGraphArgs) -> Answer[RunGraphAnswer]:
    """What the graph gives for the inputs that are named, and made-up ones for the others."""
    start = time.perf_counter_ns()
    model = model_for(shown)
    load_ns = time.perf_counter_ns() - start
    given = {name: source for name, source in args["inputs"].items() if source.strip()}
    inputs, sources = _inputs(model, given, args.get("seed", 0))
    start = time.perf_counter_ns()
    outputs = model.execute(*inputs)
    model.wait()
    run_ns = time.perf_counter_ns() - start
    names = [x.name for x in model.compiled.plan.facts.inputs]
    output = model.graph.function.output
    called = [value.name for value in output.operands] if output is not None else []
    return Answer(
        {
            "version": 1,
            "inputs": [
                _told(name, x, source)
                for name, x, source in zip(names, inputs, sources, strict=True)
            ],
            "outputs": [
                _told((called[n] if n < len(called) else "") or f"output{n}", x, "")
                for n, x in enumerate(outputs)
            ],
            "load_ns": load_ns,
            "run_ns": run_ns,
            "kernels": len(model.compiled.plan.steps),
        }
    )


def _inputs(model: Model, given: Mapping[str, str], seed: int) -> tuple[list[Any], list[str]]:
    """The inputs, and where each is from.

    Raises:
        ArgumentError: ML808, a source that has no array.
        InputError: Sizes that do not go together.
    """
    known = {x.name: x for x in model.compiled.plan.facts.inputs}
    for name in given:
        if name not in known:
            raise ArgumentError(
                "ML808", f"the graph has no input {name!r}", fix=f"it has {', '.join(known)}"
            )
    sources = [given.get(name, f"random, seed {seed}") for name in known]
    try:
        return _made_up(model, given, seed), sources
    except (ExecutionError, InputError):
        if given:
            raise
        return inputs_for(model), sources  # of other sizes


def _made_up(model: Model, given: Mapping[str, str], seed: int) -> list[Any]:
    """Inputs of sizes that the arrays of ``given`` say, made up where there is none."""
    types = [value.tensor_type for value in model.graph.function.inputs]
    names = [x.name for x in model.compiled.plan.facts.inputs]
    arrays = {name: array_of(source) for name, source in given.items()}
    dims = {n: EXAMPLE_SIZES.get(n.lower(), OTHER_SIZE) for n in symbols(model)}
    for name, type in zip(names, types, strict=True):
        if name in arrays:
            for dim, size in zip(type.shape, np.shape(arrays[name]), strict=False):
                if isinstance(dim, SymbolicDim):
                    dims[dim.name] = int(size)
    shapes = shapes_for(model, dims)
    for fill in (1, 0):
        inputs = [
            arrays[name] if name in arrays else made(type.dtype, shape, fill, seed + number)
            for number, (name, type, shape) in enumerate(zip(names, types, shapes, strict=True))
        ]
        try:
            placed = model.placed(inputs)
            model.run_to_the_end(*placed)
        except ExecutionError:
            if fill == 0:
                raise
            continue  # the ones were taken as indices, and there is no row 1
        return placed
    raise AssertionError("the last turn returns or raises")


def array_of(source: str) -> Any:
    """The array that ``source`` names: a variable of the notebook, or an ``.npy`` file.

    Raises:
        ArgumentError: ML808, it names none.
        AccessError: ML002, the file cannot be read.
    """
    source = source.strip()
    if re.fullmatch(r"[A-Za-z_]\w*", source):
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if shell is None or source not in shell.user_ns:
            raise ArgumentError(
                "ML808",
                f"the notebook has no variable {source!r}",
                fix="write the name of an array, or the path of an .npy file",
            )
        found = shell.user_ns[source]
        if isinstance(found, Tensor):
            return found
        array = np.asarray(found)
        if array.dtype == object:
            raise ArgumentError(
                "ML808", f"{source} is no array", fix="make one of it: np.asarray(values)"
            )
        return array
    if not source.endswith(".npy"):
        raise ArgumentError(
            "ML808",
            f"{source!r} is neither a variable nor an .npy file",
            fix="np.save('x.npy', array) writes one",
        )
    with open_regular(source) as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise ArgumentError(
                "ML808",
                f"{source} cannot be read as an .npy file: {error}",
                fix="np.save(path, array) writes one",
            ) from error


def _told(name: str, value: Any, source: str) -> RanValue:
    array = value.to_numpy() if isinstance(value, Tensor) else np.asarray(value)
    with np.printoptions(threshold=60, edgeitems=3, precision=4, suppress=True, linewidth=72):
        text = str(array)
    lines = text.split("\n")
    if len(lines) > LINES:
        lines = [*lines[: LINES // 2], "...", *lines[-LINES // 2 :]]
    kind = value.dtype.name if isinstance(value, Tensor) else array.dtype.name
    shape = ", ".join(map(str, array.shape))
    return {"name": name, "type": f"{kind}[{shape}]", "text": "\n".join(lines), "source": source}
