"""Graphs that are like another one but for one thing: what an advice would change, to be tried.

Nothing here changes the graph that it is given. A rewritten graph keeps the ids of what it keeps,
so that its kernels can be told by the same nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.errors import UnsupportedError
from maxlab.graph import Graph
from maxlab.ir import Constant, Function, Op, Shape, TensorType, Value
from maxlab.opset import OPSET, named

Registry = dict[str, Any]
_DATA = ("constant", "external")


def graph_of(function: Function) -> Graph:
    """A graph that is ``function``, to be loaded in a session."""
    return Graph(path=function)


def from_data(function: Function) -> set[Value]:
    """The values that are computed from weights and constants alone, by at least one op that is
    more than a view: what a model computes anew in each run, always with the same result."""
    data: set[Value] = set()
    computed: set[Value] = set()
    for op in function.ops:
        kind = OPSET[op.name].kind
        if kind in _DATA:
            data.update(op.results)
        elif kind in ("output", "iota", "host", "transfer") or not op.operands:
            continue
        elif all(v in data or v in computed for v in op.operands):
            is_view = kind == "view" and not any(v in computed for v in op.operands)
            (data if is_view else computed).update(op.results)
    return computed


def hoisted(model: Model) -> tuple[Graph, Registry]:
    """The graph of ``model`` with everything that depends on weights and constants alone replaced
    by weights, and the registry that has them: computed once, by the model's own kernels.

    Raises:
        UnsupportedError: ML903, nothing depends on weights alone, or what does has symbolic dims.
    """
    function = model.compiled.source.clone()
    computed = from_data(function)
    frontier = [
        value
        for op in function.ops
        for value in op.results
        if value in computed and any(not set(user.results) <= computed for user in value.uses)
    ]
    if not frontier:
        raise _cannot("nothing in the graph is computed from weights alone")
    registry: Registry = dict(model.prepared.tensors)
    arrays = _evaluated(model, frontier)
    names = [f"{function.name}.{value.id}" for value in frontier]
    for value, name, array in zip(frontier, names, arrays, strict=True):
        registry[name] = array
        _become_weight(function, value, name)
    function.block.keep(_needed(function))
    return graph_of(function), registry


def _evaluated(model: Model, frontier: Sequence[Value]) -> list[Tensor]:
    """Tensors that the model computes for values that depend on weights alone."""
    work = model.compiled.source.clone()
    values = {value.id: value for op in work.ops for value in op.results}
    wanted = [values[value.id] for value in frontier]
    for value in wanted:
        if not Shape.is_static(value.tensor_type.shape):
            raise _cannot(f"{value.id} has symbolic dims")
    output = work.output
    assert output is not None
    work.block.remove(output)
    work.block.append(Op("hoisted", named("output"), wanted, []))
    work.block.keep(_needed(work))
    for value in list(work.inputs):
        work.block.remove_argument(value)
    work.set_parameters(())
    session = InferenceSession(model.session_devices(), model.num_threads)
    part = session.load(graph_of(work), weights_registry=model.prepared.tensors, guard=model.guard)
    return part.execute()


def frozen(model: Model, inputs: Iterable[int], arrays: Sequence[Tensor]) -> tuple[Graph, Registry]:
    """The graph of ``model`` with some of its inputs made weights, and the registry that has them.

    Args:
        model: The model.
        inputs: The numbers of the inputs.
        arrays: A tensor for every input of the model.

    Raises:
        UnsupportedError: ML903, an input has symbolic dims.
    """
    function = model.compiled.source.clone()
    registry: Registry = dict(model.prepared.tensors)
    gone = sorted(set(inputs))
    for number in gone:
        value = function.inputs[number]
        if not Shape.is_static(value.tensor_type.shape):
            raise _cannot(f"the input {value.name} has symbolic dims")
        name = f"{function.name}.{value.name}"
        registry[name] = arrays[number]
        _become_weight(function, value, name)
    for value in [function.inputs[number] for number in gone]:
        function.block.remove_argument(value)
    return graph_of(function), registry


def retyped(model: Model, old: DType, new: DType) -> tuple[Graph, Registry]:
    """The graph of ``model`` with every ``old`` made a ``new``, and its weights so converted."""
    source = model.compiled.source
    function = Function(source.name)
    function.number_after(source)
    function.subgraphs = dict(source.subgraphs)
    env: dict[Value, Value] = {}
    for value in source.inputs:
        type = _retyped(value.type, old, new)
        env[value] = function.block.add_argument(value.id, type, value.name)
    function.set_parameters(source.parameters)
    for op in source.ops:
        twin = Op(
            op.id,
            op.name,
            [env[v] for v in op.operands],
            [_retyped(r.type, old, new) for r in op.results],
            {key: _retyped(value, old, new) for key, value in op.attrs.items()},
            result_ids=[r.id for r in op.results],
            loc=op.loc,
            scope=op.scope,
            origins=op.origins,
        )
        for before, after in zip(op.results, twin.results, strict=True):
            after.rename(before.name)
            env[before] = after
        function.block.append(twin)
    registry: Registry = {
        name: converted(tensor, new) if tensor.dtype is old else tensor
        for name, tensor in model.prepared.tensors.items()
    }
    return graph_of(function), registry


def _retyped(value: Any, old: DType, new: DType) -> Any:
    """``value``, a type or an attribute, with ``new`` in place of ``old``."""
    if isinstance(value, TensorType):
        return TensorType(new, value.shape, value.device) if value.dtype is old else value
    if isinstance(value, Constant):
        same = value.array.dtype == old.ml_numpy
        return Constant(value.array.astype(new.ml_numpy)) if same else value
    return new if value is old else value


def converted(tensor: Tensor, dtype: DType) -> Tensor:
    """``tensor`` with its elements rounded to ``dtype``."""
    array = as_array(tensor).astype(dtype.ml_numpy)
    found = Tensor.from_numpy(np.ascontiguousarray(array))
    return found.to(tensor.device)


def as_array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The elements of ``tensor`` on the host, in NumPy's or ml_dtypes' type."""
    return tensor.on_host().to_ml_numpy()


