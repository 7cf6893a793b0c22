"""Convolutions of float32 that only mix the channels of images with the channels first, on the CPU.

The result of an image is the filter, a matrix of channels out by channels in, times the image, one
of channels by pixels. Neither is turned: a block of pixels is copied into panels of the library,
and all rows of the filter are done with it.
"""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.ir.poly import ONE
from maxlab.opset.convolution_products import PANEL, Sizes, part_of
from maxlab.opset.kernel import Site
from maxlab.opset.windows import known, number

CACHED = 256 << 10
"""Bytes that the panels of a block should have at most."""
PANELS = (4, 16)
"""How many they are at least, and at most."""
WASTE = 0.04
"""The part of the columns that may be empty, in the last panel of an image."""


def write_planes(at: Site, sizes: Sizes) -> bool:
    """The parts of a convolution that only mixes channels; False when it is none for that."""
    x, w, y = at.operands[0], at.operands[1], at.results[0]
    depth, area = known(sizes["IC"]), known(sizes["OD"] * sizes["OH"] * sizes["OW"])
    one = all(known(sizes[f"{part}{axis}"]) == 1 for part in "KS" for axis in "DHW")
    padded = any(known(sizes[f"Q{axis}"]) != 0 for axis in "DHW")
    if x.dtype is not DType.float32 or at.attrs["groups"] > 1 or not one or padded:
        return False
    if not depth or not area or -(-area // PANEL) * PANEL > (1 + WASTE) * area:
        return False
    least, most = PANELS
    columns = PANEL * min(most, max(least, CACHED // (4 * PANEL * depth)))
    blocks = -(-area // columns)
    columns = -(-area // (blocks * PANEL)) * PANEL  # about equal
    blocks = -(-area // columns)
    bias = ""
    if len(at.operands) > 2:
        bias = f"""
for (i64 f = 0; f < OC; f++) {{
  const f32 v = {at.operands[2].load("f")};
  f32 *const line = to + f * AREA;
  #pragma omp simd
  for (i64 e = 0; e < many; e++) line[e] += v;
}}"""
    text = f"""\
const i64 p0 = i % BLOCKS * COLUMNS, many = AREA - p0 < COLUMNS ? AREA - p0 : COLUMNS;
f32 *const panels = (f32 *)ctx->scratch;
f32 *const to = {y.name} + i / BLOCKS * OC * AREA + p0;
ctx->lib->pack_b_f32(panels, {x.name} + i / BLOCKS * IC * AREA + p0, IC, many, AREA, 1, 0,
  (many + {PANEL - 1}) / {PANEL});
ctx->lib->gemm_f32(to, AREA, {w.name}, IC, panels, OC, many, IC, OC, COLUMNS, 0, 1, 0, 0, 0,
  ctx);{bias}"""
    more = {
        **sizes,
        "AREA": number(area),
        "BLOCKS": number(blocks),
        "COLUMNS": number(columns),
    }
    items = sizes["NB"] * number(blocks)
    work = number(columns * depth) * sizes["OC"].floordiv(number(16)) + ONE
    scratch = number(4 * columns * depth)
    part_of(at, more, text, items, work=work, scratch=scratch, name="product")
    return True


__all__ = ["write_planes"]
