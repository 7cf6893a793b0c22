"""Weights of PyTorch checkpoints, found by name; neither PyTorch nor the pickle is run."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from maxlab.driver.mapped import FileMemory
from maxlab.errors import WeightError
from maxlab.graph.staged import placed
from maxlab.graph.value import DLPackArray
from maxlab.graph.weights.accessor import Facts, FileWeights
from maxlab.graph.weights.base import step
from maxlab.graph.weights.mapped import MappedFile
from maxlab.graph.weights.torch_pickle import TorchTensor, Unpickler
from maxlab.graph.weights.torch_zip import members
from maxlab.ir import Shape
from maxlab.opset.core import Array

MAX_REPEATED_BYTES = 1 << 28
"""The most memory for a tensor whose elements stand in the file once and are seen many times."""
MAX_DEPTH = 64
MAX_NAME_CHARACTERS = 1 << 26

_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_AGAIN = "load it with torch.load(path, weights_only=True), and save it again with torch.save"


class PytorchFile:
    """An open checkpoint of ``torch.save``: its tensors by name.

    Dicts inside of dicts, and lists, are joined by dots: ``{"model": {"w": ...}}`` has the tensor
    ``model.w``. The pickle of the file is interpreted, never executed: it may name what tensors are
    made of and nothing else.

    Args:
        path: The file, in the ZIP format that PyTorch writes since version 1.6.
        private: Read it into memory of its own, where it is mapped otherwise.

    Raises:
        WeightError: ML632, it cannot be opened; ML633, it is cut off or damaged; ML637, an older
            format, TorchScript or another byte order; ML747, its pickle asks for code; ML750, it
            has no tensors by name.
    """

    def __init__(self, path: str | os.PathLike[str], private: bool = False) -> None:
        self.mapped = file = MappedFile(path, "PyTorch", private)
        self.path = file.path
        start = file.map[:32]
        if start.startswith(_LEGACY):
            raise file.unreadable("it has the format of PyTorch before 1.6", _AGAIN)
        if not start.startswith(b"PK\x03\x04"):
            raise file.bad("it is no ZIP archive")
        found = members(file)
        roots = [name.removesuffix("/data.pkl") for name in found if name.endswith("/data.pkl")]
        roots = [name for name in roots if "/" not in name]
        if len(roots) != 1:
            raise file.bad(f"it has {len(roots)} members data.pkl, not one")
        (root,) = roots
        if f"{root}/constants.pkl" in found:
            raise file.unreadable(
                "it is a TorchScript program", "save the tensors alone: torch.save(m.state_dict())"
            )
        begin, nbytes = found.get(f"{root}/byteorder", (0, 0))
        _, written = found[f"{root}/data.pkl"]
        if nbytes and file.map[begin : begin + min(nbytes, 8)] != b"little":
            raise file.unreadable("it is big-endian", _AGAIN)
        self.tensors = dict(self._flat(Unpickler(file, found, root).load(), written))
        file.map.require_whole()

    def _flat(self, top: Any, written: int) -> Iterator[tuple[str, TorchTensor]]:
        """The tensors inside of dicts and lists, with their names."""
        if not isinstance(top, dict):
            raise self._nameless()
        seen: set[str] = set()
        # A pickle can make one dict the item of many: what is visited is bounded, not what is made.
        budget, characters = (1 << 20) + written, 0
        stack: list[tuple[str, Any, int]] = [("", top, 0)]
        while stack:
            prefix, value, depth = stack.pop()
            if isinstance(value, TorchTensor):
                if prefix in seen:
                    raise self.mapped.bad(f"it has two tensors named {prefix[:200]!r}")
                seen.add(prefix)
                yield prefix, value
                continue
            if not isinstance(value, (dict, list, tuple)):
                continue
            budget -= len(value) + 1
            if depth > MAX_DEPTH or budget < 0:
                raise self.mapped.bad("its dicts lie inside of one another without end")
            items = value.items() if isinstance(value, dict) else enumerate(value)
            inner = []
            for key, item in items:
                if isinstance(item, (TorchTensor, dict, list, tuple)):
                    name = step(prefix, key)
                    characters += len(name)
                    if characters > MAX_NAME_CHARACTERS:
                        raise self.mapped.bad("its names have no end")
                    inner.append((name, item, depth + 1))
            stack += reversed(inner)
        if not seen:
            raise self._nameless()

    def _nameless(self) -> WeightError:
        return WeightError(
            "ML750",
            f"{self.path} has no tensors by name",
            fix="save a dict of tensors: torch.save(model.state_dict(), path)",
        )


class PytorchWeights(FileWeights):
    """The weights of a PyTorch checkpoint, found by attribute and index.

    Opening reads the list of tensors; a tensor is mapped when its data is asked for, and copied
    only when the file does not hold its elements in order, as for one that was transposed. PyTorch
    is not needed. The file's pickle is interpreted, never executed.

    Args:
        filepath: The file.
        tensor_infos: The tensors to show, by name; all of the file's when it is left out.
        prefix: The name that this accessor stands for.
        allocated: Where allocated weights are recorded; shared by all accessors that come from one
            another.
        private: Read the file into memory of its own, where it is mapped otherwise.

    Raises:
        WeightError: ML632, the file cannot be opened; ML633, it is damaged; ML637, an older format
            or TorchScript; ML747, its pickle asks for code; ML750, it has no tensors by name.

    Example:
        >>> from maxlab.graph.weights import PytorchWeights
        >>> weights = PytorchWeights("pytorch_model.bin")  # doctest: +SKIP
        >>> weights.embeddings.weight.shape  # doctest: +SKIP
        [Dim(50257), Dim(768)]
    """

    __slots__ = ()

    @placed
    def __init__(
        self,
        filepath: os.PathLike[str],
        tensor_infos: dict[str, Any] | None = None,
        prefix: str = "",
        allocated: dict[str, DLPackArray] | None = None,
        private: bool = False,
    ) -> None:
        super().__init__(prefix, allocated)
        if tensor_infos is None:
            tensor_infos = PytorchFile(filepath, private).tensors
        self._table: Mapping[str, TorchTensor] = tensor_infos

    def _open(self, name: str) -> Array:
        return _read(name, self._table[name])

    def _memory(self, name: str) -> FileMemory | None:
        return self._table[name].file.map

    def _known(self, name: str) -> Facts:
        tensor = self._table[name]
        if tensor.dtype is None:
            what = f"has the dtype {tensor.spelling}" if tensor.storage else tensor.spelling
            raise WeightError(
                "ML634",
                f"the weight {name!r} of {tensor.file.path} {what}, which no tensor of a graph "
                "can have",
                fix="convert it before saving the file",
            )
        return Facts(tensor.dtype, Shape(tensor.shape))


def _read(name: str, tensor: TorchTensor) -> Array:
    """The elements of a tensor in order, read-only, over the file where it has them in order."""
    storage, dtype = tensor.storage, tensor.dtype
    assert storage is not None
    assert dtype is not None
    begin = storage.begin + tensor.offset * dtype.size_in_bytes
    count = math.prod(tensor.shape)
    if not count or _in_order(tensor):
        return tensor.file.view(name, begin, dtype, tensor.shape)
    nbytes = count * dtype.size_in_bytes
    if nbytes > max(storage.nbytes, MAX_REPEATED_BYTES):
        raise WeightError(
            "ML751",
            f"the weight {name!r} of {tensor.file.path} repeats its elements: it would take "
            f"{nbytes} bytes, and the file has {storage.nbytes} for it",
            fix="save it as it was before expand(), and expand it in the graph",
        )
    steps = zip(tensor.shape, tensor.strides, strict=True)
    span = 1 + sum((n - 1) * stride for n, stride in steps)
    flat = tensor.file.view(name, begin, dtype, (span,))
    strides = [stride * dtype.size_in_bytes for stride in tensor.strides]
    array = np.lib.stride_tricks.as_strided(flat, tensor.shape, strides, writeable=False).copy()
    tensor.file.map.require_whole()
    array.flags.writeable = False
    return array


def _in_order(tensor: TorchTensor) -> bool:
    """Whether the elements lie one after the other, the last dim's first."""
    expected = 1
    for n, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        if n != 1 and stride != expected:
            return False
        expected *= n
    return True
