"""The parts of a plan: memory slots, and steps that name their kernel, pointers, dims and parallel
extent.

Everything here is symbolic in the dims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from maxlab.compiler.axes import Index
from maxlab.compiler.guards import Guard
from maxlab.compiler.launches import Blocks, GpuFormula, HostFormula, LibraryProduct, Tiles
from maxlab.compiler.printed import Printed
from maxlab.compiler.traffic import Touched, Touching, in_bytes, touched_by
from maxlab.dtype import DType
from maxlab.ir import DeviceRef, HostCall
from maxlab.ir.poly import ONE, ZERO, Poly

if TYPE_CHECKING:
    import numpy as np

    from maxlab.compiler.gpu_texts import CudaText
    from maxlab.compiler.host_texts import OtherText, StripsText
    from maxlab.compiler.lower import Lowered
    from maxlab.compiler.printed import CudaPrinted
    from maxlab.driver.backend import Product
    from maxlab.toolchain.variants import Choice, Variant

SlotKind = Literal["input", "output", "weight", "constant", "packed", "arena"]
Env = Mapping[str, int]


PACK_KERNELS = {
    DType.float32: "mx_k_pack_b_f32",
    DType.bfloat16: "mx_k_pack_b_bf16",
    DType.float16: "mx_k_pack_b_f16",
}
"""The kernel of the library that packs the right operands of products."""
PACK_TAPS_KERNELS = {
    DType.float32: "mx_k_pack_taps_f32",
    DType.bfloat16: "mx_k_pack_taps_bf16",
    DType.float16: "mx_k_pack_taps_f16",
}
"""The same for filters whose rows are counted tap by tap."""


def panels_nbytes(k: Poly, n: Poly, dtype: DType) -> Poly:
    """The bytes of a ``k`` × ``n`` matrix in panels of 32 columns."""
    two = Poly.constant(2)
    panels = (n + Poly.constant(31)).floordiv(Poly.constant(32))
    if dtype.size_in_bytes == 2:  # in pairs of rows, perhaps, and with a mark for each panel
        k = (k + ONE).floordiv(two) * two
        return panels * (k * Poly.constant(64) + two)
    return panels * k * Poly.constant(32 * dtype.size_in_bytes)


@dataclass(frozen=True, slots=True)
class Packing:
    """How a slot is packed from another when the model is loaded.

    Attributes:
        source: The slot that it is packed from.
        kernel: What does it, in the library of products.
        sizes: What that is told.
        items: Its parallel axis.
        nbytes: How much it writes.
        offset: The byte of the source at which it begins.
    """

    source: int
    kernel: str
    sizes: tuple[int, ...]
    items: int
    nbytes: int
    offset: int = 0


def panels(
    source: int, dtype: DType, layout: Sequence[Poly], offset: Poly, taps: Sequence[Poly] = ()
) -> Packing | None:
    """A matrix in panels of columns; None when something about it is not known.

    Args:
        source: The slot it is in.
        dtype: Of its elements.
        layout: Rows ``k``, columns ``n``, and the distances of rows and of columns.
        offset: Its first element.
        taps: ``period`` and ``outer``, where row k begins at ``k // period * outer + k % period *
            row``.
    """
    numbers = (offset, *layout, *taps)
    if not all(number.is_constant for number in numbers):
        return None
    names = PACK_TAPS_KERNELS if taps else PACK_KERNELS
    nbytes = panels_nbytes(layout[0], layout[1], dtype).value
    first, *sizes = (number.value for number in numbers)
    start = first * dtype.size_in_bytes
    return Packing(source, names[dtype], tuple(sizes), -(-sizes[1] // 32), nbytes, start)


@dataclass(slots=True, eq=False)
class Slot:
    """A piece of memory: ``b3`` in listings.

    ``index`` is the number of the input or output; ``name`` that of the weight; ``data`` the array
    of a constant.
    ``nbytes`` is a polynomial of the dims. ``order`` has the dims of ``shape`` as they lie in
    memory, outermost first; it is empty where that is their own order.
    """

    number: int
    kind: SlotKind
    dtype: DType
    nbytes: Poly
    shape: Index
    value: str = ""
    index: int = -1
    name: str = ""
    data: np.ndarray[Any, Any] | None = None
    packing: Packing | None = None
    device: DeviceRef = field(default_factory=DeviceRef.CPU)
    order: tuple[int, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slot) and self._compared() == other._compared()

    __hash__ = None  # type: ignore[assignment]  # arrays have none

    def _compared(self) -> tuple[Any, ...]:
        data = self.data
        known = None if data is None else (data.dtype, data.shape, data.tobytes())
        return (
            self.number, self.kind, self.dtype, self.nbytes, self.shape, self.value, self.index,
            self.name, known, self.packing, self.device, self.order,
        )  # fmt: skip

    @property
    def id(self) -> str:
        """The buffer's id."""
        return f"b{self.number}"


