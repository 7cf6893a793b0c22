"""Producers of DLPack that break the protocol, and consumers that know no read-only memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.driver import Tensor, memory_stats
from maxlab.driver import dlpack as protocol
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import Graph, TensorType, ops
from maxlab.toolchain.cffi_abi import ffi
from tests.answers import assert_typed

F32 = DType.float32
_KEPT: list[Any] = []


class Producer:
    """An array of another library whose methods give or raise what it was made with."""

    def __init__(self, capsule: Any, device: Any = (1, 0)) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **options: Any) -> Any:
        if isinstance(self.capsule, BaseException):
            raise self.capsule
        return self.capsule

    def __dlpack_device__(self) -> Any:
        if isinstance(self.device, BaseException):
            raise self.device
        return self.device


def capsule(
    *,
    ndim: int | None = None,
    shape: Sequence[int] | None = (3,),
    strides: Sequence[int] | None = None,
    data: int | None = None,
    dtype: tuple[int, int, int] = (2, 32, 1),
    device: tuple[int, int] = (1, 0),
    offset: int = 0,
    name: bytes = b"dltensor_versioned",
    version: tuple[int, int] = (1, 0),
) -> Any:
    """A DLPack capsule of 64 floats, with what is wrong about it."""
    versioned = name == b"dltensor_versioned"
    managed = ffi.new("DLManagedTensorVersioned *" if versioned else "DLManagedTensor *")
    memory = ffi.new("float[64]")
    sizes = ffi.NULL if shape is None else ffi.new("int64_t[]", [*shape, 0])
    steps = ffi.NULL if strides is None else ffi.new("int64_t[]", [*strides, 0])
    _KEPT.extend((managed, memory, sizes, steps))
    tensor = managed.dl_tensor
    tensor.data = ffi.cast("void *", memory if data is None else data)
    tensor.device = {"device_type": device[0], "device_id": device[1]}
    tensor.ndim = len(shape or ()) if ndim is None else ndim
    tensor.dtype = dict(zip(("code", "bits", "lanes"), dtype, strict=True))
    tensor.shape, tensor.strides, tensor.byte_offset = sizes, steps, offset
    if versioned:
        managed.version = {"major": version[0], "minor": version[1]}
    address = int(ffi.cast("uintptr_t", managed))
    return protocol._capsule_new(address, name, protocol._DESTRUCTOR(0))


BROKEN: dict[str, Callable[[], Any]] = {
    "raises": lambda: Producer(RuntimeError("from the producer")),
    "raises a buffer error": lambda: Producer(BufferError("from the producer")),
    "raises a type error": lambda: Producer(TypeError("from the producer")),
    "gives 42": lambda: Producer(42),
    "gives None": lambda: Producer(None),
    "device raises": lambda: Producer(capsule(), RuntimeError("from the producer")),
    "device is text": lambda: Producer(capsule(), "cpu"),
    "device is None": lambda: Producer(capsule(), None),
    "device is one number": lambda: Producer(capsule(), (1,)),
    "another name": lambda: Producer(capsule(name=b"dlpack")),
    "no name": lambda: Producer(capsule(name=b"")),
    "ndim -1": lambda: Producer(capsule(ndim=-1)),
    "ndim 100": lambda: Producer(capsule(shape=[1] * 100)),
    "ndim 2**31 - 1": lambda: Producer(capsule(ndim=2**31 - 1)),
    "null data": lambda: Producer(capsule(data=0)),
    "null shape": lambda: Producer(capsule(shape=None, ndim=2)),
    "negative size": lambda: Producer(capsule(shape=(-3,))),
    "sizes past memory": lambda: Producer(capsule(shape=(2**62, 2**62))),
    "strides past memory": lambda: Producer(capsule(strides=(2**62,))),
    "offset past memory": lambda: Producer(capsule(offset=2**64 - 1)),
    "dtype code": lambda: Producer(capsule(dtype=(99, 32, 1))),
    "dtype bits": lambda: Producer(capsule(dtype=(2, 24, 1))),
    "dtype lanes": lambda: Producer(capsule(dtype=(2, 32, 4))),
    "device 77": lambda: Producer(capsule(), (77, 0)),
    "device 77 in the capsule": lambda: Producer(capsule(device=(77, 0))),
    "GPU that is not there": lambda: Producer(capsule(device=(2, 9)), (2, 9)),
    "version 2": lambda: Producer(capsule(version=(2, 0))),
}
"""Producers that break the protocol, by what is wrong with them."""

ENTRIES: dict[str, Callable[[Any], Any]] = {
    "from_dlpack": Tensor.from_dlpack,
    "from_dlpack with a copy": lambda x: Tensor.from_dlpack(x, copy=True),
    "input": lambda x: _double()(x),  # noqa: PLW0108 - nothing is compiled for the table
    "constant": lambda x: Graph("g", lambda: ops.constant(x)),
    "operand": lambda x: Graph("g", lambda y: y + x, [TensorType(F32, [3])]),
}
"""Where such a producer can be passed."""


def _double() -> engine.Model:
    graph = Graph("g", lambda x: x * 2, [TensorType(F32, ["n"])])
    return engine.InferenceSession(num_threads=1).load(graph)


def test_the_good_capsule() -> None:
    assert Tensor.from_dlpack(Producer(capsule())).to_numpy().tolist() == [0, 0, 0]
    assert Tensor.from_dlpack(Producer(capsule(strides=(2,)))).shape == (3,)
    backwards = Tensor.from_dlpack(Producer(capsule(strides=(-1,), offset=8)))
    assert backwards.to_numpy().tolist() == [0, 0, 0]
    assert Tensor.from_dlpack(Producer(capsule(shape=(0,), data=0))).shape == (0,)


def test_broken_producers() -> None:
    assert_typed(
        """
        from tests.driver.test_dlpack_hostile import BROKEN, ENTRIES
        for entry, act in ENTRIES.items():
            for name, make in BROKEN.items():
                attempt(f"{entry} {name}", act, make())
        """
    )


@pytest.mark.parametrize("rank", [65, 100])
def test_ranks_that_numpy_has_not(rank: int) -> None:
    with pytest.raises(MaxlabError, match="rank"):
        Tensor(F32, [1] * rank)
    with pytest.raises(MaxlabError, match="rank"):
        Tensor.zeros([1], F32).view(F32, [1] * rank)


@pytest.mark.parametrize("sizes", [[2**32, 2**32, 0], [2**62], [2**31, 2**31]], ids=str)
def test_sizes_that_no_memory_has(sizes: list[int]) -> None:
    with pytest.raises(MaxlabError) as caught:
        Tensor(DType.float64, sizes)
    assert caught.value.fix


# ---------------------------------------------------------------- read-only memory
def read_only() -> Tensor:
    return Tensor.from_numpy(np.frombuffer(bytes(16), np.float32))


def test_numpy_is_told_of_read_only_memory() -> None:
    tensor = read_only()
    array = np.from_dlpack(tensor)
    assert not array.flags.writeable
    assert np.shares_memory(array, tensor.to_numpy())


def test_a_consumer_of_the_older_form_gets_a_copy() -> None:
    tensor = read_only()
    taken = protocol.Imported(tensor.__dlpack__())
    assert not taken.read_only
    assert taken.address != tensor.address
    with pytest.raises(BufferError):
        tensor.__dlpack__(copy=False)


@pytest.mark.oracle
def test_torch_gets_a_copy_of_read_only_memory() -> None:
    torch = pytest.importorskip("torch")
    tensor = read_only()
    made = torch.from_dlpack(tensor)
    assert made.data_ptr() != tensor.address
    made += 1
    assert tensor.to_numpy().tolist() == [0, 0, 0, 0]
    writable = Tensor.zeros([4], F32)
    assert torch.from_dlpack(writable).data_ptr() == writable.address


# ---------------------------------------------------------------- exceptions on their way
DYING: dict[str, Callable[[Any], Any]] = {
    "a capsule": lambda tensor: tensor.__dlpack__(),
    "a newer capsule": lambda tensor: tensor.__dlpack__(max_version=(1, 0)),
    "an array of numpy": np.from_dlpack,
}
"""What has the memory of a tensor when an exception takes it away."""


def raised_over(make: Callable[[Any], Any]) -> list[str]:
    """What becomes of exceptions that drop the last reference to what ``make`` gives for a tensor,
    and of the memory."""
    found = []
    before = memory_stats().blocks
    for zero in (0, 0, 0):
        try:
            print(make(Tensor.zeros([4], F32)), 1 // zero)  # it is dropped as the call fails
        except ZeroDivisionError as error:
            found.append(str(error))
    return [*found, f"{memory_stats().blocks - before} more blocks"]


@pytest.mark.parametrize("what", DYING)
def test_an_exception_outlives_the_memory_that_it_drops(what: str) -> None:
    """In a process of its own: Python crashes when a destructor loses its exception."""
    _check_raised_over(f"DYING[{what!r}]")


@pytest.mark.oracle
def test_an_exception_outlives_the_memory_of_torch() -> None:
    pytest.importorskip("torch")
    _check_raised_over("__import__('torch').from_dlpack")


def _check_raised_over(make: str) -> None:
    program = f"from {__name__} import *; print(*raised_over({make}), sep='|')"
    run = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=300
    )
    said = "integer division or modulo by zero"
    assert run.stdout.splitlines() == [f"{said}|{said}|{said}|0 more blocks"], run.stderr[-800:]
    assert run.stderr == ""


OUTLIVES = """
import sys

import numpy as np

from maxlab.driver import Tensor


class Kept:
    pass


kept = []
for _ in range(50):
    one = Kept()
    one.itself = one
    one.array = np.from_dlpack(Tensor.from_numpy(np.ones(5, np.float32)))
    kept.append(one)
sys.kept = kept  # until after the modules of maxlab are gone
"""


def test_arrays_of_others_may_outlive_all_modules() -> None:
    run = subprocess.run(
        [sys.executable, "-c", OUTLIVES], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
