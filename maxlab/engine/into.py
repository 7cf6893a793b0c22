"""Memory of a caller for the outputs of a run: does it fit, and may kernels write it."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.engine.times import plural
from maxlab.errors import InputError


def require_fitting(
    name: str, into: Sequence[Tensor], types: Sequence[tuple[DType, tuple[int, ...]]]
) -> None:
    """Raises unless ``into`` are contiguous tensors of ``types``, the outputs of the graph
    ``name``.

    Raises:
        InputError: ML889, another number of them, or one of another dtype, shape or layout.
    """
    if len(into) != len(types):
        raise InputError(
            "ML889",
            f"{name!r} makes {plural(len(types), 'output')}, and there is memory for {len(into)}",
            fix="give one tensor for each output, in their order",
        )
    for number, (x, (dtype, shape)) in enumerate(zip(into, types, strict=True)):
        if x.dtype is not dtype or tuple(x.shape) != tuple(shape):
            raise InputError(
                "ML889",
                f"output {number} of {name} is {dtype.name} of shape {tuple(shape)}, and the "
                f"memory for it {x.dtype.name} of shape {tuple(x.shape)}",
                fix="give a tensor of that dtype and shape",
            )
        if not x.is_contiguous or x.read_only:
            why = "read-only" if x.read_only else "not contiguous"
            raise InputError(
                "ML889",
                f"the memory for output {number} of {name} is {why}",
                fix="give a new tensor, and copy from it",
            )


def is_apart(into: Sequence[Tensor], inputs: Sequence[Tensor]) -> bool:
    """Whether no two of ``into`` share memory, and none does with one of ``inputs``."""
    ends = [(x.address, x.address + x._nbytes(), True) for x in into]
    ends += [(x.address, x.address + x._nbytes(), False) for x in inputs]
    reached, written = 0, False
    for start, end, is_output in sorted(e for e in ends if e[0] < e[1]):
        if start < reached and (is_output or written):
            return False
        if end > reached:
            reached, written = end, is_output
        else:
            written = written or is_output
    return True


__all__ = ["is_apart", "require_fitting"]
