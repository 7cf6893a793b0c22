"""The protocol of a GPU backend: the few things that a device must be able to do for tensors and
models.

There are two, ``driver.cuda`` (PyCUDA) and ``driver.sim`` (the same CUDA text on the CPU). Nothing
above this module knows which one it talks to. A backend's `Context` belongs to one *owner*: work
is handed to it as a function, `Context.call`, and every other method is called from inside of such
a function, but for `load`, `record`, `blas` and `can_access`, which hand over for themselves. For
PyCUDA the owner is a thread, because its objects must be made, used and freed in one; the
simulator's is a lock.

Addresses are plain integers. Sizes are in bytes. Launch arguments are 64-bit words, since the
parameters of generated kernels are pointers and `i64` only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from maxlab.dtype import DType
from maxlab.toolchain.flags import Accuracy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Properties:
    """Facts of a device.

    Attributes:
        name: the vendor's name, such as ``"NVIDIA H200"``.
        architecture: ``"sm_90"`` and the like.
        multiprocessors: how many blocks of 1 warp or more can run truly at once.
        shared_bytes: most shared memory of a block, opted in to.
        simulated: True if no GPU stands behind it.
    """

    name: str
    architecture: str
    multiprocessors: int
    shared_bytes: int
    simulated: bool


@dataclass(slots=True)
class Counters:
    """Counts of the work given to a device since it was opened; `Accelerator.counters` shows them.

    Attributes:
        launches: kernels started one by one.
        replays: recordings of launches started.
        uploads: copies from the host, and ``upload_bytes`` in them.
        downloads: copies to the host, and ``download_bytes`` in them.
        copies: copies between devices or within one.
        fills: settings of memory to one value.
        waits: times that the host waited for the device.
    """

    launches: int = 0
    replays: int = 0
    uploads: int = 0
    upload_bytes: int = 0
    downloads: int = 0
    download_bytes: int = 0
    copies: int = 0
    fills: int = 0
    waits: int = 0


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """Facts of a kernel from its compiler; None where the backend has no such number.

    Attributes:
        registers: of one thread.
        shared_bytes: static shared memory of a block.
        spill_bytes: local memory of a thread that registers were spilled to.
    """

    registers: int | None
    shared_bytes: int | None
    spill_bytes: int | None


@dataclass(frozen=True, slots=True)
class DeviceSource:
    """A kernel as CUDA text: its entry name, its text without headers, and the headers before it.

    ``headers`` are file names in ``kernels/cuda``, in the order in which they are read;
    ``mx_device.cuh`` always comes first and is not among them. ``accuracy`` is that of
    `maxlab.toolchain.cuda.CudaFlags`.
    """

    name: str
    text: str
    headers: tuple[str, ...] = ("prelude.cuh",)
    accuracy: Accuracy = "default"


@dataclass(frozen=True, slots=True)
class Product:
    """A row-major product ``C[m, n] = A[m, k] @ B[k, n]``, or a batch of them.

    Sums are made in float32, whatever the elements are; nothing is rounded to TF32.

    Attributes:
        m, n, k: the sizes, each 1 or more.
        dtype: of A and B: float32, float16 or bfloat16.
        out: of C; by default ``dtype``. float16 and bfloat16 may have float32 here.
        transpose_a: A is stored as ``[k, m]``.
        transpose_b: B is stored as ``[n, k]``, as the weights of linear layers are.
        batch: how many products.
        stride_a, stride_b, stride_c: elements from one matrix of the batch to the next; by
            default they lie behind each other, and 0 is one matrix that all share (not for C).
    """

    m: int
    n: int
    k: int
    dtype: DType
    out: DType | None = None
    transpose_a: bool = False
    transpose_b: bool = False
    batch: int = 1
    stride_a: int | None = None
    stride_b: int | None = None
    stride_c: int | None = None


class Mark(Protocol):
    """A place in the order of a queue (an event). Marks made with ``timed`` can be subtracted."""

    def synchronize(self) -> None:
        """Return when everything given to the queue before the mark has ended."""

    def done(self) -> bool:
        """Whether everything given to the queue before the mark has ended."""

    def ms_since(self, earlier: Mark) -> float:
        """Milliseconds of the device's clock from ``earlier`` to this mark, both reached."""


class Queue(Protocol):
    """An order of work on a device (a stream)."""

    @property
    def handle(self) -> int:
        """The number other libraries know it by: a ``CUstream``, 0 for the default one."""

    def synchronize(self) -> None:
        """Return when everything given to the queue has ended."""

    def mark(self, *, timed: bool = False) -> Mark:
        """A mark behind everything given to the queue so far."""

    def wait(self, mark: Mark) -> None:
        """Let what is given to the queue from now on start after ``mark``."""


class Function(Protocol):
    """A loaded kernel."""

    @property
    def name(self) -> str:
        """Its entry name."""

    @property
    def facts(self) -> FunctionFacts:
        """Facts of the kernel from its compiler."""


