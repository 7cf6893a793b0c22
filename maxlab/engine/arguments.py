"""Arguments of a model's call: its inputs as tensors, and the errors for wrong ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from maxlab.compiler import Compiled
from maxlab.driver import Tensor
from maxlab.driver.device import DeviceStream
from maxlab.dtype import check_scalar
from maxlab.engine.handles import Handles
from maxlab.engine.ownership import is_copy
from maxlab.engine.times import plural
from maxlab.errors import InputError, InputTypeError
from maxlab.ir import DeviceRef


class Arguments:
    """Checks the inputs of a model.

    Args:
        streams: By its number, the stream in whose order each input is read.
        on_host: Whether the graph names no device but the host.
        handles: Which inputs are opaque handles, if any are.

    Attributes:
        name: The name of the graph.
        compiled: The graph, its kernels and its plan.
        count: How many inputs there are.
        expected: Of each input, its number, dtype, rank, the bits that no address of it has, and
            its stream. No dtype is that of a handle, which is looked at more closely.
        is_plain: Whether there is nothing else to look at: none is stored into, or a handle.
    """

    __slots__ = (
        "_apart",
        "_handles",
        "_inputs",
        "_on_host",
        "_streams",
        "_written",
        "compiled",
        "count",
        "expected",
        "is_plain",
        "name",
    )

    def __init__(
        self,
        compiled: Compiled,
        streams: Sequence[DeviceStream],
        on_host: bool,
        handles: Handles | None,
    ) -> None:
        facts = compiled.plan.facts
        self.name = facts.name
        self.compiled = compiled
        self._streams = tuple(streams)
        self._on_host = on_host
        self._handles = handles
        self._inputs = [(x.dtype, len(x.shape)) for x in facts.inputs]
        handed = handles.inputs if handles is not None else {}
        self.expected = tuple(
            (n, None if n in handed else dtype, rank, dtype.size_in_bytes - 1, stream)
            for n, ((dtype, rank), stream) in enumerate(zip(self._inputs, streams, strict=True))
        )
        self.count = len(self._inputs)
        self._written = facts.written
        self._apart = facts.apart
        self.is_plain = handles is None and not facts.written

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The inputs in their order, of which ``kwargs`` are given by name.

        Raises:
            InputTypeError: ML604, a missing, unknown or doubled input.
        """
        names = [v.name for v in self.compiled.plan.facts.inputs]
        bound = dict(zip(names, args, strict=False))
        if len(args) > len(names):
            raise InputTypeError(
                "ML604",
                f"{self.name!r} takes {plural(len(names), 'input')}, got {len(args)} by position",
                fix=f"its inputs are {', '.join(names)}" if names else "it has no inputs",
            )
        for name, value in kwargs.items():
            if name not in names:
                raise InputTypeError(
                    "ML604",
                    f"{self.name!r} has no input {name!r}",
                    fix=f"its inputs are {', '.join(names)}",
                )
            if name in bound:
                raise InputTypeError(
                    "ML604",
                    f"the input {name!r} of {self.name} is given twice",
                    fix="give it by position or by name",
                )
            bound[name] = value
        missing = [n for n in names if n not in bound]
        if missing:
            raise InputTypeError(
                "ML604",
                f"{self.name!r} misses the input {missing[0]!r}",
                fix=f"its inputs are {', '.join(names)}",
            )
        return tuple(bound[n] for n in names)

    def accepted(self, args: Sequence[Any]) -> tuple[list[Tensor], tuple[Any, ...]]:
        """The inputs as tensors in the order of their streams, everything about them checked but
        their sizes; and their shapes.

        Raises:
            InputError: A wrong number of inputs, or one of the wrong dtype, rank, layout or device.
            InputTypeError: An input of a type that is no tensor.
        """
        if len(args) != self.count:
            self._refuse_count(args)
        tensors = []
        shapes = []
        for position, dtype, rank, unaligned, stream in self.expected:
            given = args[position]
            x = given if given.__class__ is Tensor else self.convert(position, given)
            if (
                x._dtype is not dtype
                or len(x._shape) != rank
                or x._strides is not None
                or x._stream is not stream
                or x.address & unaligned
            ):
                x = self._placed(position, x, given)
            tensors.append(x)
            shapes.append(x._shape)
        if self._written:
            self._require_own(args, tensors)
        return tensors, tuple(shapes)

    def _require_own(self, args: Sequence[Any], tensors: Sequence[Tensor]) -> None:
        """Raises if an input to be changed is read-only, a copy, or overlaps another.

        Raises:
            InputError: ML780, memory that is only read, or a copy; ML781, two inputs share memory.
        """
        ends = [(x.address, x.address + x._nbytes()) for x in tensors] if self._written else []
        for position in self._written:
            x = tensors[position]
            why = ""
            if x.read_only:
                why = "its memory is read-only"
            elif is_copy(args[position], x):
                why = "the model would change a copy of it, which nobody sees"
            if why:
                raise InputError(
                    "ML780",
                    f"the model stores into input {position} ({self._name(position)}), and {why}",
                    fix="pass a contiguous, aligned array that may be written, or a driver.Tensor",
                )
            first, end = ends[position]
            for other, (start, stop) in enumerate(ends):
                if other == position or start >= end or stop <= first:
                    continue
                if first == end or start == stop:
                    continue
                is_buffer = self.compiled.plan.facts.inputs[other].is_buffer
                if is_buffer and (position, other) not in self._apart:
                    continue  # loads and stores are in order, whatever they are called
                raise InputError(
                    "ML781",
                    f"the model stores into input {position} ({self._name(position)}), which "
                    f"shares memory with input {other} ({self._name(other)}), "
                    f"{'which the same kernel takes' if is_buffer else 'a tensor'}",
                    fix="pass a copy of one of them, or give the graph one input of BufferType",
                )

    def copies(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """``tensors``, the inputs, with copies of those that the model stores into."""
        return [x.copy() if n in self._written else x for n, x in enumerate(tensors)]

    def placed(self, arrays: Sequence[Any]) -> list[Tensor]:
        """The inputs ``arrays``, which are on the host, on the devices that they are taken on."""
        streams = enumerate(zip(arrays, self._streams, strict=True))
        return [self.convert(n, x).to(stream) for n, (x, stream) in streams]

    def _name(self, position: int) -> str:
        return self.compiled.plan.facts.inputs[position].name

    def convert(self, position: int, x: Any) -> Tensor:
        """Input ``position`` as a tensor, without copying what has memory of its own."""
        dtype, rank = self._inputs[position]
        name = self.compiled.plan.facts.inputs[position].name
        if self._handles is not None and position in self._handles.inputs:
            return self._handles.tensor(position, x)
        if isinstance(x, np.ndarray):
            if not x.flags.c_contiguous:
                raise InputError(
                    "ML606",
                    f"input {position} ({name}) is not contiguous (strides {x.strides})",
                    fix="pass numpy.ascontiguousarray(x)",
                )
            return Tensor.from_numpy(x)
        if isinstance(x, (bool, int, float, np.generic)):
            if rank:
                raise InputError(
                    "ML610",
                    f"input {position} ({name}) is a number, expected {self._type(position)}",
                    fix="pass an array of that rank",
                )
            return Tensor.from_numpy(np.asarray(check_scalar(x, dtype), dtype.ml_numpy))
        if isinstance(x, Tensor):
            return x
        if hasattr(x, "__dlpack__"):
            return Tensor.from_dlpack(x)  # whose layout is looked at next
        if hasattr(x, "__cuda_array_interface__"):
            return Tensor.from_dlpack(x)
        raise InputTypeError(
            "ML607",
            f"input {position} ({name}) is {type(x).__name__}, expected a tensor",
            fix="pass a NumPy array, a driver.Tensor, or anything with __dlpack__",
        )

    def _type(self, position: int) -> str:
        return self.compiled.plan.facts.inputs[position].type

    def _refuse_count(self, args: Sequence[Any]) -> NoReturn:
        names = ", ".join(v.name for v in self.compiled.plan.facts.inputs)
        raise InputError(
            "ML605",
            f"{self.name!r} takes {plural(self.count, 'input')}, got {len(args)}",
            fix=f"its inputs are {names}" if names else "it has no inputs",
        )

    def _placed(self, position: int, x: Tensor, given: Any) -> Tensor:
        """Input ``position`` in the order of its stream, if nothing else is wrong with it.

        Raises:
            InputError: ML606, ML608, ML609 or ML610, its layout, device, dtype or rank.
            InputTypeError: ML786, it is no handle of its type.
        """
        dtype, rank = self._inputs[position]
        stream = self._streams[position]
        what = f"input {position} ({self._name(position)})"
        if self._handles is not None and position in self._handles.inputs:
            self._handles.require(position, x)
        elsewhere = x.device is not stream.device
        if elsewhere and (self._on_host or isinstance(given, Tensor) or x.shape):
            raise self._misplaced(what, x, given, stream)
        if x._dtype is not dtype:
            raise InputError(
                "ML609",
                f"{what} has the dtype {x._dtype.name}, expected {dtype.name}",
                fix=f"convert it: x.astype({dtype.name!r})",
            )
        if len(x._shape) != rank:
            raise InputError(
                "ML610",
                f"{what} has rank {len(x._shape)} (shape {list(x._shape)}), "
                f"expected {self._type(position)}",
                fix=f"reshape it, or declare an input of rank {len(x._shape)}",
            )
        if not x.is_contiguous:
            raise InputError("ML606", f"{what} is not contiguous", fix="pass x.contiguous()")
        if x.address & (dtype.size_in_bytes - 1):
            raise InputError(
                "ML606",
                f"{what} is not aligned: its elements of {dtype.size_in_bytes} bytes begin at "
                f"{x.address:#x}",
                fix="pass x.copy()",
            )
        if elsewhere:
            return x.to(stream.device)  # a number
        return x.in_order_of(stream)

    def _misplaced(self, what: str, x: Tensor, given: Any, stream: DeviceStream) -> InputError:
        """The error for an input that is not on the device that the graph takes it on."""
        if self._on_host:
            return InputError(
                "ML608",
                f"{what} lives on {x.device}, the graph runs on the CPU",
                fix="pass x.to(driver.CPU())",
            )
        place = DeviceRef.from_device(stream.device).driver_call
        return InputError(
            "ML608",
            f"{what} lives on {x.device}, the graph takes it on {stream.device}",
            why=["they were opened before and after devices were chosen anew, and are two devices"]
            if str(x.device) == str(stream.device)
            else [],
            fix=f"copy it there: driver.Tensor.from_numpy(x).to({place})"
            if not isinstance(given, Tensor)
            else f"copy it there: x.to({place})",
        )
