"""The result of ``tensor.max(dim=1)``: elements alone, where PyTorch gives places too."""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn

from maxlab.errors import ArgumentTypeError


def alone(tensor: Any) -> Any:
    """``tensor``, from now on refusing to be taken for a pair."""
    tensor.__class__ = _refusing(tensor.__class__)
    return tensor


@cache
def _refusing(kind: Any) -> Any:
    """The class of tensors of the class ``kind`` that refuse to be taken apart as PyTorch's pair
    is, which would silently give rows."""
    take: Any = vars(kind)["__getitem__"]

    def __getitem__(self: Any, index: Any) -> Any:  # noqa: N807 - becomes a method
        if isinstance(index, int) and not isinstance(index, bool):
            raise _no_pair(f"[{index}]")
        return take(self, index)

    def __iter__(self: Any) -> NoReturn:  # noqa: N807 - as above
        raise _no_pair(", taken apart")

    members = {"__slots__": (), "__getitem__": __getitem__, "__iter__": __iter__}
    return type(kind.__name__, (kind,), members)


def _no_pair(taken: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        "ML978",
        f"tensor.max(dim=...){taken}: the result is a tensor of the elements, and not PyTorch's "
        "pair of elements and places",
        fix="where they are: tensor.argmax(1), tensor.argmin(1); a row of the elements: "
        "tensor.max(1)[0], tensor.min(1)[0]",
    )


__all__ = ["alone"]