class Recording(Protocol):
    """Launches that were recorded and can be given to a queue at once (a CUDA graph)."""

    def launch(self, queue: Queue) -> None:
        """Give all of them to ``queue``."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel and how it was come by: from the cache, or why not, and milliseconds."""

    function: Function
    hit: bool
    why_miss: str | None
    ms: float


class Blas(Protocol):
    """A vendor's library of products. Its methods are called by the device's owner."""

    def supports(self, product: Product) -> bool:
        """Whether it has a way to make ``product``."""

    def run(self, queue: Queue, product: Product, c: int, a: int, b: int) -> None:
        """Give ``product`` of the matrices at ``a`` and ``b`` into ``c`` to ``queue``."""


class Watcher(Protocol):
    """Sees one piece of work: `begin` and `end` around the work given to a queue, called by the
    owner of the device, or `moved` behind the work that the host has done itself.
    """

    def begin(self, context: Context, queue: Queue) -> None:
        """The work is about to be given to ``queue``."""

    def end(self, context: Context, queue: Queue) -> None:
        """The work has been given to ``queue``."""

    def moved(self, begin_ns: int, end_ns: int) -> None:
        """The host has done it, between two times of ``time.monotonic_ns``."""


class Context(Protocol):
    """A device that has been opened; see the module for who may call what."""

    @property
    def id(self) -> int:
        """The number of the device."""

    @property
    def properties(self) -> Properties:
        """Facts of the device."""

    @property
    def counters(self) -> Counters:
        """Counts of the work given to the device since it was opened."""

    @property
    def default_queue(self) -> Queue:
        """The queue that is used when none is given."""

    def call(self, work: Callable[[], T]) -> T:
        """The result of ``work()``, run by the owner; it may be called from any thread.

        Raises:
            DeviceError: ML445 (a RuntimeError), the device was lost by an earlier fault.
        """

    def later(self, work: Callable[[], object]) -> None:
        """Run ``work`` by the owner soon, without waiting; used by finalizers, never raises."""

    def queue(self) -> Queue:
        """A new queue."""

    def memory(self) -> tuple[int, int]:
        """Free and total bytes of the device."""

    def allocate(self, nbytes: int) -> int:
        """The address of ``nbytes`` fresh bytes, aligned to 256.

        Raises:
            DeviceError: ML403, the device has not enough memory.
        """

    def release(self, address: int) -> None:
        """Give back what `allocate` gave; the device may still use it for work given before."""

    def allocate_pinned(self, nbytes: int) -> int:
        """The host address of ``nbytes`` page-locked bytes that the device can read."""

    def release_pinned(self, address: int) -> None:
        """Give back what `allocate_pinned` gave."""

    def upload(self, queue: Queue, target: int, source: int, nbytes: int) -> None:
        """Copy host memory to the device; ``source`` may be reused when this returns, unless it is
        pinned: then when the queue is there."""

    def download(self, queue: Queue, target: int, source: int, nbytes: int) -> None:
        """Copy device memory to the host, all there when this returns."""

    def copy(self, queue: Queue, target: int, source: int, nbytes: int) -> None:
        """Copy within the device, or from a peer that it can access."""

    def fill(self, queue: Queue, target: int, value: int, nbytes: int) -> None:
        """Set every byte to ``value``."""

    def can_access(self, other: Context) -> bool:
        """Whether kernels and copies here can read the memory of ``other`` directly."""

    def load(self, sources: Sequence[DeviceSource]) -> list[Loaded]:
        """The kernels of ``sources``, compiled where the cache has none.

        Raises:
            ToolchainError: no compiler, or it refused a text.
        """

    def launch(
        self,
        queue: Queue,
        function: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[int],
    ) -> None:
        """Start a kernel.

        Raises:
            DeviceError: ML445, the device was lost; later, by whoever synchronises, for a fault
                of the kernel itself.
        """

    def follow(self, handle: int, mark: Mark) -> None:
        """Let a stream of another library, given as a number, wait for ``mark``."""

    def mark_stream(self, handle: int) -> Mark:
        """A mark behind all that another library has given to its stream."""

    def blas(self) -> Blas | None:
        """The vendor's library of products, None where there is none."""

    def record(self, work: Callable[[Queue], None]) -> Recording | None:
        """The launches of ``work`` on the queue that it is given, recorded instead of run; None if
        the backend cannot record.
        """


class Backend(Protocol):
    """A kind of device."""

    @property
    def name(self) -> str:
        """``"cuda"`` or ``"sim"``."""

    def count(self) -> int:
        """How many devices there are; asks the driver once, opens none."""

    def missing(self) -> list[str]:
        """Why there are none, a line each; empty if there are some."""

    def open(self, id: int) -> Context:
        """The context of device ``id``, below `count`."""
