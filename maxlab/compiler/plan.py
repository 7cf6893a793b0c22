"""The plan of a compiled graph: memory slots, and steps that name their kernel, pointers, dims and
parallel extent.

Everything here is symbolic in the dims. ``planner`` makes plans; ``engine`` binds a plan to sizes
and hands it to the C executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from maxlab.compiler.axes import Index
from maxlab.compiler.codegen.c import Printed
from maxlab.dtype import DType
from maxlab.ir.poly import Poly

if TYPE_CHECKING:
    import numpy as np

    from maxlab.compiler.lower import Lowered

SlotKind = Literal["input", "output", "weight", "constant", "packed", "arena"]
Env = Mapping[str, int]


@dataclass(slots=True)
class Packing:
    """How a slot is packed from another: a ``k`` × ``n`` matrix with strides, in column panels."""

    source: int
    offset: Poly
    k: Poly
    n: Poly
    row: Poly
    column: Poly


@dataclass(slots=True)
class Slot:
    """A piece of memory: ``b3`` in listings.

    ``index`` is the number of the input or output; ``name`` that of the weight; ``data`` the array
    of a constant.
    ``nbytes`` is a polynomial of the dims.
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

    @property
    def id(self) -> str:
        """The buffer's id."""
        return f"b{self.number}"


@dataclass(frozen=True, slots=True)
class Launch:
    """What one step needs for given sizes: trailing dims of the plan, parallel extent, grain and
    scratch bytes.
    """

    extra: tuple[int, ...]
    extent: int
    grain: int
    scratch: int


@dataclass(slots=True)
class Step:
    """One kernel of the plan, ``k4`` in listings.

    Attributes:
        kind: The kind of group it came from; ``pack`` and ``concat`` besides.
        pointers: Slot numbers, in the order of the kernel's pointer arguments.
        nodes: Ids of the user's ops that it computes.
        parallel: The extent of the parallel axis.
        launch: From sizes and threads to a ``Launch``.
        loops: The loop IR, of kernels that are printed from it; products are calls of a library.
        cost: Makes the polynomials ``flops`` and ``nbytes``, which only a view or a profile reads.
    """

    number: int
    name: str
    kind: str
    printed: Printed | None
    pointers: list[int]
    sizes: list[Poly]
    nodes: tuple[str, ...]
    parallel: Poly
    launch: Callable[[Env, int, Any], Launch]
    cost: Callable[[], tuple[Poly, Poly]]
    builtin: str = ""
    ops: tuple[str, ...] = ()
    loops: Lowered | None = None

    @property
    def id(self) -> str:
        """The kernel's id."""
        return f"k{self.number}"

    @property
    def flops(self) -> Poly:
        """The arithmetic of the user's ops that it computes."""
        return self.cost()[0]

    @property
    def nbytes(self) -> Poly:
        """The bytes of every buffer that it reads or writes, each once."""
        return self.cost()[1]


@dataclass(slots=True)
class Plan:
    """All slots and steps, in the order in which they run."""

    slots: list[Slot] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
