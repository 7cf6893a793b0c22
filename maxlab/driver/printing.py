"""Tensors as text and HTML: the numbers as NumPy prints them, then dtype, shape and device."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from maxlab.errors import MaxlabError

_EDGE = 3
"""Elements that are shown of each end of an axis, where not all are."""


def text(tensor: Any) -> str:
    """The ``repr`` of a tensor. Of one with more than ``threshold`` elements of NumPy's print
    options, only the corners are read; a device that cannot be read says why."""
    facts = facts_of(tensor)
    try:
        numbers = _numbers(tensor, "Tensor(")
    except (MaxlabError, OSError) as error:
        why = error.what if isinstance(error, MaxlabError) else str(error)
        return f"Tensor(<cannot be read: {why}>, {facts})"
    last = len(numbers) - numbers.rfind("\n") - 1
    apart = ", " if last + len(facts) < np.get_printoptions()["linewidth"] else ",\n       "
    return f"Tensor({numbers}{apart}{facts})"


def plain(tensor: Any) -> str:
    """The numbers of a tensor as NumPy's ``str`` of an array, of which no more is read than that
    shows."""
    if not tensor.num_elements:
        return str(np.zeros(tensor.shape))
    if tensor.num_elements <= np.get_printoptions()["threshold"]:
        return str(_plain(tensor.on_host().to_ml_numpy()))
    return np.array2string(_corners(tensor), threshold=0, edgeitems=_EDGE)


def page(tensor: Any) -> str:
    """The tensor as HTML: what a notebook shows when it is the last value of a cell. Rows are not
    wrapped where the page is narrow, but scrolled."""
    import html

    facts = html.escape(facts_of(tensor).replace("=", " "))
    try:
        numbers = html.escape(_numbers(tensor, ""))
    except (MaxlabError, OSError) as error:
        numbers = html.escape(f"cannot be read: {error}")
    return (
        '<div class="maxlab-tensor"><pre style="margin:0;white-space:pre;overflow-x:auto;'
        f'font-size:var(--jp-code-font-size, inherit)">{numbers}</pre>'
        f'<small style="opacity:.7">{facts}</small></div>'
    )


def facts_of(tensor: Any) -> str:
    """Facts of a tensor that are printed besides its numbers."""
    device = f"{tensor.device.label}:{tensor.device.id}"
    return f"dtype={tensor.dtype.name}, shape={tensor.shape}, device={device}"


def _numbers(tensor: Any, before: str) -> str:
    if not tensor.num_elements:
        return str(np.zeros(tensor.shape).tolist())
    most = np.get_printoptions()["threshold"]
    if tensor.num_elements <= most:
        return np.array2string(
            _plain(tensor.on_host().to_ml_numpy()), separator=", ", prefix=before
        )
    return np.array2string(
        _corners(tensor), separator=", ", prefix=before, threshold=0, edgeitems=_EDGE
    )


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``array``, floats that NumPy does not know as float32."""
    return array if array.dtype.isbuiltin == 1 else array.astype(np.float32)


def _corners(tensor: Any) -> np.ndarray[Any, Any]:
    """The elements that are shown, and one more between the ends of each axis that is cut, for
    which NumPy writes ``...``. Of a device only these are copied."""
    cuts = [
        [slice(_EDGE + 1), slice(size - _EDGE, size)] if size > 2 * _EDGE else [slice(size)]
        for size in tensor.shape
    ]
    sizes = [[one.stop - (one.start or 0) for one in cut] for cut in cuts]
    made: np.ndarray[Any, Any] | None = None
    for part in itertools.product(*(range(len(cut)) for cut in cuts)):
        index = tuple(cut[i] for cut, i in zip(cuts, part, strict=True))
        found = _plain(tensor[index].on_host().to_ml_numpy())
        if made is None:
            made = np.empty([sum(each) for each in sizes], found.dtype)
        made[
            tuple(
                slice(sum(each[:i]), sum(each[: i + 1]))
                for each, i in zip(sizes, part, strict=True)
            )
        ] = found
    assert made is not None
    return made


__all__ = ["facts_of", "page", "plain", "text"]
