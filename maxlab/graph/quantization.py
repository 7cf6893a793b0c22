"""Encodings of quantised weights: how many numbers a block holds, and in how many bytes.

The blocks are laid out as GGUF files have them. ``ops.dequantize`` makes floats of them;
``ops.qmatmul`` multiplies with them as they are.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from maxlab.errors import EncodingError
from maxlab.graph.staged import placed
from maxlab.opset.quantized import FORMATS


@dataclass(frozen=True)
class BlockParameters:
    """The size of a block: ``elements_per_block`` numbers in ``block_size`` bytes."""

    elements_per_block: int
    block_size: int


@dataclass(frozen=True)
class QuantizationConfig:
    """How a checkpoint was quantised, as its own configuration says.

    Attributes:
        quant_method: The method, such as ``"gptq"``.
        bits: Bits of a number.
        group_size: How many numbers share a scale.
        desc_act: Whether columns were quantised in the order of their activations.
        sym: Whether the numbers stand symmetrically around zero.
    """

    quant_method: str
    bits: int
    group_size: int
    desc_act: bool = False
    sym: bool = False


class QuantizationEncoding(enum.Enum):
    """An encoding of quantised weights. All but ``GPTQ`` are those of GGUF files.

    Example:
        >>> from maxlab.graph.quantization import QuantizationEncoding
        >>> encoding = QuantizationEncoding.Q4_K
        >>> encoding.name, encoding.elements_per_block, encoding.block_size
        ('q4_k', 256, 144)
    """

    Q4_0 = "Q4_0"
    """4 bits; 32 numbers share a scale."""
    Q4_K = "Q4_K"
    """4 bits; blocks of 256 numbers, of which 32 share a scale and a least value."""
    Q5_K = "Q5_K"
    """5 bits, otherwise as ``Q4_K``."""
    Q6_K = "Q6_K"
    """6 bits; blocks of 256 numbers, of which 16 share a scale."""
    GPTQ = "GPTQ"
    """Groups of numbers, whose size a ``QuantizationConfig`` gives."""

    @property
    def name(self) -> str:
        """The name in lower case, such as ``"q4_0"``."""
        return str(self.value).lower()

    @property
    def is_gguf(self) -> bool:
        """Whether GGUF files have this encoding."""
        return self is not QuantizationEncoding.GPTQ

    @property
    @placed
    def block_parameters(self) -> BlockParameters:
        """The size of a block.

        Raises:
            EncodingError: ML736 (a KeyError), ``GPTQ``, which has no blocks of one size.
        """
        found = FORMATS.get(str(self.value))
        if found is None:
            raise EncodingError(
                "ML736",
                f"the encoding {self.value} has no blocks of one size",
                fix="ask encoding.is_gguf first; GPTQ's groups are those of its QuantizationConfig",
            )
        return BlockParameters(found.elements, found.nbytes)

    @property
    def elements_per_block(self) -> int:
        """How many numbers a block holds.

        Raises:
            EncodingError: ML736, ``GPTQ``.
        """
        return self.block_parameters.elements_per_block

    @property
    def block_size(self) -> int:
        """How many bytes a block takes.

        Raises:
            EncodingError: ML736, ``GPTQ``.
        """
        return self.block_parameters.block_size


__all__ = ["BlockParameters", "QuantizationConfig", "QuantizationEncoding"]
