"""What plans hold that is no plain value: functions.

A plan of plain values can be printed, compared, put into a file and read in another process. The
plans of the graphs below, on the CPU and on a GPU, have steps of every kind. Each function that is
found in one of them, by going through fields, lists and dictionaries, counts once by the name it is
defined under: ``Step.launch: HostSteps.rows.<locals>.launch``.

Functions of the user that a graph calls, and what is kept of the graph itself (``ir`` objects), are
not looked into.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from maxlab.compiler.effects import take_chains_out
from maxlab.compiler.options import DEFAULT
from maxlab.compiler.passes import pipeline, run
from maxlab.compiler.plan import Plan
from maxlab.compiler.planner import Planner
from maxlab.compiler.schedule import Schedule
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, Weight, ops
from maxlab.ir import HostCall, Op, Value
from maxlab.ir.poly import Poly

F32 = DType.float32


def plans() -> Iterator[Plan]:
    """The plans of graphs that have steps of every kind, on the CPU and on a GPU."""
    for device in (DeviceRef.CPU(), DeviceRef.GPU()):
        for build in (_kernels, _products, _programs):
            with Graph("plan", input_types=[TensorType(F32, ["n", 64], device)]) as graph:
                graph.output(*build(graph.inputs[0].tensor))
            work = graph.function.clone()
            take_chains_out(work)
            run(work, pipeline(DEFAULT.split_k))
            yield Planner(Schedule(work, DEFAULT)).build()


def _kernels(x: TensorValue) -> list[TensorValue]:
    """Maps, rows, columns, concats, kernels of the op table, copies between devices and calls of
    Python."""
    index = ops.argmax(x, axis=-1)
    x.print()
    return [
        ops.softmax(x),
        ops.exp(x),
        ops.sum(x, axis=0),
        ops.concat([ops.softmax(x), ops.exp(x)], axis=0),
        ops.top_k(x, 3)[0],
        ops.cumsum(x, axis=0),
        ops.gather(x, index, axis=1),
        ops.scatter(x, x, ops.cast(x, DType.int64), axis=1),
        ops.transfer_to(x, DeviceRef.CPU()) * 2,
    ]


def _products(x: TensorValue) -> list[TensorValue]:
    """Products of matrices, in batches too, and attention."""
    w = Weight("w", F32, [64, 64], x.device)
    heads = ops.reshape(x, [1, 1, -1, 64])
    scores = heads @ ops.transpose(heads, 2, 3)
    cubes = ops.reshape(x, [-1, 8, 8])
    return [x @ w, x @ ops.transpose(x, 0, 1), ops.softmax(scores) @ heads, cubes @ cubes]


def _programs(x: TensorValue) -> list[TensorValue]:
    """A loop whose memory changes places, and a branch."""
    w = Weight("w", F32, [64, 64], x.device)

    def is_small(y: TensorValue) -> TensorValue:
        return ops.transfer_to(y[0, 0] < 100.0, DeviceRef.CPU())

    (made,) = ops.while_loop([x], is_small, lambda y: [y @ w + 1.0])
    (either,) = ops.cond(is_small(x), [x.type], lambda: [x * 2.0], lambda: [x @ w])
    return [made, either]


def callables(plan: Plan) -> dict[str, None]:
    """The functions in ``plan``, each with the field of the class that holds it."""
    found: dict[str, None] = {}
    seen: set[int] = set()
    held: list[Any] = []  # so that no number of an object comes again

    def look(thing: Any, place: str) -> None:
        if isinstance(thing, (str, bytes, int, float, Enum, np.ndarray, Poly, Op, Value, HostCall)):
            return
        if thing is None or isinstance(thing, type) or id(thing) in seen:
            return
        seen.add(id(thing))
        held.append(thing)
        if isinstance(thing, types.FunctionType) or hasattr(thing, "__wrapped__"):
            found[f"{place}: {thing.__qualname__}"] = None
        elif callable(thing) and not dataclasses.is_dataclass(thing):
            found[f"{place}: {type(thing).__qualname__}"] = None
        elif isinstance(thing, Mapping):
            for key, value in thing.items():
                look(key, place)
                look(value, place)
        elif isinstance(thing, Sequence | set | frozenset):
            for one in thing:
                look(one, place)
        else:
            for name, value in _fields(thing):
                look(value, f"{type(thing).__name__}.{name.lstrip('_')}")

    look(plan, "Plan")
    return found


def _fields(thing: Any) -> Iterator[tuple[str, Any]]:
    names = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    names += list(getattr(thing, "__dict__", ()))
    for name in names:
        if hasattr(thing, name):
            yield name, getattr(thing, name)


def sites() -> list[str]:
    """Each function that one of the plans holds, once."""
    found: dict[str, None] = {}
    for plan in plans():
        found |= callables(plan)
    return sorted(found)


__all__ = ["callables", "plans", "sites"]
