"""The file beside the code of a graph: weights and long constants, as safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from maxlab.errors import GraphError
from maxlab.graph.code.calls import primitive
from maxlab.graph.code.literals import dim, has_layout, literal, uniform
from maxlab.graph.code.text import Node, call, items, string
from maxlab.graph.operands import to_numpy
from maxlab.graph.weights.declared import DeclaredWeights
from maxlab.graph.weights.safetensors import SafetensorWeights
from maxlab.graph.weights.writing import write_safetensors
from maxlab.ir import DeviceRef, Dim, Op
from maxlab.opset import is_constant
from maxlab.opset.core import Array

MANY: Final = 64
"""Elements of a constant that is written as numbers where there is a file for longer ones."""
LONG: Final = 4096
"""Bytes of a constant that is written as numbers where there is none."""
_TAKEN: Final = frozenset({*dir(SafetensorWeights), *dir(DeclaredWeights)})


class Store:
    """The weights and constants that are kept in a file.

    Args:
        weights: The data of weights by their names; None where it stays elsewhere.
        has_file: Whether there is a file that can keep anything.
    """

    def __init__(self, weights: Mapping[str, Any] | None, has_file: bool) -> None:
        self._weights = weights
        self._has_file = has_file
        self._constants: dict[str, Op] = {}
        self._read: dict[str, Op] = {}

    # ------------------------------------------------------------ constants
    def keeps(self, op: Op) -> bool:
        """Whether ``op`` is a constant that is kept in the file.

        Raises:
            GraphError: ML839, it is, and there is no file.
        """
        if not is_constant(op):
            return False
        constant = op.attrs["value"]
        array = constant.array
        is_short = array.size <= MANY if self._has_file else array.nbytes <= LONG
        if is_short or uniform(array) is not None:
            return False
        if not self._has_file:
            raise GraphError(
                "ML839",
                f"the constant {op.id} has {array.nbytes:,} bytes, and code without a "
                f"file beside it has constants of up to {LONG:,}",
                at=op.loc,
                fix="write the code to a file: graph.to_python('net.py') puts long constants into "
                "net.safetensors",
            )
        self._constants.setdefault(constant.digest, op)
        return True

    def number(self, op: Op) -> int:
        """The number of the constant ``op`` in the file."""
        return list(self._constants).index(op.attrs["value"].digest)

    # ------------------------------------------------------------ weights
    @property
    def has_weights(self) -> bool:
        """Whether the file has the data of weights."""
        return self._weights is not None

    def read(self, op: Op) -> None:
        """Know that the weight ``op`` is read.

        Raises:
            GraphError: ML839, its data is not among the weights.
        """
        name = op.attrs["name"]
        self._read.setdefault(name, op)
        if self._weights is not None and name not in self._weights:
            raise GraphError(
                "ML839",
                f"there is no data for the weight {name!r}",
                at=op.loc,
                fix="give the data of all weights, to_python(path, weights=model.weights), or of "
                "none: the code then declares them",
            )

    @property
    def is_used(self) -> bool:
        """Whether the file has anything."""
        return bool(self._constants or (self._read and self.has_weights))

    @property
    def constants(self) -> bool:
        """Whether the file has constants."""
        return bool(self._constants)

    # ------------------------------------------------------------ the file
    def save(self, path: Path) -> None:
        """Write the file.

        Raises:
            GraphError: ML839, the data of a weight is not of its type.
            FileError: ML003, it cannot be written.
        """
        arrays: dict[str, Array] = {}
        for name, op in self._read.items() if self._weights is not None else ():
            assert self._weights is not None
            arrays[name] = _of_type(op, self._weights[name])
        for number, op in enumerate(self._constants.values()):
            arrays[f"constants.{number}"] = np.asarray(op.attrs["value"].array, order="C")
        write_safetensors(path, arrays)


def _of_type(op: Op, data: Any) -> Array:
    type = op.attrs["type"]
    if not hasattr(data, "__dlpack__") and hasattr(data, "data"):
        data = data.data
    array = np.asarray(to_numpy(data), order="C")
    wanted = tuple(int(size) for size in type.shape)
    if array.dtype != type.dtype.ml_numpy or array.shape != wanted:
        raise GraphError(
            "ML839",
            f"the data of the weight {op.attrs['name']!r} is {array.dtype}{list(array.shape)}, "
            f"expected {type.dtype.name}{list(wanted)}",
            at=op.loc,
            fix="give the data that the graph was built for",
        )
    return array


# ---------------------------------------------------------------- names
def parts_of_name(name: str) -> tuple[str, ...]:
    """The parts of the name of a weight."""
    return tuple(name.split("."))


def is_attribute(part: str) -> bool:
    """Whether ``part`` of a name can be written as an attribute of weights."""
    from maxlab.graph.code.naming import identifier

    return part not in _TAKEN and identifier(part) == part and part.isascii()


def is_plain(op: Op) -> bool:
    """Whether the weight ``op`` is one that ``allocate`` makes."""
    attrs = op.attrs
    return (
        set(attrs) <= {"name", "type", "placeholder"}
        and not attrs["placeholder"]
        and all(parts_of_name(attrs["name"]))
        and attrs["type"].device == DeviceRef.CPU()
        and not has_layout(attrs["type"])
    )


def odd(op: Op) -> Node:
    """The expression of a weight that ``allocate`` does not make."""
    attrs = op.attrs
    type = attrs["type"]
    on_host = type.device == DeviceRef.CPU() and not has_layout(type)
    if set(attrs) <= {"name", "type", "placeholder", "align"} and on_host:
        args = [string(attrs["name"]), literal(type.dtype), items(dim(Dim(d)) for d in type.shape)]
        more: dict[str, Node] = {}
        if attrs.get("align") is not None:
            more["align"] = literal(attrs["align"])
        if attrs["placeholder"]:
            more["_placeholder"] = literal(True)
        return call("Weight", *args, **more)
    if set(attrs) == {"name", "type", "placeholder"} and not attrs["placeholder"]:
        return call("ops.constant_external", string(attrs["name"]), literal(type))
    return primitive(op, [])


__all__ = ["Store", "is_attribute", "is_plain", "odd", "parts_of_name"]