@dataclass(frozen=True, slots=True)
class Launch:
    """The needs of one step for given sizes: trailing dims of the plan, parallel extent, grain,
    scratch bytes, and how many items take some milliseconds, behind which the executor asks whether
    to go on; 0 where the kernel asks for itself or never takes long. Where the step's kernel has
    variants, what was chosen, and which variant this is.
    """

    extra: tuple[int, ...]
    extent: int
    grain: int
    scratch: int
    piece: int = 0
    choice: Choice | None = None
    variant: Variant | None = None


@dataclass(frozen=True, slots=True)
class GpuLaunch:
    """How a step is launched on a GPU for given sizes.

    Attributes:
        variant: which of the step's kernels.
        grid: blocks along each axis; a 0 among them launches nothing.
        block: threads along each axis.
        shared: bytes of dynamic shared memory.
        spill: bytes of device memory for rows that do not fit into shared memory, 0 if they do.
        items: the extent of the parallel axis.
        own: bytes of device memory that nobody else uses, all zero before the first launch; they
            take the place of ``spill``.
        meets: whether ``own`` may be the same memory for all steps of which this is true, one
            after the other: what begins at zero is the same part of it, and is zero again.
    """

    variant: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    spill: int
    items: int
    own: int = 0
    meets: bool = False


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A plain product that the vendor's library can make.

    Attributes:
        product: What it is.
        pointers: Which of the step's pointers are C, A and B.
        offsets: Where they begin in these, in bytes.
    """

    product: Product
    pointers: tuple[int, int, int]
    offsets: tuple[int, int, int]


class GpuKernels:
    """The kernels among which a step chooses when sizes are known, each printed when it is asked
    for, the first the usual one.

    ``launch`` says which of them runs, and how; ``library`` is the product that the vendor's
    library can make instead, None where the step does more than that.
    """

    def __init__(
        self,
        texts: Sequence[CudaPrinted | CudaText],
        launch: GpuFormula,
        library: LibraryProduct | None = None,
    ) -> None:
        self._texts = list(texts)
        self.library = library
        self.launch = launch

    def __len__(self) -> int:
        return len(self._texts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GpuKernels) or len(self) != len(other):
            return False
        if (self.launch, self.library) != (other.launch, other.library):
            return False
        return all(self.printed(n) == other.printed(n) for n in range(len(self)))

    __hash__ = None  # type: ignore[assignment]  # kernels are printed in place

    def replace(self, variant: int, printed: CudaPrinted) -> None:
        """Let ``printed`` be one of the kernels, which no library takes the place of."""
        self._texts[variant] = printed
        self.library = None

    def printed(self, variant: int = 0) -> CudaPrinted:
        """The text of one of the kernels."""
        found = self._texts[variant]
        if not isinstance(found, Printed):
            found = self._texts[variant] = found.printed()
        return found


@dataclass(frozen=True, slots=True)
class Binds:
    """The sizes of later steps that a step computes.

    Attributes:
        slot: Where the number is, an int64.
        op: The id of the op of the graph, a ``bind_dim``, whose attributes say which dim it is.
    """

    slot: int
    op: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """Memory that steps of a loop give each other from one turn to the next.

    Attributes:
        moves: (slot, the slot whose memory it has from here on). A slot that has its own memory
            again is given itself.
        steps: The steps of the loop, whose pointers change, counted from the step that says so.
        settling: The steps behind them that bring values home, counted so: the second half of their
            pointers changes.
    """

    moves: tuple[tuple[int, int], ...]
    steps: range = range(0)
    settling: range = range(0)


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """The kind of a pointer of a user's kernel.

    Attributes:
        name: What its declaration calls it.
        count: Its elements.
        itemsize: Bytes of one.
        reads: Whether what was there before may be read.
        writes: Whether it may be written.
    """

    name: str
    count: Poly
    itemsize: int
    reads: bool
    writes: bool


@dataclass(slots=True, eq=False)
class Step:
    """One kernel of the plan, ``k4`` in listings.

    Attributes:
        kind: The kind of group it came from; ``pack`` and ``concat`` besides.
        device: Where it runs; a ``transfer`` runs where it goes to.
        gpu: Its kernels, when it runs on a GPU; ``printed`` is the first of them.
        pointers: Slot numbers, in the order of the kernel's pointer arguments.
        nodes: Ids of the user's ops that it computes.
        parallel: The extent of the parallel axis.
        launch: How it is launched on the CPU; None of what a GPU runs, where ``gpu`` has that.
        loops: The loop IR, of kernels that are printed from it; products are calls of a library.
        call: The function of Python that it calls, on the thread that runs the plan;
            ``ranks`` are those of what it gets, whose dims are ``sizes``.
        flops: The arithmetic of the user's ops that it computes.
        touching: What it touches of its pointers, which is counted when it is asked for.
        held: Of each slot that it points to, the bytes and those of one element.
        group: The number of the group of the schedule that it computes, or a part of.
        binds: The dim that it computes the size of, if it does.
        keeps: Slots that it does not take, of operands and results of the op whose last kernel it
            is: who checks what the op computes finds them behind it.
        jump: Of a ``jump``, how many steps further the run goes on; of a ``branch`` the same when
            the byte that it points at is zero; of a ``refuse``, how many steps it and those are
            that may only run when its ``guard`` holds.
        guard: What must hold of the sizes.
        renamed: Of a call's step, the ids of the user's ops by those that its text names.
        exchange: Of an ``exchange``, whose memory becomes whose.
        arguments: Of a kernel that a user wrote, what each pointer is; else empty.
        long: The scalar operations of a single item, where these may take so long that the text
            ``strips`` runs, which asks whether to go on; None where they never do.
        strips: That text, printed when it is first asked for; see ``in_strips``.
        others: Other texts of its kernel, by the names of the variants that run them, each printed
            when it is first asked for; see ``other``. What they compute is the same.

    Steps are equal when they do and say the same. What only profiles and checks read, the loops, is
    not compared, and what a step touches is compared by its count.
    """

    number: int
    name: str
    kind: str
    printed: Printed | None
    pointers: list[int]
    sizes: list[Poly]
    nodes: tuple[str, ...]
    parallel: Poly
    launch: HostFormula | None
    flops: Poly
    touching: Touching
    held: dict[int, tuple[Poly, int]]
    builtin: str = ""
    ops: tuple[str, ...] = ()
    loops: Lowered | None = None
    device: DeviceRef = field(default_factory=DeviceRef.CPU)
    gpu: GpuKernels | None = None
    call: HostCall | None = None
    ranks: tuple[int, ...] = ()
    group: int = -1
    binds: Binds | None = None
    keeps: tuple[int, ...] = ()
    jump: int = 0
    guard: Guard | None = None
    renamed: Mapping[str, tuple[str, ...]] | None = None
    exchange: Exchange | None = None
    arguments: tuple[KernelArgument, ...] = ()
    long: Poly | None = None
    strips: Printed | StripsText | None = None
    others: dict[str, Printed | OtherText] = field(default_factory=dict)
    _traffic: dict[int, tuple[Poly, Poly]] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Step) and not self.differences(other)

    __hash__ = None  # type: ignore[assignment]  # the planner changes steps

    def differences(self, other: Step) -> list[str]:
        """The names of the fields in which ``other`` differs; ``touching`` among them where it
        reads or writes another number of elements."""
        found = [name for name in _COMPARED if getattr(self, name) != getattr(other, name)]
        if self.touched() != other.touched():
            found.append("touching")
        return found

    def touched(self) -> Touched:
        """The elements that it reads and writes, by the number of the pointer."""
        return touched_by(self.touching)

    @property
    def is_product(self) -> bool:
        """Whether a product is made by tiles, or by the library of products, and not by loops."""
        if self.kind != "contract":
            return False
        if self.gpu is not None:
            return isinstance(self.gpu.launch, Tiles)
        return not isinstance(self.launch, Blocks)

    def in_strips(self) -> Printed | None:
        """The text for very long rows; None where there is none."""
        if self.strips is not None and not isinstance(self.strips, Printed):
            self.strips = self.strips.printed()
        return self.strips

    def other(self, name: str) -> Printed:
        """The text that the variant ``name`` runs."""
        found = self.others[name]
        if not isinstance(found, Printed):
            found = self.others[name] = found.printed()
        return found

    @property
    def id(self) -> str:
        """The kernel's id."""
        return f"k{self.number}"

    @property
    def callee(self) -> str:
        """The name of what it calls that is not generated; empty when it is generated."""
        return self.call.name if self.call is not None else self.builtin

    def nodes_of(self, id: str) -> tuple[str, ...]:
        """The ids of the user's ops that the compiled op ``id``, which its text names, stands for;
        itself where the step is none of a call."""
        return (id,) if self.renamed is None else self.renamed.get(id, ())

    @property
    def nbytes(self) -> Poly:
        """The bytes that it reads and writes, each element once."""
        total = ZERO
        for read, written in self.traffic().values():
            total = total + read + written
        return total

    def traffic(self) -> dict[int, tuple[Poly, Poly]]:
        """The bytes read and written of each slot; `nbytes` is their sum."""
        if self._traffic is None:  # profiles, views and rooflines ask again
            self._traffic = in_bytes(self.touched(), self.pointers, self.held)
        return self._traffic


_COMPARED = tuple(
    one.name
    for one in fields(Step)
    if one.name not in ("touching", "loops", "strips", "others", "_traffic")
)
"""The fields that two equal steps have alike."""


__all__ = [
    "Binds",
    "Env",
    "Exchange",
    "GpuKernels",
    "GpuLaunch",
    "KernelArgument",
    "Launch",
    "LibraryCall",
    "PACK_KERNELS",
    "PACK_TAPS_KERNELS",
    "Packing",
    "Slot",
    "SlotKind",
    "Step",
    "panels",
    "panels_nbytes",
]
