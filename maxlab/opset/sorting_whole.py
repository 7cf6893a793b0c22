"""The old kernels of ``top_k``: whole rows are sorted, and the first k taken.

The new ones, in ``sorting_kernels``, select the k largest and sort those alone. Both give the same
numbers; see ``Options.old_top_k``.
"""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.ir.poly import Poly
from maxlab.opset.kernel import Site
from maxlab.opset.sorting_keys import Keys

THREADS = 256


def whole_rows(at: Site, keys: Keys, rows: Poly, n: Poly, k: int) -> None:
    """Write the kernel that sorts ``rows`` rows of ``n`` elements for their ``k`` largest."""
    if at.target == "c":
        _whole_c(at, keys, rows, n, k)
    else:
        _whole_cuda(at, keys, rows, n, k)


def _whole_c(at: Site, keys: Keys, rows: Poly, n: Poly, k: int) -> None:
    """A radix sort of the records of a row."""
    w = keys.record
    x, values, indices = (b.name for b in (at.operands[0], *at.results))
    text = f"""\
const i64 n = {at.size(n)}, base = i * n;
{w} *const all = ({w} *){at.scratch};
for (i64 j = 0; j < n; j++) {{
  {keys.declare("key", "base + j")}
  all[j] = {keys.join("key", "j")};
}}
if (n > 1 << 20 && mx_stop(ctx)) return MX_STOPPED;
mx_sort_{w}(all, all + n, n, ctx);
for (i64 j = 0; j < {k}; j++) {{
  const i64 from = (i64)(u32)all[j];
  {values}[i * {k} + j] = {x}[base + from];
  {indices}[i * {k} + j] = from;
}}"""
    at.part(
        text, rows, work=n * Poly.constant(4), scratch=n * Poly.constant(32 if keys.wide else 16)
    )


def _whole_cuda(at: Site, keys: Keys, rows: Poly, n: Poly, k: int) -> None:
    """A block a row: a bitonic sort in memory, of as many records as the next power of two."""
    key = keys.key
    x, values, indices = (b.name for b in (at.operands[0], *at.results))
    room = rows * n * Poly.constant(2)  # a power of two that is not below n is below 2 n
    kept = at.temporary(DType.uint64 if keys.wide else DType.uint32, room).name
    places = at.temporary(DType.uint32, room).name
    text = f"""\
const i64 n = {at.size(n)}, base = i * n;
{key} *const all = {kept} + 2 * base;
u32 *const order = {places} + 2 * base;
i64 many = 1;
while (many < n) many *= 2;
for (i64 j = threadIdx.x; j < many; j += blockDim.x)
  if (j < n) {{
    {keys.declare("key", "base + j")}
    all[j] = key, order[j] = (u32)j;
  }} else {{
    all[j] = {keys.all}, order[j] = 0xffffffffu;
  }}
for (i64 size = 2; size <= many; size *= 2)
  for (i64 stride = size / 2; stride; stride /= 2) {{
    __syncthreads();
    for (i64 e = threadIdx.x; e < many / 2; e += blockDim.x) {{
      const i64 a = 2 * e - (e & (stride - 1)), b = a + stride;
      const {key} p = all[a], q = all[b];
      const u32 s = order[a], t = order[b];
      if ((p > q || (p == q && s > t)) == ((a & size) == 0))
        all[a] = q, all[b] = p, order[a] = t, order[b] = s;
    }}
  }}
__syncthreads();
for (i64 j = threadIdx.x; j < {k}; j += blockDim.x) {{
  const i64 from = order[j];
  {values}[i * {k} + j] = {x}[base + from];
  {indices}[i * {k} + j] = from;
}}
__syncthreads();"""
    at.part(text, rows, block=True, threads=THREADS, work=n * Poly.constant(16))


__all__ = ["whole_rows"]
