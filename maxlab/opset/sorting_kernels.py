"""The kernels of ``top_k`` and ``argsort``.

Every element becomes an unsigned *key* of its own width whose order is that of the elements: -0 and
0 are one key, every NaN is the largest. Keys are inverted where the largest comes first. A *record*
is a key above an index; no two are equal, so ties stand by index.
"""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.ir.poly import ONE, Poly
from maxlab.opset.kernel import Site
from maxlab.opset.sorting_keys import Keys
from maxlab.opset.sorting_whole import whole_rows


def _power(count: int) -> int:
    """The smallest power of two that is not below ``count``."""
    return 1 << max(count - 1, 0).bit_length()


# ---------------------------------------------------------------- top_k
HEAP = 128
"""The largest k for which the CPU keeps the best in a heap; beyond, it finds the k-th first."""


SMALL = 8
"""The largest k whose heap takes every element as fast as the k-th is found."""


def top_kernel(at: Site) -> None:
    """Write the kernels of ``top_k``."""
    x = at.operands[0]
    *lead, n = x.type.sizes
    rows = ONE
    for size in lead:
        rows = rows * size
    keys, k = Keys(x, at.target, True), at.attrs["k"]
    if not k:  # nothing is written, but a step is needed
        at.part("", rows)
    elif at.old_top_k:
        whole_rows(at, keys, rows, n, k)
    elif at.target == "c":
        _top_c(at, keys, rows, n, k)
    else:
        _top_cuda(at, keys, rows, n, k)


def _top_c(at: Site, keys: Keys, rows: Poly, n: Poly, k: int) -> None:
    w, key, low = keys.record, keys.key, keys.low
    size = 16 if keys.wide else 8
    x, values, indices = (b.name for b in (at.operands[0], *at.results))
    selected = f"""\
{key} *const all = ({key} *)(best + {2 * k});
#pragma omp simd
for (i64 j = 0; j < n; j++) {{
  {keys.declare("key", "base + j")}
  all[j] = key;
}}
{key} first, last;
if (n > 1 << 20 && mx_stop(ctx)) return MX_STOPPED;
i64 ties = mx_kth_{w}(all, n, {k}, {keys.bits}, &first, &last, ctx), got = 0;
if (n > 1 << 20 && mx_stop(ctx)) return MX_STOPPED;
for (i64 j = 0; j < n && got < {k}; j++) {{
  const {key} key = all[j];
  const i64 below = key < first, tie = !below & (key <= last) & (ties > 0);
  best[got] = {keys.join("key", "j")};
  got += below | tie;
  ties -= tie;
}}
mx_sort_{w}(best, best + {k}, {k}, ctx);"""
    scratch = Poly.constant((2 * k + 2) * size) + n * Poly.constant(8 if keys.wide else 4)
    find = selected
    if k <= HEAP:
        # Where the largest come last, nearly every element would go through the heap; that of a
        # few is as fast as selecting.
        patience = f"n / 16 + {4 * k}" if k > SMALL else "n"
        find = f"""\
for (i64 j = 0; j < {k}; j++) {{
  {keys.declare("key", "base + j")}
  best[j] = {keys.join("key", "j")};
}}
for (i64 j = {k} / 2 - 1; j >= 0; j--) mx_sink_{w}(best, {k}, j, best[j]);
{key} worst = ({key})(best[0] >> {low});
i64 patience = {patience};
for (i64 start = {k}; start < n && patience >= 0; start += 1 << 20) {{
const i64 end = n - start > 1 << 20 ? start + (1 << 20) : n;
if (start > {k} && mx_stop(ctx)) return MX_STOPPED;
for (i64 j = start; j < end && patience >= 0; j += 128) {{
  {key} block[128];
  const i64 count = end - j < 128 ? end - j : 128;
  u32 any = 0;
  #pragma omp simd reduction(|:any)
  for (i64 c = 0; c < count; c++) {{
    {keys.declare("key", "base + j + c")}
    block[c] = key;
    any |= key < worst;
  }}
  if (!any) continue;
  for (i64 c = 0; c < count; c++)
    if (block[c] < worst) {{
      mx_sink_{w}(best, {k}, 0, {keys.join("block[c]", "(j + c)")});
      worst = ({key})(best[0] >> {low});
      patience--;
    }}
}}
}}
if (patience < 0) {{
  {selected.replace(chr(10), chr(10) + "  ")}
}} else
  for (i64 j = {k} - 1; j > 0; j--) {{
    const {w} last = best[j];
    best[j] = best[0];
    mx_sink_{w}(best, j, 0, last);
  }}"""
    text = f"""\
const i64 n = {at.size(n)}, base = i * n;
{w} *const best = ({w} *){at.scratch};
{find}
for (i64 j = 0; j < {k}; j++) {{
  const i64 from = (i64)(u32)best[j];
  {values}[i * {k} + j] = {x}[base + from];
  {indices}[i * {k} + j] = from;
}}"""
    at.part(text, rows, work=n, scratch=scratch)


