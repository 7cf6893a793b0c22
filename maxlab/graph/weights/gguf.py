"""Weights of GGUF files, plain or quantised, found by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.driver.mapped import FileMemory
from maxlab.errors import WeightError
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.staged import placed
from maxlab.graph.value import DLPackArray
from maxlab.graph.weights.accessor import Facts, FileWeights
from maxlab.graph.weights.gguf_file import KINDS, GGUFFile, GGUFTensor
from maxlab.graph.weights.mapped import MappedFile
from maxlab.ir import Shape
from maxlab.opset.core import Array

if TYPE_CHECKING:
    import gguf  # type: ignore[import-not-found,unused-ignore]


class GGUFWeights(FileWeights):
    """The weights of a GGUF file, found by attribute and index.

    Opening reads the metadata and the list of tensors; a tensor is mapped, not copied, when its
    data is asked for. Quantised tensors are the bytes of their blocks: ``uint8``, their last dim
    counted in bytes, with their ``QuantizationEncoding``.

    Args:
        source: The file, or a ``GGUFReader`` of the package ``gguf``.
        tensors: The tensors to show, by name; all of the file's when it is left out.
        prefix: The name that this accessor stands for.
        allocated: Where allocated weights are recorded; shared by all accessors that come from one
            another.
        private: Read the file into memory of its own, where it is mapped otherwise.

    Raises:
        WeightError: ML632, the file cannot be opened; ML633, it is damaged; ML637, a version or
            byte order that is not read.

    Example:
        >>> from maxlab.graph.weights import GGUFWeights
        >>> weights = GGUFWeights("model-q4_k.gguf")  # doctest: +SKIP
        >>> weights.blk[0].attn_q.weight.data().quantization_encoding  # doctest: +SKIP
        QuantizationEncoding.Q4_K
    """

    __slots__ = ()

    @placed
    def __init__(
        self,
        source: os.PathLike[str] | gguf.GGUFReader,
        tensors: Mapping[str, Any] | None = None,
        prefix: str = "",
        allocated: dict[str, DLPackArray] | None = None,
        private: bool = False,
    ) -> None:
        super().__init__(prefix, allocated)
        if isinstance(source, (str, os.PathLike)):
            path = os.fspath(source)
            found = GGUFFile(path, private).tensors if tensors is None else tensors
        elif source.byte_order == "S":
            raise WeightError(
                "ML637",
                "the GGUFReader reads a file of the other byte order",
                fix="convert the model again on a machine of this byte order",
            )
        else:
            path = "a GGUFReader"
            found = {t.name: t for t in source.tensors} if tensors is None else tensors
        self._table: Mapping[str, GGUFTensor] = {
            name: tensor if isinstance(tensor, GGUFTensor) else _adopted(path, name, tensor)
            for name, tensor in found.items()
        }

    def _open(self, name: str) -> Array:
        return self._table[name].read()

    def _memory(self, name: str) -> FileMemory | None:
        source = self._table[name].source
        mapped = source.mapped if isinstance(source, GGUFFile) else None
        return mapped.map if isinstance(mapped, MappedFile) else None

    def _known(self, name: str) -> Facts:
        tensor = self._table[name]
        encoding = tensor.encoding
        shape = Shape(tensor.shape)
        if encoding is None:
            return Facts(tensor.dtype, shape)
        return Facts(tensor.dtype, shape, QuantizationEncoding[encoding], Shape(tensor.logical))


def _adopted(path: str, name: str, tensor: gguf.ReaderTensor) -> GGUFTensor:
    """A tensor that the package ``gguf`` has found: its dims are those of the file, fastest
    first."""
    number = int(tensor.tensor_type)
    shape = tuple(int(n) for n in reversed(tensor.shape))
    return GGUFTensor(path, name, number, KINDS.get(number), shape, np.asarray(tensor.data))
