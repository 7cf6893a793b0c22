"""Where tensors, sessions and models take values: a table for `tests.graph.bad_values`."""

# ruff: noqa: PLW0108 - the lambdas keep models from being compiled for the table

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

from maxlab import driver, engine
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.graph import BufferType, Graph, TensorType, Weight
from tests.graph.bad_values import BAD, Finding, answer

F32, I64 = DType.float32, DType.int64


@cache
def _session() -> engine.InferenceSession:
    return engine.InferenceSession(num_threads=1)


@cache
def _model(kind: str) -> engine.Model:
    types: dict[str, TensorType | BufferType] = {
        "row": TensorType(F32, ["n"]),
        "number": TensorType(F32, []),
        "buffer": BufferType(F32, ["n"]),
    }
    double = (lambda x: x[...] * 2) if kind == "buffer" else (lambda x: x * 2)
    return _session().load(Graph("g", double, [types[kind]]))


def _weighed(data: Any) -> engine.Model:
    graph = Graph("g", lambda x: x + Weight("w", F32, [4]), [TensorType(F32, [4])])
    return _session().load(graph, weights_registry={"w": data})


def _product(data: Any) -> engine.Model:
    graph = Graph("g", lambda x: x @ Weight("w", F32, [4, 4]), [TensorType(F32, ["n", 4])])
    return _session().load(graph, weights_registry={"w": data})


def _plain() -> Graph:
    return Graph("g", lambda x: x * 2, [TensorType(F32, ["n"])])


def _tensor() -> Tensor:
    return Tensor.zeros([2, 3], F32)


def _stored(index: Any, value: Any) -> None:
    _tensor()[index] = value


ENTRIES: dict[str, Callable[[Any], Any]] = {
    "model(_)": lambda v: _model("row")(v),
    "model(number)": lambda v: _model("number")(v),
    "model(buffer)": lambda v: _model("buffer")(v),
    "model.execute": lambda v: _model("row").execute(v),
    "model(input0=_)": lambda v: _model("row")(input0=v),
    "model(x=_)": lambda v: _model("row")(x=v),
    "model.profile": lambda v: _model("row").profile(v, runs=1),
    "a weight": _weighed,
    "a weight of a product": _product,
    "load": lambda v: _session().load(v),
    "weights_registry": lambda v: _session().load(_plain(), weights_registry=v),
    "options": lambda v: _session().load(_plain(), options=v),
    "custom_extensions": lambda v: _session().load(_plain(), custom_extensions=v),
    "devices": lambda v: engine.InferenceSession(devices=v),
    "num_threads": lambda v: engine.InferenceSession(num_threads=v),
    "Tensor(_)": lambda v: Tensor(v, [2]),
    "Tensor(shape)": lambda v: Tensor(F32, v),
    "Tensor(size)": lambda v: Tensor(F32, [v]),
    "Tensor(device)": lambda v: Tensor(F32, [2], v),
    "zeros": lambda v: Tensor.zeros(v, F32),
    "zeros(dtype)": lambda v: Tensor.zeros([2], v),
    "scalar": lambda v: Tensor.scalar(v, F32),
    "scalar(int)": lambda v: Tensor.scalar(v, I64),
    "scalar(dtype)": lambda v: Tensor.scalar(1, v),
    "from_numpy": Tensor.from_numpy,
    "from_dlpack": Tensor.from_dlpack,
    "view(dtype)": lambda v: _tensor().view(v),
    "view(shape)": lambda v: _tensor().view(F32, v),
    "tensor[_]": lambda v: _tensor()[v],
    "tensor[_:]": lambda v: _tensor()[v:],
    "tensor[::_]": lambda v: _tensor()[::v],
    "tensor[0, _]": lambda v: _tensor()[0, v],
    "tensor[_] = 1": lambda v: _stored(v, 1),
    "tensor[...] = _": lambda v: _stored(..., v),
    "tensor[0] = _": lambda v: _stored(0, v),
    "to": lambda v: _tensor().to(v),
    "copy": lambda v: _tensor().copy(v),
    "inplace_copy_from": lambda v: _tensor().inplace_copy_from(v),
    "__dlpack__(max_version)": lambda v: _tensor().__dlpack__(max_version=v),
    "__dlpack__(dl_device)": lambda v: _tensor().__dlpack__(dl_device=v),
    "__dlpack__(copy)": lambda v: _tensor().__dlpack__(copy=v),
    "__dlpack__(stream)": lambda v: _tensor().__dlpack__(stream=v),
    "CPU": driver.CPU,
    "Accelerator": driver.Accelerator,
    "simulated": lambda v: driver.simulated(v).__enter__(),
}  # fmt: skip
"""What takes a value, by what it looks like."""


def swept(name: str, values: Mapping[str, Callable[[], Any]] = BAD) -> Iterator[Finding]:
    """What goes wrong when each of ``values`` is given to the entry ``name``."""
    for label, make in values.items():
        found = answer(name, label, partial(ENTRIES[name], make()))
        if found is not None:
            yield found
