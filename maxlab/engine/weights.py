"""Weights of a model: checked against the graph, used in place, and packed once for all models that
share them.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxlab import trace
from maxlab.compiler import Compiled
from maxlab.compiler.plan import Slot
from maxlab.driver import CPU, Device, Tensor
from maxlab.driver.mapped import LOST, FileMemory, let_go
from maxlab.engine.file_watch import Watch
from maxlab.engine.layout import room_on
from maxlab.engine.shards import Part, cut, is_whole_rows, view_of
from maxlab.errors import (
    ArgumentTypeError,
    ExecutionError,
    Location,
    MissingWeightError,
    WeightError,
)
from maxlab.ir import DeviceRef
from maxlab.ir.poly import Poly
from maxlab.toolchain import Runtime
from maxlab.toolchain.interrupts import STOPPED, raised


@dataclass(slots=True)
class Prepared:
    """Addresses of the slots that are data, what keeps their memory alive, and the weights that
    the graph declares, by name.
    """

    addresses: dict[int, int] = field(default_factory=dict)
    keep: list[Any] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    watch: Watch | None = None
    """The files that weights are mapped from; None when there are none."""
    again: Callable[[], Mapping[str, Tensor]] | None = None
    """Computes once more what was computed of the weights ahead of all runs, by name: where only
    packing read it, it is in memory no more, and its slot has no address."""


class PackedWeight:
    """A right operand of a product in column panels; shared by every model that packs the same
    memory alike.
    """

    __slots__ = ("__weakref__", "address", "memory", "nbytes", "owner")

    def __init__(self, memory: Any, address: int, nbytes: int, owner: Any) -> None:
        self.memory = memory
        self.owner = owner
        self.address = address
        self.nbytes = nbytes


PANEL = 32
"""Columns that are packed together (``MX_NR`` of mx_abi.h)."""
PACKED_AT_ONCE = 1 << 15
"""Numbers below which packing is not worth handing to another thread."""

_Key = tuple[str, int, tuple[int, ...], int, int]
"""The key of packed data: the kernel, the address, the sizes, the items and the bytes."""
_packed: weakref.WeakValueDictionary[_Key, PackedWeight] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def as_tensor(name: str, value: Any, at: Location | None, device: Device | None = None) -> Tensor:
    """The weight ``value`` as a tensor over its own memory, on the host or on ``device``.

    Raises:
        WeightError: ML611, not contiguous; ML612, not an array.
    """
    if isinstance(value, Tensor):
        tensor = value
    elif isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise WeightError(
                "ML611",
                f"the weight {name!r} is not contiguous (strides {value.strides})",
                at=at,
                fix="pass numpy.ascontiguousarray(weight)",
            )
        tensor = Tensor.from_numpy(value)
    elif hasattr(value, "__dlpack__"):
        tensor = Tensor.from_dlpack(value)
    elif hasattr(value, "to_tensor"):
        tensor = value.to_tensor()
    else:
        data = getattr(value, "data", None)
        if data is None or data is value or isinstance(data, memoryview):
            raise WeightError(
                "ML612",
                f"the weight {name!r} is {type(value).__name__}, expected an array",
                at=at,
                fix="pass a NumPy array, a driver.Tensor, or anything with __dlpack__",
            )
        return as_tensor(name, data, at, device)
    if not tensor.is_host and tensor.device is not device:
        raise WeightError(
            "ML608",
            f"the weight {name!r} lives on {tensor.device}, the graph takes it from "
            + ("the host" if device is None else f"the host or {device}"),
            at=at,
            fix="pass weight.to(driver.CPU())",
        )
    if tensor.address % tensor._dtype.size_in_bytes:
        raise WeightError(
            "ML611",
            f"the weight {name!r} is not aligned: its elements of {tensor._dtype.size_in_bytes} "
            f"bytes begin at {tensor.address:#x}",
            at=at,
            fix="pass weight.copy()",
        )
    if not tensor.is_contiguous:
        raise WeightError(
            "ML611", f"the weight {name!r} is not contiguous", at=at, fix="pass weight.contiguous()"
        )
    return tensor


def prepare(
    compiled: Compiled,
    registry: Mapping[str, Any],
    runtime: Runtime,
    threads: int,
    devices: Mapping[DeviceRef, Device] | None = None,
    computed: Mapping[str, Tensor] | None = None,
    packed: Mapping[int, PackedWeight] | None = None,
) -> Prepared:
    """The data of ``compiled``, with every weight it needs taken from ``registry``, on the devices
    by which the graph names them; a CPU that is not among ``devices`` is the host. ``computed`` has
    what was computed for the plan beforehand, under the names that it has there. ``packed`` has
    buffers that are packed already, by their numbers: what nothing but packing reads may be missing
    then.

    Raises:
        MissingWeightError: ML613, the registry does not have a weight.
        WeightError: A weight of another shape or dtype than the graph declares, or not contiguous;
            ML745, the graph declares it twice, with different types.
        WeightFileError: ML639 or ML641, the file of a weight has changed since it was mapped.
    """
    prepared = Prepared()
    devices, host = devices or {}, CPU()
    declared = compiled.plan.facts.weights
    tensors: dict[str, Tensor] = {}
    parts = {
        label: weight.part
        for label, weight in declared.items()
        if weight.part or label != weight.name
    }
    for weight in declared.values():
        name = weight.name
        if name not in registry:
            from maxlab.graph.weights.base import near_names

            close = next(iter(near_names(name, registry, 1)), None)
            raise MissingWeightError(
                "ML613",
                f"the weight {name!r} is not in the weights registry",
                at=weight.at,
                fix=f"did you mean {close!r}?"
                if close
                else "pass it in weights_registry={name: array}",
            )
        place = devices.get(weight.device)
        tensor = as_tensor(name, registry[name], weight.at, place)
        if tensor._dtype is not weight.dtype:
            raise WeightError(
                "ML614",
                f"the weight {name!r} has the dtype {tensor._dtype.name}, "
                f"the graph declares {weight.dtype.name}",
                at=weight.at,
                fix="convert the array, or declare the weight with its own dtype",
            )
        if weight.shape != tuple(map(Poly.constant, tensor.shape)):
            raise WeightError(
                "ML615",
                f"the weight {name!r} has the shape {list(tensor.shape)}, the graph declares "
                f"[{', '.join(map(str, weight.shape))}]",
                at=weight.at,
                fix="transpose or reshape the array, or declare the weight with its own shape",
            )
        tensors[name] = tensor
    prepared.tensors = tensors
    prepared.watch = watch = Watch.of(tensors, runtime)
    slots = compiled.plan.slots
    owners: dict[int, Tensor | UploadedWeight] = {}
    computed, packed = computed or {}, packed or {}
    ahead = compiled.plan.facts.ahead
    gone = frozenset(ahead.names if ahead is not None and packed else ()) - computed.keys()
    read = {number for step in compiled.plan.steps for number in step.pointers}
    passing: list[int] = []  # the slots that packing reads, and nobody else
    for slot in slots:
        part: Part = ()
        if slot.kind == "weight":
            if slot.name in gone:
                continue
            part = parts.get(slot.name, ())
            made = computed.get(slot.name)
            tensor = tensors[declared[slot.name].name] if made is None else made
        elif slot.kind == "constant":
            assert slot.data is not None
            tensor = Tensor.from_numpy(slot.data)
        else:
            continue
        home = devices.get(slot.device, host)
        if part and is_whole_rows(part, tensor.shape):  # it lies in one piece
            tensor, part = view_of(tensor, part), ()
        here = tensor
        owner: Tensor | UploadedWeight = tensor
        if not part and tensor.device is home:
            here = tensor.in_order_of(home.default_stream)  # models wait for what still writes it
        else:
            owner = copy = _uploaded(tensor, home, part)
            here = copy.tensor
        if slot.name in parts:
            tensors[slot.name] = here
        prepared.addresses[slot.number] = here.address
        if slot.kind == "weight" and slot.name in computed and slot.number not in read:
            passing.append(slot.number)
        else:
            prepared.keep.append(owner)
        owners[slot.number] = owner
    wanted: dict[Device, list[tuple[Slot, int, Any]]] = {}
    for slot in slots:
        if slot.number in packed:
            prepared.addresses[slot.number] = packed[slot.number].address
            prepared.keep.append(packed[slot.number])
        elif slot.kind == "packed" and slot.packing is not None:
            source = slots[slot.packing.source]
            holder: Any = owners[source.number] if source.kind == "weight" else source.data
            if source.number in passing:
                holder = None
            row = slot, prepared.addresses[source.number], holder
            wanted.setdefault(devices.get(slot.device, host), []).append(row)
    for home, rows in wanted.items():
        for (slot, _, _), made_now in zip(rows, _pack(rows, runtime, threads, home), strict=True):
            prepared.addresses[slot.number] = made_now.address
            prepared.keep.append(made_now)
    packed_from = {slot.packing.source for slot in slots if slot.packing is not None}
    sources = [owners[number] for number in packed_from if number in owners]  # not kept packed
    let_go(  # what lies in files is not held twice; rows that are read come back
        (x.address, x.num_elements * x.element_size) for x in sources if isinstance(x, Tensor)
    )
    for number in passing:
        del prepared.addresses[number]
    if watch is not None:  # all that was packed or copied came from files as they were
        watch.require_whole()
    return prepared


class UploadedWeight:
    """A weight or constant on a device. It holds the host's memory too, so that no other array can
    come to lie at the address it is known by.
    """

    __slots__ = ("__weakref__", "source", "tensor")

    def __init__(self, source: Tensor, tensor: Tensor) -> None:
        self.source = source
        self.tensor = tensor


_uploads: weakref.WeakValueDictionary[tuple[Device, int, int, Part], UploadedWeight] = (
    weakref.WeakValueDictionary()
)


def _uploaded(tensor: Tensor, device: Device, part: Part) -> UploadedWeight:
    """``tensor``, or the ``part`` of it, on ``device``; models share the copy of memory that nobody
    can write to."""
    key = (device, tensor.address, tensor.num_elements * tensor.element_size, part)
    shared = _never_changes(tensor)
    with _lock:
        found = _uploads.get(key) if shared else None
        if found is None:
            made = cut(tensor, part, device) if part else tensor.to(device)
            found = UploadedWeight(tensor, made)
            if shared:
                _uploads[key] = found
    return found


def _pack(
    wanted: Sequence[tuple[Slot, int, Any]], runtime: Runtime, threads: int, home: Device
) -> list[PackedWeight]:
    """The packed operands for ``wanted``: slots, addresses of what they are packed from, owners;
    in the memory of ``home``. What has no owner goes away, and its address is no name for it.

    They share one block of memory, which is large enough for huge pages, and are packed by all
    threads together. What another model has packed from the same memory is used instead when it is
    still equal: the array may have been changed since then.
    """
    found: dict[_Key, PackedWeight] = {}
    new: dict[_Key, Any] = {}
    keys: list[_Key] = []
    with _lock:
        for slot, address, owner in wanted:
            packing = slot.packing
            assert packing is not None
            key = (
                packing.kernel,
                address + packing.offset,
                packing.sizes,
                packing.items,
                packing.nbytes,
            )
            keys.append(key)
            known = _packed.get(key) if owner is not None else None
            if known is not None and _never_changes(owner):
                found[key] = known
            else:
                new[key] = owner
        if new:
            for key, made in _pack_new(new, runtime, threads, home).items():
                if new[key] is None:
                    found[key] = made
                    continue
                known = _packed.get(key)
                if known is not None and _equal(known, made, runtime):
                    found[key] = known
                else:
                    found[key] = _packed[key] = made
    return [found[key] for key in keys]


def _never_changes(owner: Any) -> bool:
    """Whether nobody can write to the memory of ``owner``: a constant of the graph, or a read-only
    array of its own or of a mapped file, but not a read-only view of memory that can be written.
    """
    if not isinstance(owner, Tensor):
        return True
    base: Any = owner.owner
    if not owner.read_only or not isinstance(base, np.ndarray):
        return False
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    try:
        if base is None or (view := memoryview(base)).readonly:
            return True
        return isinstance(view.obj, FileMemory) and not view.obj.writable
    except TypeError:  # it lends its memory in another way, and who knows whom else to
        return False


def _equal(one: PackedWeight, other: PackedWeight, runtime: Runtime) -> bool:
    first, second = (
        np.frombuffer(runtime.ffi.buffer(runtime.ffi.cast("char *", p.address), p.nbytes), np.uint8)
        for p in (one, other)
    )
    return bool(np.array_equal(first, second))


def _pack_new(
    owners: Mapping[_Key, Any], runtime: Runtime, threads: int, home: Device
) -> dict[_Key, PackedWeight]:
    ffi = runtime.ffi
    sizes = [nbytes for *_, nbytes in owners]
    places = [0, *itertools.accumulate(-(-size // 64) * 64 for size in sizes)]
    memory, base = room_on(home, runtime, places[-1])
    steps: list[tuple[Any, int, int, int, int, int, int]] = []
    dims: list[int] = []
    pointers: list[int] = []
    for place, (name, address, numbers, items, nbytes) in zip(places, owners, strict=False):
        kernel = ffi.cast("mx_fn", runtime.address(name))
        grain = max(-(-PACKED_AT_ONCE * items // max(nbytes // 4, 1)), 1)
        steps.append((kernel, len(pointers), len(dims), items, grain, 0, grain))
        pointers += [base + place, address]
        dims += numbers
    table = ffi.new("uintptr_t[]", pointers)
    with trace.span("pack", f"{len(steps)} weights", nbytes=places[-1]):
        code = runtime.lib.mx_execute(
            runtime.team(threads), ffi.new("mx_step[]", steps), len(steps),
            ffi.cast("void **", table), ffi.new("i64[]", dims), ffi.NULL, 0, ffi.NULL, 64,
            ffi.NULL, ffi.new("i64[6]"),
        )  # fmt: skip
    if code & ~LOST == STOPPED:
        raise raised()
    if code & ~LOST:  # `prepare` looks at the files
        raise ExecutionError(
            "ML651", f"the weights could not be packed: the executor's code is {code}",
            fix="free some memory and try again",
        )  # fmt: skip
    return {
        key: PackedWeight(memory, base + place, size, owner)
        for (key, owner), place, size in zip(owners.items(), places, sizes, strict=False)
    }


def weights_in(registry: Any) -> Mapping[str, Any]:
    """``registry``, what users give as the weights of a model; nothing for None.

    Raises:
        ArgumentTypeError: ML612, it has no weights by name.
    """
    found = registry if registry is not None else {}
    if not isinstance(found, Mapping):
        raise ArgumentTypeError(
            "ML612",
            f"weights_registry has the weights by name, got {type(found).__name__}",
            fix="pass a dict: session.load(graph, weights_registry={})",
        )
    return found
