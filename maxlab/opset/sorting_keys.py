"""The keys and records by which elements are put in order: see ``sorting_kernels``."""

from __future__ import annotations

from dataclasses import dataclass

from maxlab.dtype import DType
from maxlab.opset.kernel import Buffer

_NAN = {DType.float16: "0x7c00u", DType.bfloat16: "0x7f80u"}
"""The largest half that is not NaN, as bits."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys and records of the elements of ``x``, as text; inverted where ``down``, so that the
    largest element comes first."""

    x: Buffer
    target: str
    down: bool

    @property
    def bits(self) -> int:
        """Of a key."""
        return 8 if self.x.dtype is DType.bool else self.x.dtype.size_in_bits

    @property
    def wide(self) -> bool:
        """Whether keys have 64 bits."""
        return self.bits == 64

    @property
    def key(self) -> str:
        """The C type of a key."""
        return "u64" if self.wide else "u32"

    @property
    def record(self) -> str:
        """The C type of a record."""
        return "u128" if self.wide else "u64"

    @property
    def low(self) -> int:
        """The bit of a record at which its key begins."""
        return 64 if self.wide else 32

    @property
    def all(self) -> str:
        """The key of ones."""
        return hex(2**self.bits - 1) + ("ull" if self.wide else "u")

    def declare(self, name: str, index: str) -> str:
        """The statement that declares ``name`` as the key of the element at ``index``."""
        raw, kind, dtype = f"{self.x.name}[{index}]", self.key, self.x.dtype
        before = ""
        if dtype.is_float():
            end = "ull" if self.wide else "u"
            sign = hex(1 << (self.bits - 1)) + end
            rest = hex((1 << (self.bits - 1)) - 1) + end
            nan = _NAN.get(dtype, "0x7ff0000000000000ull" if self.wide else "0x7f800000u")
            if dtype is DType.float32:
                raw = f"mx_bits_f32({raw})"
            elif dtype is DType.float64:
                c = self.target == "c"
                raw = f"mx_bits_f64({raw})" if c else f"(u64)__double_as_longlong({raw})"
            before = f"const {kind} {name}_u = {raw}, {name}_a = {name}_u & {rest}; "
            value = (
                f"({name}_a > {nan} ? {self.all} : "
                f"{name}_u & {sign} ? {sign} - {name}_a : {sign} + {name}_a)"
            )
        elif dtype.is_unsigned_integral() or dtype is DType.bool:
            value = f"({kind}){raw}"
        else:
            half = hex(1 << (self.bits - 1)) + ("ull" if self.wide else "u")
            value = f"(({kind})(u{self.bits}){raw} ^ {half})"
        return f"{before}const {kind} {name} = {value}{f' ^ {self.all}' if self.down else ''};"

    def join(self, key: str, index: str) -> str:
        """The record of ``key`` and ``index``."""
        return f"(({self.record}){key} << {self.low} | (u64){index})"


__all__ = ["Keys"]