_THREADS = 256
_SHARED = 32_768
"""Bytes of records that a block sorts in shared memory."""


def _top_cuda(at: Site, keys: Keys, rows: Poly, n: Poly, k: int) -> None:
    """A block a row: the k-th largest is found 8 bits at a time, then what is not smaller is
    collected, ties in order, and sorted."""
    x, values, indices = (b.name for b in (at.operands[0], *at.results))
    key, bits, many = keys.key, keys.bits, _power(k)
    size = 12 if keys.wide else 8
    head = 2048 + 64
    if many * size <= _SHARED:
        place = f"{at.shared} + {head}"
        places = (f"({key} *)({place})", f"(u32 *)({place} + {many * (size - 4)})")
        shared = head + many * size
    else:
        dtype = DType.uint64 if keys.wide else DType.uint32
        kept = at.temporary(dtype, rows * Poly.constant(many))
        order = at.temporary(DType.uint32, rows * Poly.constant(many))
        places = (f"{kept.name} + i * {many}", f"{order.name} + i * {many}")
        shared = head
    sort = f"""\
for (u32 size = 2; size <= {many}; size *= 2)
  for (u32 stride = size / 2; stride; stride /= 2) {{
    __syncthreads();
    for (u32 e = threadIdx.x; e < {many // 2}; e += blockDim.x) {{
      const u32 a = 2 * e - (e & (stride - 1)), b = a + stride;
      const {key} p = best[a], q = best[b];
      const u32 s = order[a], t = order[b];
      if ((p > q || (p == q && s > t)) == ((a & size) == 0))
        best[a] = q, best[b] = p, order[a] = t, order[b] = s;
    }}
  }}""" * (many > 1)
    text = f"""\
u32 *const count = (u32 *){at.shared};
u32 *const sums = count + 256;
const i64 n = {at.size(n)}, base = i * n;
{key} *const best = {places[0]};
u32 *const order = {places[1]};
enum {{ chosen, left, full, slots }};
u32 *const state = sums + 256;
{key} prefix = 0;
u32 need = {k};
for (int shift = {bits - 8}; shift >= 0; shift -= 8) {{
  count[threadIdx.x] = 0;
  __syncthreads();
  for (i64 j = threadIdx.x; j < n; j += blockDim.x) {{
    {keys.declare("key", "base + j")}
    if (shift == {bits - 8} || key >> shift >> 8 == prefix)
      atomicAdd(&count[(key >> shift) & 255], 1u);
  }}
  __syncthreads();
  const u32 mine = count[threadIdx.x];
  u32 total = mine;
  for (unsigned distance = 1; distance < 256; distance *= 2) {{
    sums[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x >= distance) total += sums[threadIdx.x - distance];
    __syncthreads();
  }}
  if (total - mine < need && need <= total)
    state[chosen] = threadIdx.x, state[left] = need - (total - mine), state[full] = mine;
  __syncthreads();
  prefix = prefix << 8 | state[chosen];
  need = state[left];
  __syncthreads();
}}
const bool simple = need == state[full];
if (threadIdx.x == 0) state[slots] = 0;
for (i64 j = {k} + threadIdx.x; j < {many}; j += blockDim.x)
  best[j] = {keys.all}, order[j] = 0xffffffffu;
__syncthreads();
for (i64 j = threadIdx.x; j < n; j += blockDim.x) {{
  {keys.declare("key", "base + j")}
  if (key < prefix || (simple && key == prefix)) {{
    const u32 slot = atomicAdd(&state[slots], 1u);
    best[slot] = key, order[slot] = (u32)j;
  }}
}}
if (!simple) {{
  u32 taken = {k} - need;
  for (i64 start = 0; taken < {k}; start += blockDim.x) {{
    const i64 j = start + threadIdx.x;
    bool tie = false;
    if (j < n) {{
      {keys.declare("key", "base + j")}
      tie = key == prefix;
    }}
    const unsigned ties = __ballot_sync(MX_FULL_WARP, tie), lane = threadIdx.x & 31;
    if (lane == 0) sums[threadIdx.x >> 5] = __popc(ties);
    __syncthreads();
    u32 slot = taken + __popc(ties & ((1u << lane) - 1u));
    for (unsigned warp = 0; warp < 8; warp++) {{
      if (warp < threadIdx.x >> 5) slot += sums[warp];
      taken += sums[warp];
    }}
    if (tie && slot < {k}) best[slot] = prefix, order[slot] = (u32)j;
    __syncthreads();
  }}
}}
{sort}
__syncthreads();
for (i64 j = threadIdx.x; j < {k}; j += blockDim.x) {{
  const i64 from = order[j];
  {values}[i * {k} + j] = {x}[base + from];
  {indices}[i * {k} + j] = from;
}}
__syncthreads();"""
    at.part(text, rows, block=True, threads=_THREADS, shared=shared, work=n)


