"""The order of effects: a chain for each device of a graph."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from maxlab.errors import ArgumentTypeError
from maxlab.graph.journal import Noted
from maxlab.graph.value import _ChainValue, wrap
from maxlab.graph.writer import Writer
from maxlab.ir import ChainType, DeviceRef, Function, Op
from maxlab.ir import Value as IrValue
from maxlab.opset import is_chain, named

_READY = "chain of nothing"


class DeviceChains(MutableMapping[DeviceRef, _ChainValue]):
    """The newest chain of each device of a graph; a device gets its first one when it is asked for.

    Example:
        >>> from maxlab.graph import DeviceRef, Graph
        >>> with Graph("g") as graph:
        ...     graph.device_chains[DeviceRef.CPU()]
        ChainValue(!mo.chain)
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.newest: Noted[DeviceRef, IrValue] = Noted(writer.journal)
        self.first: Noted[DeviceRef, IrValue] = Noted(writer.journal)

    def __getitem__(self, device: Any) -> _ChainValue:
        chain: _ChainValue = wrap(self.of(DeviceRef.from_device(device)))
        return chain

    def of(self, device: DeviceRef) -> IrValue:
        """The newest chain of ``device``, where ops go now."""
        found = self.newest.get(device)
        if found is None:
            with self._writer.at_root():
                made = self._writer.append(named("chain"), [], [ChainType()], {"device": device})
            found = self.first[device] = self.newest[device] = made.result
        return self._writer.reached(found)

    def __setitem__(self, device: Any, chain: _ChainValue) -> None:
        value = self._writer.own(chain)
        if not isinstance(value.type, ChainType):
            raise ArgumentTypeError(
                "ML324", f"the value is {value.type}, not a chain", fix="pass a value of a chain"
            )
        self.newest[DeviceRef.from_device(device)] = value

    def __delitem__(self, device: Any) -> None:
        del self.newest[DeviceRef.from_device(device)]

    def __iter__(self) -> Iterator[DeviceRef]:
        return iter(self.newest)

    def __len__(self) -> int:
        return len(self.newest)

    def __repr__(self) -> str:
        chains = ", ".join(f"{device}: %{chain.id}" for device, chain in self.newest.items())
        return f"{{{chains}}}"

    def ready(self) -> _ChainValue:
        """A chain that is behind nothing, where ops go now; the same one each time."""
        state = self._writer.state
        made: _ChainValue | None = state.get(_READY)
        if made is None or made._ir().block is None:  # an undo took it back
            with self._writer.at_root():
                made = wrap(self._writer.append(named("chain"), [], [ChainType()], {}).result)
            state[_READY] = made
        if not self._writer.regions:
            return made
        inside: _ChainValue = wrap(self._writer.reached(made._ir()))
        return inside

    def read(self, function: Function) -> None:
        """Know the chains of a function that was read from a file, or edited, and no others."""
        for known in (self.newest, self.first):
            for device in [device for device, chain in known.items() if chain.block is None]:
                del known[device]
        places: dict[IrValue, DeviceRef] = {}
        for op in function.ops:
            self.follow(op, places)

    def follow(self, op: Op, places: dict[IrValue, DeviceRef]) -> None:
        """Know the chains that ``op`` makes; ``places`` has the devices of the chains so far."""
        taken = [places.get(v) for v in op.operands if isinstance(v.type, ChainType)]
        if is_chain(op):
            taken = [op.attrs.get("device")]
        made = [v for v in op.results if isinstance(v.type, ChainType)]
        for value, place in zip(made, taken, strict=False):  # one behind each that it takes
            if place is not None:
                places[value] = place
                self.newest[place] = value


__all__ = ["DeviceChains"]
