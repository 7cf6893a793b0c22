// cumsum on the CPU, along the axis of N elements.
//
// EXCLUSIVE stores a sum without the element at its place, REVERSE goes from the end. Integers wrap:
// they are added as the unsigned type Wide. LEFT is one less than what is divided by.

// A thread takes SIDE columns side by side: neighbours read neighbours.
// @op cumsum_columns(x: T[outer, N, M]) -> (y: T[outer, N, M])
// @types T: any
// @params EXCLUSIVE: bool; REVERSE: bool; SIDE: int; LEFT: int; QUARTER: int
// @items outer * ((M + SIDE - 1) // SIDE)
// @work N * QUARTER
// @c
const i64 blocks = (M + LEFT) / SIDE, from = i / blocks * N * M + i % blocks * SIDE;
const i64 left = M - i % blocks * SIDE, many = left < SIDE ? left : SIDE;
T sums[SIDE];
for (i64 c = 0; c < SIDE; c++) sums[c] = 0;
along(j, 0, N, 65536) {
  #pragma omp simd
  for (i64 c = 0; c < many; c++) { step(from + row_of(j) * M + c, sums[c]); }
}

// A thread takes rows. Those of floats it goes along BESIDE at a time: a sum waits for the one
// before, but not for those of other rows; a sum of integers is there in the next cycle.
// @op cumsum_rows(x: T[rows, N]) -> (y: T[rows, N])
// @types T: any
// @params EXCLUSIVE: bool; REVERSE: bool
// @items rows
// @work N
// @c
// @if is_float(T)
const i64 base = i * N;
if (i + 4 <= hi) {
  T a0 = 0, a1 = 0, a2 = 0, a3 = 0;
  for (i64 j = 0; j < N; j++) {
    { step(place_in((base + 0 * N)), a0); }
    { step(place_in((base + 1 * N)), a1); }
    { step(place_in((base + 2 * N)), a2); }
    { step(place_in((base + 3 * N)), a3); }
  }
  i += 3;
  continue;
}
const i64 first = 0, last = N;
// @else
const i64 base = i * N, first = 0, last = N;
// @endif
T a = 0;
_Pragma("GCC unroll 8") for (i64 j = first; j < last; j++) { step(place_in(base), a); }

// Few long rows are cut into PIECES pieces: the first part adds up each, the next goes along it from
// the sum of those before. Where there are enough rows for all threads, LEAST at least, or rows are
// shorter than LONG, a row is one piece, and its sum not taken.
// @op cumsum_pieces(x: T[rows, N]) -> (y: T[rows, N])
// @types T: any
// @params EXCLUSIVE: bool; REVERSE: bool; PIECES: int; LEFT: int; LEAST: int; LONG: int; KEPT: DType
// @temp sums: KEPT[rows * PIECES]
// @items rows * PIECES

// @part sums
// @work N // PIECES // 4
// @c
declare_piece(N < LONG || ctx->nthreads < LEAST || rows >= ctx->nthreads);
if (alone) continue;
Wide a = 0;
#pragma omp simd reduction(+ : a)
for (i64 j = first; j < last; j++) {
  const i64 at = place_in(base);
  a += (Wide)load(x, at);
}
store(sums, i, (T)a);

// @part along
// @work N // PIECES
// @c
declare_piece(N < LONG || ctx->nthreads < LEAST || rows >= ctx->nthreads);
T a = 0;
if (!alone)
  for (i64 j = 0; j < piece; j++) a = added(a, load(sums, row * PIECES + j));
along(j, first, last, 1048576, _Pragma("GCC unroll 8")) { step(place_in(base), a); }

// @macro Wide = T if is_float(T) else u64 if bits(T) == 64 else u32
// @macro added(A, B) = A + B if is_float(T) else (T)((Wide)A + (Wide)B)
// @macro row_of(J) = (N - 1 - J) if REVERSE else J
// @macro place_in(BASE) = BASE + N - 1 - j if REVERSE else BASE + j

// Takes the element PLACE into the sum TOTAL, and stores one.
// @macro step(PLACE, TOTAL)
const i64 at = PLACE;
const T v = load(x, at);
// @if EXCLUSIVE
store(y, at, TOTAL);
TOTAL = added(TOTAL, v);
// @else
TOTAL = added(TOTAL, v);
store(y, at, TOTAL);
// @endif

// Which elements are those of the item i: a piece of a row, or all of it for the first piece where
// it stands ALONE.
// @macro declare_piece(ALONE)
const i64 row = i / PIECES, piece = i % PIECES, base = row * N;
const int alone = ALONE;
if (alone && piece) continue;
const i64 each = (N + LEFT) / PIECES, first = alone ? 0 : piece * each;
const i64 last = alone || first + each > N ? N : first + each;
