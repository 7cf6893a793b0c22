// gather_nd, scatter and scatter_nd. Which places updates have depends on the numbers of dims, so those
// statements are written in Python: opset/scattering_kernels.py.

// On the CPU the result lies in LINES lines of N slices of SLICE elements. Where there are few lines
// each is cut: into ranges of slices or, with COLUMNS, of the elements of every slice. Who owns a
// range copies it from the input, unless the result is its memory, IN_PLACE, and goes through the
// COUNT updates of the line in order, UPDATES, keeping those that are its own.
//
// The parallel axis only says who owns what: the owner of a range is who has the element at which its
// share of the line begins (a line has one element more than its size, so that one of an empty input
// has an owner too). Many updates of single elements are not shared while the line fits into the
// cache: going through them takes as long as writing them.
// @op scatter_lines(x: T[n], updates: T[m]) -> (y: T[n])
// @types T: any
// @params COLUMNS: bool; IN_PLACE: bool; CUTS: int; RARE: int; CACHE: int
// @sizes LINES; N; SLICE; COUNT
// @c
// @before
const i64 lines = LINES, n = N, slice = SLICE;
const i64 whole = n * slice + 1, alone = lo == 0 && hi == lines * whole;
// @if COLUMNS
const i64 columns = slice >= CUTS;
// @else
const i64 columns = 0;
// @endif
i64 cuts = ctx->nthreads < CUTS ? ctx->nthreads : CUTS;
if (alone || lines >= 4 * ctx->nthreads || whole < RARE) cuts = 1;
if (slice < CUTS && COUNT > n / 8 && whole * (i64)sizeof *y <= CACHE) cuts = 1;
for (i64 o = lo / whole; o * whole < hi; o++)
  for (i64 cut = 0; cut < cuts; cut++) {
    const i64 start = o * whole + (whole - 1) * cut / cuts;
    if (start < lo || start >= hi) continue;
    const i64 t0 = columns ? 0 : n * cut / cuts, t1 = columns ? n : n * (cut + 1) / cuts;
    const i64 c0 = columns ? slice * cut / cuts : 0;
    const i64 c1 = columns ? slice * (cut + 1) / cuts : slice;
    stored_T *const out = y + o * n * slice;
    stored_T unused;
    (void)unused;
    // @if not IN_PLACE
    const stored_T *const in = x + o * n * slice;
    if (c1 - c0 == slice)
      __builtin_memcpy(out + t0 * slice, in + t0 * slice, (u64)((t1 - t0) * slice) * sizeof *out);
    else
      for (i64 t = t0; t < t1; t++)
        __builtin_memcpy(out + t * slice + c0, in + t * slice + c0, (u64)(c1 - c0) * sizeof *out);
    // @endif
    UPDATES;
  }
lo = hi;

// On a GPU every update writes its number to its target, TO says which one it is, where the highest
// stays; then each element of the result comes from the update that its target names, or from the
// input. Targets are slices of SLICE elements.
// @op scatter_last(x: T[n], updates: T[m]) -> (y: T[n])
// @types T: any
// @params IN_PLACE: bool; SINGLE: bool
// @sizes TARGETS; COUNT; SLICE
// @temp last: uint64[TARGETS]

// @part clear
// @items TARGETS
// @cuda
last[i] = 0;

// @part number
// @items COUNT
// @work 4
// @cuda
TO;
atomicMax(&last[to], (u64)i + 1);

// @part write
// @items TARGETS * SLICE
// @cuda
// @if SINGLE
const u64 number = last[i];
// @else
const u64 number = last[i / SLICE];
// @endif
// @if SINGLE and IN_PLACE
if (number) y[i] = updates[number - 1];
// @elif SINGLE
y[i] = number ? updates[number - 1] : x[i];
// @elif IN_PLACE
if (number) y[i] = updates[(number - 1) * SLICE + i % SLICE];
// @else
y[i] = number ? updates[(number - 1) * SLICE + i % SLICE] : x[i];
// @endif
