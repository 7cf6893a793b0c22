"""Kernels of a GPU that are printed when they are needed: what they are printed from.

A step may choose among several kernels when its sizes are known, and most of them are never asked
for. Those that no text is printed of are plain values here, each with the one way to print it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maxlab.compiler.codegen import cuda, cuda_rows
from maxlab.compiler.codegen.cuda_product import print_attention, print_product
from maxlab.compiler.gpu_templates import AttentionTemplate, ProductTemplate
from maxlab.compiler.loops import Kernel
from maxlab.compiler.printed import CudaPrinted
from maxlab.compiler.products import AttentionCall, Contraction
from maxlab.compiler.row_shapes import RowShape
from maxlab.dtype import DType
from maxlab.ir.poly import Poly


@dataclass(frozen=True, slots=True)
class RowsText:
    """The kernel of rows that are folded.

    Attributes:
        kernel: Its loops.
        kept: Rows of numbers that it keeps.
        by: Who folds a row: a block of threads, a warp, several blocks, or the threads of a shape,
            in whose registers it stays.
    """

    kernel: Kernel
    kept: int
    by: Literal["block", "warp", "blocks"] | RowShape

    def printed(self) -> CudaPrinted:
        """The text."""
        if isinstance(self.by, RowShape):
            return cuda_rows.print_kept_rows(self.kernel, self.by)
        if self.by == "blocks":
            return cuda.print_split_rows(self.kernel)
        return cuda.print_folded_rows(self.kernel, self.kept, self.by == "warp")


@dataclass(frozen=True, slots=True)
class ProductText:
    """The kernel of a product, by one of its templates.

    Attributes:
        template: The template.
        product: The product.
        dtype: Of its operands.
        epilogue: What stores its elements.
        node: The id of the op that it computes.
    """

    template: ProductTemplate
    product: Contraction
    dtype: DType
    epilogue: Kernel
    node: str

    def printed(self) -> CudaPrinted:
        """The text."""
        return print_product(self.template, self.product, self.dtype, self.epilogue, self.node)


@dataclass(frozen=True, slots=True)
class AttentionText:
    """The kernel of fused attention, by one of its templates.

    Attributes:
        template: The template.
        call: Its operands and sizes.
        dtype: Of its operands.
        score: What makes scores of raw ones.
        bound: How many keys a query sees; None for all.
        node: The id of the op that it computes.
    """

    template: AttentionTemplate
    call: AttentionCall
    dtype: DType
    score: Kernel
    bound: Poly | None
    node: str

    def printed(self) -> CudaPrinted:
        """The text."""
        return print_attention(
            self.template, self.call, self.dtype, self.score, self.bound, self.node
        )


CudaText = RowsText | ProductText | AttentionText


__all__ = ["AttentionText", "CudaText", "ProductText", "RowsText"]
