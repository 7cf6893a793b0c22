"""The weights of a graph: which there are, and the values that stand for them."""

from __future__ import annotations

from typing import Any

from maxlab.errors import GraphError
from maxlab.graph.journal import Noted
from maxlab.graph.weight import Weight, shard_as
from maxlab.graph.writer import Writer
from maxlab.ir import DeviceRef, Op, TensorType
from maxlab.ir import Value as IrValue
from maxlab.opset import is_transfer, lookup, named


class WeightTable:
    """Weights by name, with the value of each in one function."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.weights: Noted[str, Weight] = Noted(writer.journal)
        self.values: Noted[str, IrValue] = Noted(writer.journal)

    def add(self, weight: Weight, on_host: bool) -> IrValue:
        """The value of ``weight``; the same one each time.

        Args:
            weight: The weight.
            on_host: Whether a weight of another device starts on the CPU and is moved.

        Raises:
            GraphError: ML321, another weight has this name.
        """
        name = weight.name
        known = self._known(name)
        if known is not None:
            if not weight._stands_for(known):
                raise self._name_taken(name)
            return self.values[name]
        device: DeviceRef = weight.device
        host = on_host and not device.is_cpu()
        type = TensorType(weight.dtype, weight.shape, DeviceRef.CPU() if host else device)
        attrs = {"name": name, "type": type, "placeholder": weight._placeholder}
        attrs |= weight._more_attrs()
        with self._writer.at_root():
            value = self._external(attrs)
            if host:
                value = self._moved(value, device)
        self.weights[name] = weight
        self.values[name] = value
        return value

    def of_call(self, callee: WeightTable, callee_name: str, op: Op, prefix: str) -> IrValue | None:
        """The value here of ``op``, a weight of the graph ``callee_name`` that is called with
        ``prefix``; None for one that no weight of it stands for."""
        name, type = op.attrs["name"], op.attrs["type"]
        if op.attrs["placeholder"]:
            full = prefix + name
            if self._known(full) is not None:
                # on the host first: the constant, not its copy on the device, is what it calls
                value = _source(self.values[full])
                if value.type != type:
                    raise GraphError(
                        "ML321",
                        f"the weight {full!r} is {value.type} here and {type} in {callee_name!r}",
                        fix="give the weights different names, or call with another prefix",
                    )
                return value
            if "part" in op.attrs:
                placeholder: Weight = shard_as(op, prefix)
            else:
                align = op.attrs.get("align")
                placeholder = Weight(full, type.dtype, type.shape, type.device, align=align)
            return self.add(placeholder, on_host=False)
        weight = callee.weights.get(name)
        if weight is None:
            return None
        known = self._known(name)
        if known is not None:
            if not weight._stands_for(known):
                raise self._name_taken(name)
            return _source(self.values[name])
        made = self._external(op.attrs)
        # the subgraph moves it to its device itself
        self.weights[name] = weight
        with self._writer.at_root():
            moved = weight.device != made.tensor_type.device
            self.values[name] = self._moved(made, weight.device) if moved else made
        return made

    def _known(self, name: str) -> Weight | None:
        """The weight of this name; None where there is none, or where its value was removed."""
        found = self.weights.get(name)
        return found if found is not None and self.values[name].block is not None else None

    def _external(self, attrs: dict[str, Any]) -> IrValue:
        value = self._writer.op(lookup(named("weight")), [], attrs).result
        value.rename(attrs["name"])
        return value

    def _moved(self, value: IrValue, device: DeviceRef) -> IrValue:
        return self._writer.op(lookup(named("transfer")), [value], {"device": device}).result

    def _name_taken(self, name: str) -> GraphError:
        return GraphError(
            "ML321",
            f"the graph {self._writer.owner.name!r} already has another weight named {name!r}",
            fix="give each weight a name of its own; modules do that for you",
        )


def _source(value: IrValue) -> IrValue:
    """The weight itself where ``value`` is its copy on another device."""
    op = value.op
    assert op is not None
    return op.operands[0] if is_transfer(op) else value


__all__ = ["WeightTable"]
