"""A builder that builds nothing: it counts ops and infers their types.

It knows of no graph. Whatever is written for ``opset.builder.Builder`` can be driven with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import Location
from maxlab.graph import ops
from maxlab.graph.build import as_tensor
from maxlab.graph.kernel_library import gathered
from maxlab.graph.operands import data_of
from maxlab.graph.value import TensorValue, Value, wrap
from maxlab.ir import Block, Constant, DeviceRef, Dim, StaticDim, Type
from maxlab.ir import Value as IrValue
from maxlab.opset import lookup
from maxlab.opset.builder import enter, leave
from maxlab.opset.inference import inferred

Made = tuple[str, tuple[str, ...]]
"""The name of an op and the types of its results."""


class Counting:
    """Counts ops. It takes what ``Graph`` takes, as far as tests need it.

    Attributes:
        made: Every op that was counted, in order.
    """

    ops = ops

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any] | None = None,
        input_types: Sequence[Type] = (),
        custom_extensions: Any = (),
    ) -> None:
        self.name = name
        self.made: list[Made] = []
        self.state: dict[str, Any] = {}
        self.kernels = gathered(custom_extensions)
        self.inputs = [self._value(type) for type in input_types]
        self._known: dict[IrValue, Any] = {}
        self._weights: dict[str, tuple[Any, Value]] = {}
        if forward is not None:
            with self:
                self.output(forward(*self.inputs))

    def __enter__(self) -> Counting:
        enter(self)
        return self

    def __exit__(self, *error: object) -> None:
        leave(self)

    def _value(self, type: Type) -> Any:
        return wrap(IrValue("", type, Block(), 0))

    def output(self, *values: Value) -> None:
        """Keep what callers get."""
        self.outputs = [value.type for value in values]

    def add_subgraph(self, name: str, forward: Any, types: Sequence[Type]) -> Counting:
        """What ``call`` calls."""
        return Counting(name, forward, types)

    def tensor(self, x: Any, what: str = "the operand") -> TensorValue:
        return as_tensor(self, x, what)

    def literal(self, x: Any, dtype: DType, device: DeviceRef) -> Any:
        return self.op("constant", [], value=Constant(data_of(x, dtype)), device=device)[0]

    def type_of(self, value: Value) -> Type:
        return value.type

    def op(self, name: str, operands: Sequence[Value], /, **attrs: Any) -> tuple[Any, ...]:
        row = lookup(f"mo.{name}")
        types = inferred(row, [operand._ir().type for operand in operands], attrs)
        self.made.append((row.name, tuple(map(str, types))))
        made = tuple(map(self._value, types))
        if name in ("constant", "dim"):
            self._known[made[0]._ir()] = attrs["dim"] if name == "dim" else attrs["value"].array
        return made

    def region(self, what: str, arguments: Sequence[Value | Type], body: Callable[..., Any]) -> Any:
        return body(*(self._value(x if isinstance(x, Type) else x.type) for x in arguments))

    def control(
        self, name: str, operands: Sequence[Value], regions: Sequence[Any], /, **attrs: Any
    ) -> tuple[Any, ...]:
        return self.op(name, operands, **attrs)

    def call(self, body: Counting, arguments: Sequence[Value], prefix: str) -> tuple[Any, ...]:
        self.made += body.made
        return tuple(map(self._value, body.outputs))

    def weight(self, weight: Any) -> Any:
        if weight.name not in self._weights:
            facts = {"name": weight.name, "type": weight.type, "placeholder": False}
            self._weights[weight.name] = weight, self.op("constant.external", [], **facts)[0]
        return self._weights[weight.name][1]

    def has_weight(self, weight: Any) -> bool:
        return weight.name in self._weights

    def known_dim(self, value: Value) -> Dim | None:
        known = self._known.get(value._ir())
        return known if known is None or isinstance(known, Dim) else StaticDim(int(known))

    def known_data(self, value: Value) -> np.ndarray[Any, Any] | None:
        known = self._known.get(value._ir())
        return None if isinstance(known, Dim) else known

    def dim_names(self) -> Collection[str]:
        return [p.name for x in self.inputs for p in x.type.parameters]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        count, state = len(self.made), dict(self.state)
        try:
            yield
        except BaseException:
            del self.made[count:]
            self.state = state
            raise

    @contextmanager
    def at(self, place: Location | None, scope: str) -> Iterator[None]:
        yield