# ---------------------------------------------------------------- argsort
PARTS = 16
"""Parts in which the CPU sorts a long row."""
SHORT = 32_768
"""Elements that the CPU sorts in one go."""
BUCKETS = 2048
COUNTED = 1024
"""Elements below which each thread of a GPU counts those before its own."""
_ITEMS = 8
_TILE = _THREADS * _ITEMS


def argsort_kernel(at: Site) -> None:
    """Write the kernels of ``argsort``."""
    keys = Keys(at.operands[0], at.target, not at.attrs["ascending"])
    (n,) = at.operands[0].type.sizes
    if at.target == "c":
        _argsort_c(at, keys, n)
    elif n.is_constant and n.value <= COUNTED:
        _argsort_count(at, keys, n)
    else:
        _argsort_cuda(at, keys, n)


def _argsort_c(at: Site, keys: Keys, n: Poly) -> None:
    """A radix sort by 11 bits at a time, of the highest 33 of what keys exceed the least by. In
    every pass each part of the records counts its digits, then moves its records to where the
    counts of all parts before it say. What is equal in these bits is sorted by itself in the
    end."""
    w, low, y = keys.record, keys.low, at.results[0].name
    small = n.is_constant and n.value <= SHORT
    room = n.value if small else SHORT
    whole = f"""\
{w} *const a = ({w} *){at.scratch};
for (i64 j = 0; j < n; j++) {{
  {keys.declare("key", "j")}
  a[j] = {keys.join("key", "j")};
}}
mx_sort_{w}(a, a + n, n, ctx);
for (i64 j = 0; j < n; j++) {y}[j] = (i64)(u32)a[j];"""
    scratch = 2 * max(room, 1) * (16 if keys.wide else 8)
    if small:
        at.part(f"const i64 n = {at.size(n)};\n{whole}", ONE, work=n, scratch=scratch)
        return
    # A buffer of 64-bit numbers holds the records of either size.
    half = Poly.constant(2 if keys.wide else 1)
    names = [at.temporary(DType.uint64, n * half).name for _ in "ab"]
    records = [f"{w} *const r{e} = ({w} *){name};\n" for e, name in enumerate(names)]
    counts = at.temporary(DType.uint32, Poly.constant(PARTS * BUCKETS)).name
    ends = at.temporary(DType.uint64, Poly.constant(2 * PARTS)).name if keys.wide else ""
    step = 11 if keys.wide else -(-keys.bits // -(-keys.bits // 11))
    passes = 3 if keys.wide else -(-keys.bits // 11)
    mask = (1 << step) - 1
    work = (n + Poly.constant(PARTS)).floordiv(Poly.constant(PARTS)) * Poly.constant(4)
    part = f"const i64 first = n * i / {PARTS}, last = n * (i + 1) / {PARTS};"
    skip = f"const i64 n = {at.size(n)};\nif (n <= {SHORT}) continue;\n{part}"
    if keys.wide:
        skip += f"""
u64 least = {ends}[0], most = {ends}[{PARTS}];
for (i64 p = 1; p < {PARTS}; p++) {{
  least = {ends}[p] < least ? {ends}[p] : least;
  most = {ends}[{PARTS} + p] > most ? {ends}[{PARTS} + p] : most;
}}
const int shift = (most - least) >> 33 ? 31 - __builtin_clzll(most - least) : 0;"""

    def digit(record: str, number: int) -> str:
        if keys.wide:
            return (
                f"((u32)(((u64)({record} >> {low}) - least) >> (shift + {number * step})) & {mask})"
            )
        return f"((u32)({record} >> {low + number * step}) & {mask})"

    def add(text: str, name: str, before: str, scratch: int = 0) -> None:
        at.part(text, Poly.constant(PARTS), before=before, work=work, name=name, scratch=scratch)

    zero = f"""\
u32 *const count = {counts} + i * {BUCKETS};
__builtin_memset(count, 0, {4 * (mask + 1)});"""
    # The first part makes the records. It counts too, unless it has to learn first which bits.
    before = "u64 least = ~0ull, most = 0;" if keys.wide else zero
    each, end = f"count[{digit('v', 0)}]++;", ""
    if keys.wide:
        each = "least = key < least ? key : least, most = key > most ? key : most;"
        end = f"\n{ends}[i] = least, {ends}[{PARTS} + i] = most;"
    text = f"""\
const i64 n = {at.size(n)};
if (n <= {SHORT}) {{
  if (i) continue;
  {whole}
  continue;
}}
{part}
{before}
{at.along("j", "first", "last")} {{
  {keys.declare("key", "j")}
  const {w} v = {keys.join("key", "j")};
  r0[j] = v;
  {each}
}}{end}"""
    add(text, "records", records[0], scratch)
    for number in range(passes):
        here, there = number % 2, (number + 1) % 2
        if number or keys.wide:
            tally = f"count[{digit(f'r{here}[j]', number)}]++;"
            text = f"{skip}\n{zero}\n{at.along('j', 'first', 'last')} {tally}"
            add(text, f"count{number}", records[here])
        final = number + 1 == passes and not keys.wide
        store = f"{y}[to[d]++] = (i64)(u32)v;" if final else f"r{there}[to[d]++] = v;"
        text = f"""\
{skip}
u32 to[{mask + 1}], all[{mask + 1}];
for (i64 d = 0; d <= {mask}; d++) to[d] = 0, all[d] = 0;
for (i64 p = 0; p < {PARTS}; p++) {{
  const u32 *const count = {counts} + p * {BUCKETS};
  if (p == i)
    for (i64 d = 0; d <= {mask}; d++) to[d] = all[d];
  #pragma omp simd
  for (i64 d = 0; d <= {mask}; d++) all[d] += count[d];
}}
u32 sum = 0;
for (i64 d = 0; d <= {mask}; d++) {{ to[d] += sum; sum += all[d]; }}
{at.along("j", "first", "last")} {{
  const {w} v = r{here}[j];
  const u32 d = {digit("v", number)};
  {store}
}}"""
        add(text, f"move{number}", records[here] + ("" if final else records[there]))
    if not keys.wide:
        return

    def upper(index: str) -> str:
        return f"((u64)(r1[{index}] >> {low}) - least) >> shift"

    # A run of keys that are equal in the bits above is sorted by the part in which it begins.
    text = f"""\
{skip}
if (!shift) {{
  {at.along("j", "first", "last")} {y}[j] = (i64)(u32)r1[j];
  continue;
}}
i64 j = first;
if (j) while (j < last && {upper("j")} == {upper("j - 1")}) j++;
while (j < last) {{
  i64 stop = j + 1;
  if (j % (1 << 20) == 0 && mx_stop(ctx)) return MX_STOPPED;
  while (stop < n && {upper("stop")} == {upper("j")}) stop++;
  if (stop - j > 1) mx_sort_{w}(r1 + j, r0 + j, stop - j, ctx);
  for (; j < stop; j++) {y}[j] = (i64)(u32)r1[j];
}}"""
    add(text, "finish", "".join(records))


def _argsort_count(at: Site, keys: Keys, n: Poly) -> None:
    """A thread an element, which goes behind all that are smaller."""
    y = at.results[0].name
    text = f"""\
const i64 n = {at.size(n)};
{keys.declare("mine", "i")}
i64 place = 0;
for (i64 j = 0; j < n; j++) {{
  {keys.declare("key", "j")}
  place += key < mine || (key == mine && j < i);
}}
{y}[place] = i;"""
    at.part(text, n, work=n)


def _argsort_cuda(at: Site, keys: Keys, n: Poly) -> None:
    """A radix sort, 8 bits at a time: each tile of records counts its digits, a block for each
    digit adds these up, and the tiles move their records. Within a tile, the lanes of a warp that
    have one digit find each other, which keeps their order."""
    y, key = at.results[0].name, keys.key
    tiles = (n + Poly.constant(_TILE - 1)).floordiv(Poly.constant(_TILE))
    dtype = DType.uint64 if keys.wide else DType.uint32
    kept = [at.temporary(dtype, n).name for _ in "ab"]
    order = [at.temporary(DType.uint32, n).name for _ in "ab"]
    counts = at.temporary(DType.uint32, tiles * Poly.constant(256)).name
    totals = at.temporary(DType.uint32, Poly.constant(256)).name
    sizes = f"const i64 n = {at.size(n)}, tiles = {at.size(tiles)};"
    passes = keys.bits // 8
    for number in range(passes):
        shift, source, target = number * 8, number % 2, (number + 1) % 2
        load = keys.declare("key", "j") if number == 0 else f"const {key} key = {kept[source]}[j];"
        index = "(u32)j" if number == 0 else f"{order[source]}[j]"
        count = f"""\
u32 *const count = (u32 *){at.shared};
{sizes}
count[threadIdx.x] = 0;
__syncthreads();
for (int e = 0; e < {_ITEMS}; e++) {{
  const i64 j = i * {_TILE} + e * {_THREADS} + threadIdx.x;
  if (j < n) {{
    {load}
    atomicAdd(&count[(key >> {shift}) & 255], 1u);
  }}
}}
__syncthreads();
{counts}[threadIdx.x * tiles + i] = count[threadIdx.x];
__syncthreads();"""
        at.part(count, tiles, block=True, threads=_THREADS, shared=1024,
                work=Poly.constant(_TILE), name=f"count{number}")  # fmt: skip
        add = f"""\
u32 *const sums = (u32 *){at.shared};
const i64 tiles = {at.size(tiles)};
const i64 each = (tiles + blockDim.x - 1) / blockDim.x;
const i64 first = i * tiles + (threadIdx.x * each < tiles ? threadIdx.x * each : tiles);
const i64 last = first + each < (i + 1) * tiles ? first + each : (i + 1) * tiles;
u32 mine = 0;
for (i64 j = first; j < last; j++) mine += {counts}[j];
u32 total = mine;
for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {{
  sums[threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.x >= distance) total += sums[threadIdx.x - distance];
  __syncthreads();
}}
if (threadIdx.x == blockDim.x - 1) {totals}[i] = total;
total -= mine;
for (i64 j = first; j < last; j++) {{
  const u32 c = {counts}[j];
  {counts}[j] = total;
  total += c;
}}"""
        at.part(add, Poly.constant(256), block=True, threads=128, shared=512,
                work=tiles, name=f"add{number}")  # fmt: skip
        store = (
            f"{y}[to] = (i64)records[e];"
            if number + 1 == passes
            else f"{kept[target]}[to] = found[e], {order[target]}[to] = records[e];"
        )
        move = f"""\
u32 *const sums = (u32 *){at.shared};
u32 *const warps = sums + 256;
{sizes}
const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
const u32 here = {totals}[threadIdx.x];
u32 start = here;
for (unsigned distance = 1; distance < 256; distance *= 2) {{
  sums[threadIdx.x] = start;
  __syncthreads();
  if (threadIdx.x >= distance) start += sums[threadIdx.x - distance];
  __syncthreads();
}}
start += {counts}[threadIdx.x * tiles + i] - here;
for (int e = 0; e < 8; e++) warps[e * 256 + threadIdx.x] = 0;
__syncthreads();
{key} found[{_ITEMS}];
u32 records[{_ITEMS}], places[{_ITEMS}];
for (int e = 0; e < {_ITEMS}; e++) {{
  const i64 j = i * {_TILE} + (warp * {_ITEMS} + e) * 32 + lane;
  u32 digit = 256;
  if (j < n) {{
    {load}
    found[e] = key, records[e] = {index};
    digit = (u32)(key >> {shift}) & 255;
  }}
  const unsigned same = __match_any_sync(MX_FULL_WARP, digit);
  const u32 rank = __popc(same & ((1u << lane) - 1u));
  if (digit < 256) places[e] = warps[warp * 256 + digit] + rank;
  __syncwarp();
  if (digit < 256 && rank == 0) warps[warp * 256 + digit] += __popc(same);
  __syncwarp();
}}
__syncthreads();
for (int e = 0; e < 8; e++) {{
  const u32 c = warps[e * 256 + threadIdx.x];
  warps[e * 256 + threadIdx.x] = start;
  start += c;
}}
__syncthreads();
for (int e = 0; e < {_ITEMS}; e++) {{
  const i64 j = i * {_TILE} + (warp * {_ITEMS} + e) * 32 + lane;
  if (j < n) {{
    const u32 to = warps[warp * 256 + ((u32)(found[e] >> {shift}) & 255)] + places[e];
    {store}
  }}
}}
__syncthreads();"""
        at.part(move, tiles, block=True, threads=_THREADS, shared=1024 + 8192,
                work=Poly.constant(_TILE), name=f"move{number}")  # fmt: skip
