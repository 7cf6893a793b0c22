"""The op that is no code of maxlab: a function of Python, called between the kernels of a graph.

Whatever imports models of other libraries uses it for what has no ops here. Its function gets
addresses, so that nothing is copied on the way there, and runs on the thread that runs the graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.errors import DeviceError
from maxlab.ir import Dim, HostCall, TensorType, Type
from maxlab.opset.attributes import DIM, TYPES, Attribute
from maxlab.opset.core import Array, Attrs, Call, Cost, define


def _infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    made: list[Type] = list(attrs["types"])
    call: HostCall = attrs["call"]
    for type in (*types, *(t for t in made if isinstance(t, TensorType))):
        if not type.device.is_cpu():
            raise DeviceError(
                "ML682",
                f"{call.name}: {call.kind} runs it on the CPU, got a tensor on {type.device}",
                fix="transfer the operand first: ops.transfer_to(x, DeviceRef.CPU())",
            )
    return made


def _reference(call: Call, *arrays: Array) -> list[Array]:
    results = [
        np.empty(shape, dtype.ml_numpy)
        for shape, dtype in zip(call.shapes, call.dtypes, strict=True)
    ]
    operands = [np.ascontiguousarray(x).reshape(x.shape) for x in arrays]
    every = [*results, *operands]
    host: HostCall = call.attrs["call"]
    host.run([x.ctypes.data for x in every], [x.shape for x in every])
    return results


def _cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
    return Cost(Dim(attrs["flops"]).poly)


define(
    "host",
    "host",
    "host",
    "What a function of Python makes of the operands; ``flops`` says how much work that is.",
    attrs={"call": Attribute("function"), "types": TYPES, "flops": DIM},
    role="host",
    label=lambda attrs: str(attrs["call"].name),
    shown=lambda attrs: {"run by": attrs["call"].kind},
    infer=_infer,
    reference=_reference,
    cost=_cost,
)
