"""Matrix products by cuBLASLt, NVIDIA's library, where it is installed.

It is found like NVRTC (toolkit, wheels, loader) and called through its C interface, which hides
its structures behind handles ("cuBLASLt API", cuBLAS documentation); only the algorithm that a
heuristic returns is bytes of a known size. cuBLASLt thinks in columns: the row-major product
``C = A B`` is given to it as ``C' = B' A'``, where the transposed row-major matrix is the
column-major one of the same memory.

This was run against a stand-in that has the documented interface and computes on the CPU
(``tests/driver_cuda/fake/libcublaslt``), which shows that every argument is in its place. It
was not run on a GPU.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from maxlab.driver.backend import Product, Queue
from maxlab.driver.cuda.opened import Opened
from maxlab.driver.cuda.queues import CudaQueue
from maxlab.dtype import DType
from maxlab.errors import DeviceError
from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.nvlib import NvLibrary, library_paths, open_library

MAJORS = (13, 12)
WORKSPACE_BYTES = 32 << 20  # what cuBLAS itself takes on Hopper and later
_FUNCTIONS = {
    "cublasLtGetVersion": "size_t (*)(void)",
    "cublasLtCreate": "int (*)(void **)",
    "cublasLtDestroy": "int (*)(void *)",
    "cublasLtMatmulDescCreate": "int (*)(void **, int, int)",
    "cublasLtMatmulDescDestroy": "int (*)(void *)",
    "cublasLtMatmulDescSetAttribute": "int (*)(void *, int, const void *, size_t)",
    "cublasLtMatrixLayoutCreate": "int (*)(void **, int, uint64_t, uint64_t, int64_t)",
    "cublasLtMatrixLayoutDestroy": "int (*)(void *)",
    "cublasLtMatrixLayoutSetAttribute": "int (*)(void *, int, const void *, size_t)",
    "cublasLtMatmulPreferenceCreate": "int (*)(void **)",
    "cublasLtMatmulPreferenceDestroy": "int (*)(void *)",
    "cublasLtMatmulPreferenceSetAttribute": "int (*)(void *, int, const void *, size_t)",
    "cublasLtMatmulAlgoGetHeuristic": "int (*)(void *, void *, void *, void *, void *, void *, "
    "void *, int, void *, int *)",
    "cublasLtMatmul": "int (*)(void *, void *, const void *, const void *, void *, const void *, "
    "void *, const void *, const void *, void *, void *, void *, const void *, void *, size_t, "
    "void *)",
}
# library_types.h, cublas_api.h, cublasLt.h
_DATA_TYPES = {DType.float32: 0, DType.float16: 2, DType.bfloat16: 14}
_COMPUTE_32F = 68  # float throughout; TF32 would be 77
_OP_T = 1
_TRANSA, _TRANSB = 3, 4
_BATCH_COUNT, _BATCH_STRIDE = 5, 6
_MAX_WORKSPACE = 1
_ALIGNMENTS = (5, 6, 7, 8)  # of A, B, C and D
_ALGORITHM_BYTES = 64  # cublasLtMatmulAlgo_t is uint64_t[8]
# cublasLtMatmulHeuristicResult_t: the algorithm, size_t workspaceSize, status, float wavesCount and
# int reserved[4].
_RESULT_BYTES = _ALGORITHM_BYTES + 8 + 4 + 4 + 16
_MOST_ALIGNED = 256
_STATUS = {
    1: "NOT_INITIALIZED",
    3: "ALLOC_FAILED",
    7: "INVALID_VALUE",
    8: "ARCH_MISMATCH",
    11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED",
    14: "INTERNAL_ERROR",
    15: "NOT_SUPPORTED",
}


class _Plan(NamedTuple):
    """A product as the library knows it; ``None`` for the algorithm if it has none."""

    operation: Any
    layouts: tuple[Any, Any, Any]
    algorithm: Any
    workspace: int


class BlasLt:
    """cuBLASLt for one device. All methods are called by the device's owner.

    Example::

        blas = context.blas()
        if blas is not None:
            context.call(lambda: blas.run(queue, Product(64, 128, 256, DType.float32), c, a, b))
    """

    def __init__(self, context: Opened, library: NvLibrary) -> None:
        self._context = context
        self._lib = library
        handle = ffi.new("void **")
        self._check(library.cublasLtCreate(handle), "cublasLtCreate")
        self._handle = handle[0]
        self._plans: dict[tuple[Product, tuple[int, int, int]], _Plan] = {}
        self._one, self._zero = ffi.new("float *", 1.0), ffi.new("float *", 0.0)
        self.version = int(library.cublasLtGetVersion())
        context.at_close(self.close)

    @classmethod
    def find(cls, context: Opened) -> BlasLt | None:
        """cuBLASLt for a device, or None if it is not installed; see `CudaContext.blas`."""
        library = _library(tuple(library_paths("cublasLt", MAJORS)))
        return None if library is None else cls(context, library)

    def supports(self, product: Product) -> bool:
        """Whether the library has an algorithm for the product with well aligned matrices."""
        if product.dtype not in _DATA_TYPES or (product.out or product.dtype) not in _DATA_TYPES:
            return False
        return self._plan(product, (_MOST_ALIGNED,) * 3).algorithm is not None

    def run(self, queue: Queue, product: Product, c: int, a: int, b: int) -> None:
        """Give the product to ``queue``; addresses are of the device.

        Raises:
            DeviceError: ML443, the library has no algorithm for it; ML403, no memory for its
                workspace.
        """
        assert isinstance(queue, CudaQueue), "queues of one backend are not those of another"
        plan = self._plan(product, (_alignment(a), _alignment(b), _alignment(c)))
        if plan.algorithm is None:
            raise DeviceError(
                "ML443",
                f"cuBLASLt has no algorithm for {product}",
                fix="ask BlasLt.supports before, and use another kernel if it says no",
            )
        left, right, out = plan.layouts
        target = _pointer(c)
        workspace = self._workspace(queue) if plan.workspace else 0
        status = self._lib.cublasLtMatmul(
            self._handle, plan.operation, self._one, _pointer(b), left, _pointer(a), right,
            self._zero, target, out, target, out, plan.algorithm, _pointer(workspace),
            plan.workspace, queue.pointer,
        )  # fmt: skip
        self._check(status, "cublasLtMatmul")
        self._context.counters.launches += 1
        queue.launched(f"cublasLt {product.m}x{product.n}x{product.k}")

    def close(self) -> None:
        """Give back what the library holds; called when the device is closed."""
        for plan in self._plans.values():
            self._lib.cublasLtMatmulDescDestroy(plan.operation)
            for layout in plan.layouts:
                self._lib.cublasLtMatrixLayoutDestroy(layout)
        self._plans.clear()
        self._lib.cublasLtDestroy(self._handle)

    # ---------------------------------------------------------------- inside

    def _plan(self, product: Product, alignments: tuple[int, int, int]) -> _Plan:
        found = self._plans.get((product, alignments))
        if found is None:
            found = self._plans[product, alignments] = self._make_plan(product, alignments)
        return found

    def _make_plan(self, p: Product, alignments: tuple[int, int, int]) -> _Plan:
        lib = self._lib
        operation = self._made("cublasLtMatmulDescCreate", _COMPUTE_32F, _DATA_TYPES[DType.float32])
        # The library's A is our B and the other way round.
        for attribute, transposed in ((_TRANSA, p.transpose_b), (_TRANSB, p.transpose_a)):
            if transposed:
                self._set("cublasLtMatmulDesc", operation, attribute, "int32_t", _OP_T)
        layouts = (
            self._layout(p.dtype, *_stored(p.k, p.n, p.transpose_b), p.batch, p.stride_b),
            self._layout(p.dtype, *_stored(p.m, p.k, p.transpose_a), p.batch, p.stride_a),
            self._layout(p.out or p.dtype, p.m, p.n, p.batch, p.stride_c),
        )
        left, right, out = layouts
        preference = self._made("cublasLtMatmulPreferenceCreate")
        kind = "cublasLtMatmulPreference"
        self._set(kind, preference, _MAX_WORKSPACE, "uint64_t", WORKSPACE_BYTES)
        a, b, c = alignments
        for attribute, alignment in zip(_ALIGNMENTS, (b, a, c, c), strict=True):
            self._set(kind, preference, attribute, "uint32_t", alignment)
        result, count = ffi.new("char[]", _RESULT_BYTES), ffi.new("int *")
        status = lib.cublasLtMatmulAlgoGetHeuristic(
            self._handle, operation, left, right, out, out, preference, 1, result, count
        )
        lib.cublasLtMatmulPreferenceDestroy(preference)
        if status or count[0] < 1:
            return _Plan(operation, layouts, None, 0)
        algorithm = ffi.new("char[]", _ALGORITHM_BYTES)
        ffi.memmove(algorithm, result, _ALGORITHM_BYTES)
        size = ffi.buffer(result)[_ALGORITHM_BYTES : _ALGORITHM_BYTES + 8]
        return _Plan(operation, layouts, algorithm, int.from_bytes(size, "little"))

    def _layout(self, dtype: DType, rows: int, columns: int, batch: int, stride: int | None) -> Any:
        """A row-major matrix as the library's column-major one of the same memory."""
        made = self._made("cublasLtMatrixLayoutCreate", _DATA_TYPES[dtype], columns, rows, columns)
        if batch > 1:
            stride = rows * columns if stride is None else stride
            self._set("cublasLtMatrixLayout", made, _BATCH_COUNT, "int32_t", batch)
            self._set("cublasLtMatrixLayout", made, _BATCH_STRIDE, "int64_t", stride)
        return made

    def _made(self, function: str, *arguments: int) -> Any:
        handle = ffi.new("void **")
        self._check(getattr(self._lib, function)(handle, *arguments), function)
        return handle[0]

    def _set(self, kind: str, handle: Any, attribute: int, c_type: str, value: int) -> None:
        memory = ffi.new(f"{c_type} *", value)
        function = f"{kind}SetAttribute"
        status = getattr(self._lib, function)(handle, attribute, memory, ffi.sizeof(c_type))
        self._check(status, function)

    def _workspace(self, queue: CudaQueue) -> int:
        # One a stream: work of one stream is in order, that of two may run at the same time.
        if not queue.workspace:
            queue.workspace = self._context.allocate(WORKSPACE_BYTES)
        return queue.workspace

    def _check(self, status: int, function: str) -> None:
        if status:
            name = _STATUS.get(status, str(status))
            raise DeviceError(
                "ML443",
                f"{function} failed on gpu:{self._context.id}: CUBLAS_STATUS_{name}",
                fix="if the device was lost the next call says so; else please report it with "
                "this message",
            )

    def __repr__(self) -> str:
        return f"BlasLt({self.version}, {self._lib.path})"


@functools.lru_cache(maxsize=4)
def _library(candidates: tuple[str, ...]) -> NvLibrary | None:
    return open_library(candidates, _FUNCTIONS)


def _stored(rows: int, columns: int, transposed: bool) -> tuple[int, int]:
    return (columns, rows) if transposed else (rows, columns)


def _alignment(address: int) -> int:
    """The largest power of two up to 256 that divides ``address``."""
    return min(address & -address, _MOST_ALIGNED) if address else _MOST_ALIGNED


def _pointer(address: int) -> Any:
    return ffi.cast("void *", address)
