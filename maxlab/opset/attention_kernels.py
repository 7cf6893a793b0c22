"""How the kernels of attention cut their work: numbers that the texts ``attention.c``,
``attention_blocks.c`` and ``attention.cu`` of ``kernels/ops`` take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxlab.dtype import DType
from maxlab.ir import Poly
from maxlab.ir.poly import ONE
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel

TILE = 64
"""Scores of float64 that a thread of the CPU takes at once."""
LINES, KEYS, CHUNK = 96, 256, 128
"""Queries and keys that it takes at once, in a block of rows; keys, for a row by itself."""
TOGETHER = 512 << 10
"""Bytes of keys and values, CHUNK of each, that it takes at once: those of some heads."""
TAKEN_TOGETHER = 16
"""Rows from which on they are taken in blocks, several times as fast as each by itself."""
FEW_ITEMS = 8
"""Items of a block of rows, of which some are for its single rows, unless there are as many heads:
two threads then take one at a time."""
WARPS = 4
"""Warps of a block that share the keys of a row."""


def power_below(heads: int) -> int:
    """The greatest power of two that is not above ``heads``."""
    return 1 << (heads.bit_length() - 1)


def write_attention(
    at: Site,
    name: str,
    dims: Mapping[str, Poly],
    sinks: bool,
    touched: Mapping[str, Poly] | None = None,
    sizes: Mapping[str, Poly] | None = None,
    **more: Any,
) -> None:
    """Writes the kernel ``name``.

    Args:
        at: The op, and whom it is written for.
        name: The kernel of ``attention.c``; that of ``attention.cu`` is ``name_gpu``.
        dims: Sizes by the names that dims have in the text.
        sinks: Whether there are sinks.
        touched: Elements by buffers of which a part is read.
        sizes: Further sizes of the text.
        more: Further parameters of the text.
    """
    attrs = at.attrs
    wide, heads, dim = (int(dims[name].value) for name in ("wide", "heads", "dim"))
    group, nbytes = wide // heads, 8 if at.results[0].dtype is DType.float64 else 4
    more |= {
        "MASK": attrs["mask"], "WINDOW": attrs["window"], "SCALE": float(attrs["scale"]),
        "SINKS": sinks, "GROUP": group, "POWER": power_below(wide),
        "PAGED": name == "cache_attention",
    }  # fmt: skip
    if at.target == "cuda":
        more |= {"EACH": -(-dim // 32), "WARPS": WARPS, "BYTES": nbytes * WARPS * (dim + 2)}
        kernel = OwnKernel(at, "attention.cu", f"{name}_gpu", dims=dims, sizes=sizes, **more)
        kernel.write(touched=touched)
    elif nbytes == 8:
        more |= {"TILE": TILE, "BYTES": nbytes * (2 * group * (dim + 1) + TILE)}
        kernel = OwnKernel(at, "attention.c", name, dims=dims, sizes=sizes, **more)
        kernel.write(touched=touched)
    else:
        _write_blocks(at, name, dims, touched, sizes, more)


def _write_blocks(
    at: Site,
    name: str,
    dims: Mapping[str, Poly],
    touched: Mapping[str, Poly] | None,
    sizes: Mapping[str, Poly] | None,
    more: dict[str, Any],
) -> None:
    """Writes the kernel of ``attention_blocks.c``, whose head says what the numbers are."""
    wide, heads, dim = (int(dims[name].value) for name in ("wide", "heads", "dim"))
    group, tokens = wide // heads, dims["tokens"]
    rows = max(4, LINES // group)
    lanes, across = -(-rows * group // 32) * 32, -(-dim // 32) * 32
    in_place = at.results[0].dtype is DType.float32 and dim == across
    block = 2 * lanes * dim + rows * group * across + KEYS * (lanes + 16)
    block += 0 if in_place else KEYS * (dim + across)
    few_heads = max(1, TOGETHER // (8 * CHUNK * dim))
    together = max(n for n in range(1, min(few_heads, heads) + 1) if not heads % n)
    alone = together * (3 * group * dim + CHUNK * (group + dim))
    turns = max(FEW_ITEMS - heads, min(heads, FEW_ITEMS)) * together // heads
    singles = max(turns, 1) * heads // together
    more |= {
        "ROWS": rows, "KEYS": KEYS, "CHUNK": CHUNK, "LANES": lanes, "LINE": lanes + 16,
        "WIDE": across, "IN_PLACE": in_place,
        "WHOLE": not dim % 16, "BESIDE": max(n for n in (1, 2, 3, 4) if not group % n),
        "SLICE": max(n for n in (16, 32, 48, 64) if n == 16 or not dim % n),
        "TOGETHER": together, "SINGLES": singles, "BYTES": 4 * max(block, alone),
        "ROOM": 15 * 16 * wide * (dim + 2),
    }  # fmt: skip
    kernel = OwnKernel(at, "attention_blocks.c", f"{name}_blocks", dims=dims, sizes=sizes, **more)

    def times(factor: int, part: Poly) -> Poly:
        return Poly.constant(factor) * part

    more_than = tokens + ONE
    is_many = ONE.floordiv(ONE + Poly.constant(TAKEN_TOGETHER).floordiv(more_than))  # 1 or 0
    splits = Poly.constant(2 * TAKEN_TOGETHER).floordiv(more_than)
    units = tokens * splits * (ONE - is_many)
    blocks = is_many * (tokens + Poly.constant(rows - 1)).floordiv(Poly.constant(rows))
    parts = {kernel["parts"].name: times(wide * (dim + 2), units)}
    extent = times(heads, units) + times(heads + singles, blocks)
    kernel.part("attend", extent=extent, touched={**(touched or {}), **parts})
    parts |= dict.fromkeys(touched or (), Poly.constant(0))
    joined = tokens * (ONE - is_many)
    kernel.part("join", extent=times(heads, joined), touched=parts)


__all__ = ["TAKEN_TOGETHER", "TILE", "WARPS", "power_below", "write_attention"]
