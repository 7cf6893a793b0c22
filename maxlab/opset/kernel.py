"""The text of the own kernels of an op of the kind ``kernel``, for each target.

A row's ``kernel`` is a function of a ``Site``. It asks the site for the names of its buffers and
sizes, and adds one or more *parts*, launches that run one after another. The text of a part says
what is done for the item ``i`` of its parallel axis; whoever prints it writes the loop over items
and the declarations. Where both targets can do the same, one text serves both::

    def kernel(at: Site) -> None:
        x, y = at.operands[0], at.results[0]
        at.part(y.store("i", f"{x.load('i')} + 1"), elements(y.type))

In C a part is a loop over ``i`` in chunks, shared by threads; in CUDA each item is one thread's, or
with ``block=True`` one block's, which then may use ``threadIdx.x``, ``blockDim.x``,
``__syncthreads()`` and ``at.shared``. Operands are laid out in row-major order before.

Text is C that is also CUDA: no headers, 64-bit sizes (``i64``), functions of
``kernels/c/prelude.h`` and of the files in ``kernels/c/ops``; in CUDA those of
``kernels/cuda/prelude.cuh`` and of the headers that were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from maxlab.dtype import DType
from maxlab.ir import TensorType
from maxlab.ir.poly import ONE, Poly

Target = Literal["c", "cuda"]


class Buffer(Protocol):
    """Memory that a kernel reads or writes, by its name in the text.

    Attributes:
        name: The pointer; its type is ``stored *``.
        dtype: The element type.
        compute: The C type in which elements are computed: halves are ``f32``, bools ``i32``.
        stored: The C type in which they are stored: halves are ``u16``, bools ``u8``.
    """

    name: str
    dtype: DType
    compute: str
    stored: str

    @property
    def type(self) -> TensorType:
        """The tensor that it holds; temporary memory is of rank 1."""
        ...

    def load(self, index: str) -> str:
        """The element at ``index``, in its compute type."""
        ...

    def store(self, index: str, value: str) -> str:
        """The statement that stores ``value``, of the compute type, at ``index``."""
        ...


class Site(Protocol):
    """One op that is being written for one target.

    Attributes:
        target: ``"c"`` or ``"cuda"``.
        attrs: The attributes of the op.
        operands: Its operands, in row-major order.
        results: Its results.
        shared: In parts with ``block=True`` on a GPU: the name of the block's shared memory, an
            ``unsigned char *`` aligned to 16 bytes.
        scratch: In C: the name of the thread's own memory, a ``void *`` aligned to 64 bytes.
        in_place: Whether the result is the memory of the first operand, so that what stays as it is
            need not be copied. A text that names the operand all the same is not taken.
    """

    target: Target
    attrs: Mapping[str, Any]
    operands: list[Any]
    results: list[Any]
    shared: str
    scratch: str
    in_place: bool

    @property
    def log_level(self) -> int:
        """The least level of messages that are compiled, as a number of ``notes.LEVELS``."""
        ...

    @property
    def assert_level(self) -> str:
        """The level of assertions that kernels test; see ``maxlab.compiler.Options``."""
        ...

    @property
    def old_top_k(self) -> bool:
        """Whether ``top_k`` sorts whole rows."""
        ...

    @property
    def accuracy(self) -> str:
        """How exact results are; see ``maxlab.compiler.Options``."""
        ...

    @property
    def finish(self) -> str:
        """In C: the name of a function that is called with ``(b, d, r0, r1, c0, c1, ctx)`` as soon
        as the rows ``r0`` to ``r1`` and the columns ``c0`` to ``c1`` of the result are in its
        memory, once for each element, and ends the run where it does not return 0. Columns are
        along the last axis. Empty where nothing follows; only ops whose row ``finishes`` are asked.
        """
        ...

    def size(self, poly: Poly | int) -> str:
        """``poly`` as text, of the type ``i64``."""
        ...

    def temporary(self, dtype: DType, count: Poly) -> Any:
        """Memory for ``count`` elements that all parts of this op share; its contents are
        undefined before a part writes them."""
        ...

    def packed(self, buffer: Any, layout: Sequence[Poly], taps: Sequence[Poly] = ()) -> Any:
        """In C: memory that has the operand ``buffer``, of floats, packed as the right operand of a
        product, which is done once, when the model is loaded; None where it is not known by then,
        or its sizes are not.

        Args:
            buffer: One of the operands.
            layout: Rows ``k``, columns ``n``, the distance of rows and of columns.
            taps: ``period`` and ``outer``, where row k begins at ``k // period * outer + k % period
                * row``.
        """
        ...

    def packed_tiles(self, buffer: Any, layout: Sequence[int], nbytes: int) -> Any:
        """In C: the same for the filter of a convolution by tiles.

        Args:
            buffer: One of the operands.
            layout: Channels, channels of the result, and the distances of both and of taps.
            nbytes: What it takes then.
        """
        ...

    def packed_blocks(
        self, buffer: Any, kernel: str, rows: int, sizes: tuple[Poly, Poly], nbytes: int
    ) -> Any:
        """In C: the same for an operand of blocks of few bits.

        Args:
            buffer: One of the operands.
            kernel: What lays it out, in the library of products.
            rows: Of how many rows at once.
            sizes: Blocks of a row, and rows.
            nbytes: What ``rows`` of them take then.
        """
        ...

    def literal(self, value: float | int, dtype: DType) -> str:
        """``value`` as a constant of the compute type of ``dtype``."""
        ...

    def wrap(self, name: str, index: str, extent: str) -> str:
        """The statement that declares ``name`` as the index ``index``, counted from the end when
        negative, and ends the run of the model with an error when it is out of range. On a GPU the
        kernel goes on, with 0."""
        ...

    def fault(self, value: str, limit: str) -> str:
        """The statement that ends the run with the error that ``value`` is not below ``limit``. On
        a GPU the kernel goes on behind it."""
        ...

    def log(self, note: int, item: str, values: list[tuple[str, str]]) -> str:
        """The expression that writes down the note with the number ``note`` for the item ``item``,
        with its values: ``i`` or ``f``, and the text of each. See ``opset.notes``."""
        ...

    def asserted(self, note: int, item: str) -> str:
        """The statement, without its semicolon, that ends the run with the assertion ``note``. On a
        GPU the kernel goes on behind it."""
        ...

    def along(
        self, name: str, first: str, last: str, *, before: str = "", strip: int = 1 << 20
    ) -> str:
        """The head of the loop over an axis that may be very long. In C a run can be ended in it:
        whoever presses Ctrl-C does not wait for its end.

        Args:
            name: The index, an ``i64``.
            first: Its first value: a name or a number.
            last: The end of its values.
            before: In C, a pragma of the loop.
            strip: Iterations that take about a millisecond.
        """
        ...

    def header(self, name: str) -> None:
        """Let the CUDA text be read behind the file ``name`` of ``kernels/cuda``."""
        ...

    def part(
        self,
        text: str,
        extent: Poly,
        *,
        ahead: str = "",
        before: str = "",
        after: str = "",
        work: Poly = ONE,
        block: bool = False,
        threads: int = 256,
        shared: Poly | int = 0,
        scratch: Poly | int = 0,
        serial: bool = False,
        name: str = "",
        total: Poly | None = None,
        touched: Mapping[str, Poly] | None = None,
    ) -> None:
        """Add a launch that runs ``text`` for each item ``i`` of ``extent``.

        Args:
            text: Statements. On the CPU they may ``return`` a nonzero number through ``fault``.
            extent: Items of the parallel axis.
            ahead: In C, declarations in front of the function.
            before: Statements in front of the loop over items.
            after: In C, statements behind it; a loop in chunks has them behind each.
            work: Scalar operations of one item: how many a chunk should have.
            block: In CUDA, whether an item is a block's instead of a thread's.
            threads: In CUDA, threads of a block.
            shared: In CUDA, bytes of shared memory.
            scratch: In C, bytes of a thread's own memory.
            serial: Whether one thread runs all items, in order. On a GPU an op has one such item.
            name: What it does, where an op has several parts.
            total: In C, scalar operations of all items together, where that is no multiple of
                ``work``: one thread does what is little.
            touched: By the names of buffers of which it touches a part: how many elements.
        """
        ...


__all__ = ["Buffer", "Site", "Target"]