# ---------------------------------------------------------------- changing a function
def _become_weight(function: Function, value: Value, name: str) -> None:
    """Let everybody who reads ``value`` read a weight instead."""
    typed = value.tensor_type
    plain = TensorType(typed.dtype, typed.shape, typed.device)
    op = function.create(
        named("weight"),
        [],
        [plain],
        {"name": name, "type": plain, "placeholder": False},
        loc=value.op.loc if value.op is not None else None,
        origins=value.op.origins if value.op is not None else (),
    )
    function.block.insert(op, function.ops[0])
    value.replace_with(op.result)


def _needed(function: Function) -> list[Op]:
    """The ops of ``function`` that an output needs."""
    needed: set[Op] = set()
    waiting = [function.output]
    while waiting:
        op = waiting.pop()
        if op is None or op in needed:
            continue
        needed.add(op)
        waiting.extend(v.op for v in op.operands)
    return [op for op in function.ops if op in needed]


def tiled(model: Model, arrays: Sequence[Tensor], dims: Mapping[str, int]) -> list[Tensor]:
    """Inputs in which the symbolic ``dims`` are so many times as large, filled by repeating
    ``arrays``.

    Raises:
        UnsupportedError: ML903, a dim occurs in a sum or product of dims, whose size is not clear.
    """
    made: list[Tensor] = []
    for value, tensor in zip(model.compiled.source.inputs, arrays, strict=True):
        repeats = []
        for size in value.tensor_type.sizes:
            names = [name for name in size.symbols() if name in dims]
            if names and str(size) != names[0]:
                raise _cannot(f"the dim {size} of {value.name} is no plain name")
            repeats.append(dims[names[0]] if names else 1)
        if all(n == 1 for n in repeats):
            made.append(tensor)
            continue
        array = np.ascontiguousarray(np.tile(as_array(tensor), repeats))
        found = Tensor.from_numpy(array)
        made.append(found.to(tensor.device))
    return made


def _cannot(why: str) -> UnsupportedError:
    return UnsupportedError(
        "ML903",
        f"this cannot be tried: {why}",
        fix="make the change in the graph and profile it again",
    )


__all__ = ["converted", "from_data", "frozen", "graph_of", "hoisted", "retyped", "tiled"]
