"""The order of effects: a chain for each device of a graph, and how ops with effects are added."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from maxlab import opset
from maxlab.errors import ArgumentTypeError, DTypeError, ShapeError
from maxlab.graph.build import explain, require_graph
from maxlab.ir import ChainType, DeviceRef, Function, Op, Type
from maxlab.ir import Value as IrValue
from maxlab.opset.effects import CHAIN

if TYPE_CHECKING:
    from maxlab.graph.staging import Staging
    from maxlab.graph.value import BufferValue, _ChainValue


class _DeviceChainMap(MutableMapping[DeviceRef, "_ChainValue"]):
    """The newest chain of each device of a graph; a device gets its first one when it is asked for.

    Example:
        >>> from maxlab.graph import DeviceRef, Graph
        >>> with Graph("g") as graph:
        ...     graph.device_chains[DeviceRef.CPU()]
        ChainValue(!mo.chain)
    """

    def __init__(self, graph: Staging) -> None:
        self._graph = graph
        self._newest: dict[DeviceRef, IrValue] = {}
        self._first: dict[DeviceRef, IrValue] = {}

    def __getitem__(self, device: Any) -> _ChainValue:
        from maxlab.graph.value import wrap

        place = DeviceRef.from_device(device)
        found = self._newest.get(place)
        if found is None:
            with self._graph._at_root():
                made = self._graph._append(CHAIN, [], [ChainType()], {"device": place})
            found = self._first[place] = self._newest[place] = made._ir()
        chain: _ChainValue = wrap(self._graph._reached(found))
        return chain

    def __setitem__(self, device: Any, chain: _ChainValue) -> None:
        value = self._graph._own(chain)
        if not isinstance(value.type, ChainType):
            raise ArgumentTypeError(
                "ML324", f"the value is {value.type}, not a chain", fix="pass a value of a chain"
            )
        self._newest[DeviceRef.from_device(device)] = value

    def __delitem__(self, device: Any) -> None:
        del self._newest[DeviceRef.from_device(device)]

    def __iter__(self) -> Iterator[DeviceRef]:
        return iter(self._newest)

    def __len__(self) -> int:
        return len(self._newest)

    def __repr__(self) -> str:
        chains = ", ".join(f"{device}: %{chain.id}" for device, chain in self._newest.items())
        return f"{{{chains}}}"

    def read(self, function: Function) -> None:
        """Know the chains of a function that was read from a file."""
        places: dict[IrValue, DeviceRef] = {}
        for op in function.ops:
            self.follow(op, places)

    def follow(self, op: Op, places: dict[IrValue, DeviceRef]) -> None:
        """Know the chains that ``op`` makes; ``places`` has the devices of the chains so far."""
        taken = [places.get(v) for v in op.operands if isinstance(v.type, ChainType)]
        if op.name == CHAIN:
            taken = [op.attrs.get("device")]
        made = [v for v in op.results if isinstance(v.type, ChainType)]
        for value, place in zip(made, taken, strict=False):  # one behind each that it takes
            if place is not None:
                places[value] = place
                self._newest[place] = value


def effect(name: str, operands: Sequence[Any], device: DeviceRef, /, **attrs: Any) -> list[Any]:
    """The results of a new op ``mo.<name>`` with an effect on ``device``, without its chain; see
    `effects`.
    """
    return effects(name, operands, [device], **attrs)


def effects(
    name: str, operands: Sequence[Any], devices: Sequence[DeviceRef], /, **attrs: Any
) -> list[Any]:
    """The results of a new op ``mo.<name>`` with an effect on each of ``devices``, without its
    chains.

    Raises:
        NoGraphError: No graph is being built.
        GraphError: ML314, an operand belongs to another graph.
        MaxlabError: What the op's type rule says.
    """
    graph = require_graph(f"ops.{name.replace('.', '_')}")
    row = opset.lookup(f"mo.{name}")
    values = [graph._own(operand) for operand in operands]
    types: list[Any] = [v.type for v in values if not isinstance(v.type, ChainType)]
    try:
        results: list[Type] = [*row.infer(types, attrs), *(ChainType() for _ in devices)]
    except (DTypeError, ShapeError) as error:
        explain(error, values)
        raise
    chains = [graph.device_chains[device]._ir() for device in devices]
    made = graph._append(row.name, [*values, *chains], results, attrs)
    found = list(made) if isinstance(made, list) else [made]
    first = len(found) - len(devices)
    for device, chain in zip(devices, found[first:], strict=True):
        graph.device_chains[device] = chain
    return found[:first]


def buffer(x: Any, what: str) -> BufferValue:
    """``x`` as a buffer of the graph: one already, or an object that stands for one.

    Raises:
        ArgumentTypeError: ML776, anything else.
    """
    from maxlab.graph.value import BufferValue, HasBufferValue, Value

    if isinstance(x, HasBufferValue):
        x = x.__buffervalue__()
    if isinstance(x, BufferValue):
        return x
    found = f"{type(x).__name__} of {x.type}" if isinstance(x, Value) else type(x).__name__
    raise ArgumentTypeError(
        "ML776",
        f"{what} must be a buffer of the graph, got {found}",
        fix="make one with ops.buffer_create(type), or give the graph an input of BufferType",
    )


__all__ = ["_DeviceChainMap", "buffer", "effect", "effects"]
