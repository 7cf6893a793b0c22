"""The question ``run``: the graph is compiled, as far as it changed, and run once."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxlab.analysis.runs.inputs import made, shapes_for, symbols
from maxlab.compiler.plan import Step
from maxlab.driver import Tensor
from maxlab.engine import Model
from maxlab.engine.kernel_view import origins_of
from maxlab.errors import ArgumentError, ExecutionError, InputError
from maxlab.files import open_regular
from maxlab.graph import Graph
from maxlab.graph.rearranging import short_name
from maxlab.ir import Function, Op, SymbolicDim, Value
from maxlab.lab import drafts
from maxlab.lab.inputs import EXAMPLE_SIZES, inputs_for
from maxlab.lab.models import model_for, model_of_ends
from maxlab.lab.namespace import user_variables
from maxlab.lab.protocol.changes import FailedOp, RanValue, RunGraphAnswer, RunGraphArgs
from maxlab.lab.protocol.questions import RUN
from maxlab.lab.questions.asking import Answer, Shown, question

OTHER_SIZE = 4
"""Of dims that go by no usual name; small, because the numbers are looked at."""
LINES = 12
"""Of the numbers of a value."""


@question(RUN)
def run(shown: Shown, args: RunGraphArgs) -> Answer[RunGraphAnswer]:
    """The graph's results for the inputs that are named, and made-up ones for the others; of one
    whose output is a draft, the values that nothing reads.
    """
    start = time.perf_counter_ns()
    is_open = False
    if isinstance(shown, Graph) and not _outputs(shown) and _is_drafted(shown):
        is_open, model = True, model_of_ends(shown)
    else:
        model = model_for(shown)
    load_ns = time.perf_counter_ns() - start
    given = {name: source for name, source in args["inputs"].items() if source.strip()}
    try:
        inputs, sources = _inputs(model, given, args.get("seed", 0))
        start = time.perf_counter_ns()
        outputs = model.execute(*inputs)
        model.wait()
    except ExecutionError as error:
        failed = failed_op(model, error)
        if failed is None:
            raise
        return Answer(
            {
                "version": 1,
                "inputs": [],
                "outputs": [],
                "load_ns": load_ns,
                "run_ns": 0,
                "kernels": len(model.compiled.plan.steps),
                "failed": failed,
            }
        )
    run_ns = time.perf_counter_ns() - start
    names = [x.name for x in model.compiled.plan.facts.inputs]
    called = [value.name or (_maker(value) if is_open else "") for value in _outputs(model.graph)]
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


def _outputs(graph: Graph) -> Sequence[Value]:
    """The values that ``graph`` gives."""
    output = graph.function.output
    return () if output is None else output.operands


def _is_drafted(graph: Graph) -> bool:
    """Whether the output of ``graph`` is a draft."""
    return any(drafts.short_name_of(draft) == "output" for draft in graph.document.drafts)


def _maker(value: Value) -> str:
    """The maker of ``value``, in words."""
    return "" if value.op is None else f"{short_name(value.op)} {value.op.id}"


def failed_op(model: Model, error: ExecutionError) -> FailedOp | None:
    """The operation of the graph of ``model`` that ``error`` speaks of, and why it failed; None if
    the error does not say which one it is."""
    step = _step_of(model, error)
    if step is not None:
        origins = origins_of(model)
        known = {op.id for op in model.graph.function.ops}
        ids = (origin for node in step.nodes for origin in origins.get(node, (node,)))
        op = next((id for id in ids if id in known), None)
        says = error.what.replace(f"kernel {_symbol(step)}", f"the kernel {step.id} ({step.name})")
        return None if op is None else {"op": op, "says": says}
    found = _op_of(model.graph.function, error)
    return None if found is None else {"op": found.id, "says": error.what}


def _step_of(model: Model, error: ExecutionError) -> Step | None:
    """The step whose kernel a simulated GPU names, which knows no operations."""
    named = re.search(r"in kernel (\w+):", error.what)
    steps = model.compiled.plan.steps if named is not None else ()
    return next((step for step in steps if named is not None and _symbol(step) == named[1]), None)


def _symbol(step: Step) -> str:
    return step.gpu.printed().symbol if step.gpu is not None else ""


def _op_of(function: Function, error: ExecutionError) -> Op | None:
    """The operation that ``error`` speaks of, by its name and place; None if that is not one."""
    name = error.what.partition(":")[0]
    named = [op for op in function.ops if name in (short_name(op), op.attrs.get("name"))]
    placed = [op for op in function.ops if error.at is not None and op.loc == error.at]
    found = [op for op in named if op in placed] or named or placed
    return found[0] if len(found) == 1 else None


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
        known = user_variables()
        if known is None or source not in known:
            raise ArgumentError(
                "ML808",
                f"the notebook has no variable {source!r}",
                fix="write the name of an array, or the path of an .npy file",
            )
        found = known[source]
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
