/* mx_abi.h - the C interface of the runtime library.
 *
 * The types a generated kernel sees (mx_ctx, mx_fn, mx_lib, ...) live in prelude.h, section `abi`, because generated
 * kernels include no header; this file takes them from there and adds what the library exports to Python.
 */
#ifndef MX_ABI_H
#define MX_ABI_H
#include "prelude.h"
#include "functions.h"
#include "tables.h"
#include "vectors.h"
#include "integers.h"

#define MX_API __attribute__((visibility("default")))
#define MX_VERSION 11

/* ---- executor.c ------------------------------------------------------------------------------------------------- */

typedef struct mx_step { /* one kernel launch */
  mx_fn fn;
  i64 b0;                /* its pointers start at argp[b0] */
  i64 d0;                /* its sizes start at dims[d0] */
  i64 extent;            /* items of the parallel axis */
  i64 grain;             /* items per chunk; grain >= extent: one thread runs it in one call */
  i64 kind;              /* MX_KERNEL or MX_ON_CALLER; in mx_execute_program up to MX_EXCHANGE */
  i64 piece;             /* items that take some milliseconds: its function is given no more at once; 0: any number */
} mx_step;

typedef struct mx_patch { /* argp[dst] = io[src] before the first step */
  i64 dst, src;
} mx_patch;

#define MX_ROW 3
typedef struct mx_times { /* where an execute writes its times, in ns of mx_now_ns */
  i64 *steps;             /* [nsteps][2]: begin, end of each step that ran; it begins where the one before it ends */
  i64 *threads;           /* NULL, or [team size][nsteps][MX_ROW]: begin and end of the work of each thread, its chunks;
                             all zero where it had none */
} mx_times;

typedef struct mx_team mx_team;

#define MX_KERNEL 0
#define MX_ON_CALLER 1  /* one chunk, run by the thread that called mx_execute: it may need the lock of an interpreter */

#define MX_BRANCH 2     /* goes on `extent` steps further when the byte at argp[b0] is zero; there is no function */
#define MX_JUMP 3       /* goes on `extent` steps further, or back */
/* Pointers become others.  Its sizes are {n, n places of argp, m, m times a place and which of the n it becomes}; all n are
 * read before one is written. */
#define MX_EXCHANGE 4

#define MX_OK 0
#define MX_ERR_STEP 1   /* a kernel returned nonzero: errinfo = {step, code, err[0..3]} */
#define MX_ERR_MEMORY 2 /* scratch could not be allocated */
#define MX_ERR_KIND 3   /* unknown step kind: errinfo[0] = step */
#define MX_PAUSED 4     /* mx_execute_program: time is up, `*at` says where to go on */
/* MX_STOPPED 5 (prelude.h): whoever mx_interrupts names has ended the run */
#define MX_LOST 16      /* added to any of them while a mapped file has lost a page (mapped.c): what it read may be zeros */
#define MX_CHANGED 32   /* mx_run: a file has changed; no step ran */

MX_API mx_team *mx_team_new(i64 nthreads); /* NULL without memory; fewer workers than asked if the system refuses more */
MX_API void mx_team_free(mx_team *team); /* nobody may use it any more */
/* Ends the executes that are going on, with MX_STOPPED, and then the workers; the next execute starts new ones. */
MX_API void mx_team_rest(mx_team *team);
MX_API i64 mx_team_size(mx_team *team);
MX_API int mx_execute(mx_team *team, const mx_step *steps, i64 nsteps, void **argp, const i64 *dims,
                      const mx_patch *patches, i64 npatch, void *const *io, i64 scratch_bytes,
                      const mx_times *times, i64 *errinfo);
/* The same for a table with MX_BRANCH, MX_JUMP and MX_EXCHANGE, from step `*at` on.  After a jump back it returns
 * MX_PAUSED when `slice_ns` have passed, so that the caller can look for signals; call it again to go on, without patches.
 * Its times are sums over all turns, which the caller zeroes before the first call: steps[2s] how often step s ran,
 * steps[2s+1] its nanoseconds, and of each thread {0, the nanoseconds it was busy, chunks}. */
MX_API int mx_execute_program(mx_team *team, const mx_step *steps, i64 nsteps, void **argp, const i64 *dims,
                              const mx_patch *patches, i64 npatch, void *const *io, i64 scratch_bytes,
                              const mx_times *times, i64 *errinfo, i64 *at, i64 slice_ns);
MX_API int mx_k_copy(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);   /* bytes lo..hi of b[1] to b[0] */
/* bytes lo..hi of b[n + i] to b[i] for all i below n = d[0] at once: some may be others' sources.  Uses n * MX_SETTLE bytes
 * of ctx->scratch. */
MX_API int mx_k_settle(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);
#define MX_SETTLE 4096
MX_API int mx_k_refuse(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx); /* always fails, with MX_REFUSED */
#define MX_REFUSED 3
/* While a run lasts, the thread that called mx_execute calls `ended` about every `period_ns`, also while it waits for others;
 * a nonzero result ends the run with MX_STOPPED.  `ended` may execute programs itself, on the same team too. */
MX_API void mx_interrupts(int (*ended)(void), i64 period_ns);
MX_API void mx_use_lib(const mx_lib *lib); /* executor.c: what kernels get as ctx->lib from now on */
MX_API const mx_lib *mx_get_lib(void);     /* products.c: the table to pass */
MX_API i64 mx_now_ns(void); /* CLOCK_MONOTONIC: Python's time.monotonic_ns */

/* ---- objects.c ---------------------------------------------------------------------------------------------------- */

typedef struct mx_object mx_object;            /* prelude.h, section `objects` */
MX_API void mx_collect(mx_object **made);      /* where executes of this thread put the objects they make; NULL: nowhere */
__attribute__((visibility("hidden"))) mx_object **mx_collected(void); /* that place */
MX_API void mx_retain(mx_object *o);           /* one more reference */
MX_API void mx_release(mx_object *o);          /* one less; the last one drops it */
MX_API void mx_release_all(mx_object **made);  /* a run's references, those to the newest objects first; none is left */

/* ---- guard.c ------------------------------------------------------------------------------------------------------ */

#define MX_READ 1
#define MX_WROTE 2
typedef struct mx_death { /* what ended the process in which a kernel ran; all zero when no signal did */
  i64 signal;
  i64 known;              /* whether the signal is about the memory at `address` */
  i64 address;
  i64 access;             /* MX_READ, MX_WROTE, or 0 where the processor does not tell */
  i64 stack;              /* whether the stack had no room there */
} mx_death;

/* Maps `count` rooms of a file, each {offset, bytes, whether it may be written} in whole pages, with `zone` bytes that nobody
 * may touch around each.  Writes the address of each to `at`, and behind them that of the whole.  The bytes of the whole, or
 * minus an errno. */
MX_API i64 mx_guard_place(int file, const i64 *rooms, i64 count, i64 zone, i64 *at);
MX_API void mx_guard_leave(i64 base, i64 total);
/* Runs a kernel on this thread, in the chunks that a team of `threads` would take.  Its code; `err` gets its details.  When a
 * signal ends the process, `said` says which. */
MX_API int mx_guarded(mx_fn fn, void *const *b, const i64 *d, i64 extent, i64 grain, i64 threads, void *scratch, i64 *err,
                      mx_death *said);

/* ---- mapped.c ----------------------------------------------------------------------------------------------------- */

typedef struct mx_mapped mx_mapped;
/* Guards the `bytes` at `begin`, a file mapped into memory: a page of it that cannot be read any more becomes zeros, instead
 * of ending the process.  size and mtime_ns are those of the file; mtime_ns -1: it changes as the mapping is written to. */
MX_API mx_mapped *mx_mapped_new(const void *begin, i64 bytes, i64 fd, i64 size, i64 mtime_ns, i64 writable);
MX_API void mx_mapped_free(mx_mapped *file);   /* before it is unmapped */
MX_API i64 mx_mapped_lost(mx_mapped *file);    /* 0, or 1 + the offset of the first byte that could not be read */
MX_API int mx_mapped_whole(mx_mapped *file);   /* asks the system; once changed, changed for good */
__attribute__((visibility("hidden"))) extern i64 mx_lost_files; /* how many have lost a page and are still mapped */

#define MX_WATCH_NS 100000000
typedef struct mx_watch { /* a look at the files of one model */
  i64 due_ns;             /* when the system is asked again */
  i64 bad;                /* whether one of them has changed or lost a page; for good */
  i64 n;
  mx_mapped **files;
} mx_watch;
MX_API int mx_look(mx_watch *watch); /* whether one is bad; asks the system at most every MX_WATCH_NS */

/* ---- prepared calls: executor.c ----------------------------------------------------------------------------------- */

typedef struct mx_call { /* an execute that is made again and again: one pointer is passed faster than a dozen arguments */
  mx_watch *watch;       /* looked at first, or NULL */
  mx_team *team;
  const mx_step *steps;
  i64 nsteps;
  void **argp;
  const i64 *dims;
  const mx_patch *patches;
  i64 npatch;
  void *const *io;
  i64 scratch_bytes;
  const mx_times *times;
  i64 *errinfo;
  i64 is_program;        /* whether it is one of mx_execute_program */
  i64 slice_ns;          /* of that */
  i64 at, paused;        /* where a program goes on that has given MX_PAUSED; zero at first */
} mx_call;
MX_API int mx_run(mx_call *call); /* what these give, or MX_CHANGED; after MX_PAUSED the next mx_run goes on */

/* ---- memory.c ----------------------------------------------------------------------------------------------------- */

/* at least 64-byte aligned, contents undefined; huge pages from 2 MiB on; NULL without memory */
/* Places blocks one after the other, each where it fits first, beside those that are used between the same steps as it:
 * returns how much memory they take together, or -1 when there is none for the work. */
MX_API i64 mx_first_fit(i64 count, const i64 *bytes, const i64 *first, const i64 *last, i64 *offsets);
MX_API void *mx_alloc(i64 bytes);
MX_API void mx_free(void *p);

/* ---- gemm.c: C = A B, float32, A row-major, B packed into panels of MX_NR columns ---------------------------------- */

#define MX_NR 32
MX_API i64 mx_pack_b_size(i64 K, i64 N); /* floats in the packed B */
/* packs panels [lo,hi) of ceil(N/32); element (k,n) of B is B[k*row_stride + n*col_stride] */
MX_API void mx_pack_b_f32(f32 *dst, const f32 *B, i64 K, i64 N, i64 row_stride, i64 col_stride, i64 lo, i64 hi);
/* the same as a step: b = {dst, B}, d = {K, N, row_stride, col_stride}, extent = ceil(N/32) */
MX_API int mx_k_pack_b_f32(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);
/* the tile of one item of the parallel axis; extent = ceil(M/mb) * ceil(N/nb) */
MX_API void mx_gemm_plan(i64 M, i64 N, i64 K, i64 nthreads, i64 *mb, i64 *nb);
MX_API i64 mx_gemm_scratch(i64 M, i64 N, i64 K, i64 mb, i64 nb); /* bytes at the start of ctx->scratch */
MX_API int mx_gemm_f32(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *Bp, i64 M, i64 N, i64 K, i64 mb, i64 nb,
                       i64 lo, i64 hi, mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx);
/* The same with more choice: what mx_gemm_plan does for tiles of up to rows_most x (panels_most * MX_NR); and a product with
 * plan = {mb, nb, how many k at a time, whether A is read where it is and not copied}, where 0 k is the usual number.  All
 * plans give the same bits.  Of some threads, each makes a tile in its scratch, and from there it goes to C past the caches,
 * unless its rows are whole, or C `stays` where only the thread that made a tile reads it.  The epilogue finds the tile at ctx->tile. */
MX_API void mx_gemm_tile(i64 M, i64 N, i64 K, i64 nthreads, i64 rows_most, i64 panels_most, i64 *mb, i64 *nb);
MX_API int mx_gemm_by(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *Bp, i64 M, i64 N, i64 K, const i64 *plan,
                      int stays, i64 lo, i64 hi, mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx);
MX_API int mx_k_gemm(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx); /* b = {C, A, Bp}, d = {M, N, K, plan...} */
/* one whole product with any strides and an unpacked B, by one thread: batched products have the batch as their
 * parallel axis and call this per item.  Uses mx_matmul_scratch bytes at the start of ctx->scratch. */
MX_API i64 mx_matmul_scratch(i64 M, i64 N, i64 K);
MX_API int mx_matmul_f32(f32 *C, i64 ldc, const f32 *A, i64 ars, i64 acs, const f32 *B, i64 brs, i64 bcs, i64 M, i64 N,
                         i64 K, mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx);
/* inplace.c: the same in a way: MX_PACKED, or MX_IN_PLACE, which is for a B whose columns are neighbours, and the other one
 * for any other */
#define MX_PACKED 0
#define MX_IN_PLACE 1
MX_API int mx_matmul_by(i64 way, f32 *C, i64 ldc, const f32 *A, i64 ars, i64 acs, const f32 *B, i64 brs, i64 bcs, i64 M,
                        i64 N, i64 K, mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx);
MX_API i64 mx_matmul_guess(i64 M, i64 N, i64 K); /* which way is faster, as long as nobody has measured it */
/* inside the library: C[M x N] = A B (first) or += A B, of a B that is read where it is; `last` has room for K * MX_NR floats */
__attribute__((visibility("hidden"))) void mx_rows_block(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B, i64 ldb,
                                                         i64 M, i64 N, i64 K, int first, f32 *last);
/* products lo..hi of dense matrices as a step: b = {C, A, B}, d = {M, N, K, way} */
MX_API int mx_k_matmul(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);

/* C[rows x cols] = A B by this thread, where row i of A is `runs` pieces of `run` elements that begin at at[i * runs],
 * at[i * runs + 1] ...: the windows of an image */
MX_API void mx_gemm_runs(f32 *C, i64 ldc, const void *const *at, i64 runs, i64 run, const f32 *Bp, i64 rows, i64 cols);
/* windows.c: the same where row i of A is, for each of the taps, the `run` floats from A + i * lda + at[tap] on.  A panel of
 * B has `depth` rows, of which those of a tap come `step` after those of the one before; first = 0 adds to C.  Meanwhile
 * the `bytes` at `soon`, which need not be readable, are fetched into the second cache.  Where the first row has only zeros
 * at a tap, at[tap] has the bit MX_FIRST_ZERO besides, and MX_LAST_ZERO where the last row has. */
#define MX_FIRST_ZERO (1ll << 61)
#define MX_LAST_ZERO (1ll << 60)
MX_API void mx_gemm_windows(f32 *C, i64 ldc, const f32 *A, i64 lda, const i64 *at, i64 taps, i64 run, const f32 *B,
                            i64 depth, i64 step, i64 rows, i64 cols, int first, const void *soon, i64 bytes);
/* Packs panels where row k of B begins at (k / period) * outer + (k % period) * row: the filters of images with the
 * channels first.  kind: MX_F32, or that of halves */
#define MX_F32 2
MX_API void mx_pack_taps(i64 kind, void *dst, const void *B, i64 K, i64 N, i64 row, i64 column, i64 period, i64 outer,
                         i64 lo, i64 hi);
/* the same as steps: b = {dst, B}, d = {K, N, row, column, period, outer} */
MX_API int mx_k_pack_taps_f32(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);
MX_API int mx_k_pack_taps_bf16(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);
MX_API int mx_k_pack_taps_f16(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);

/* inside the library: C[rows x cols] = A B (first) or += A B, all by this thread; B starts at a panel.  When ctx is not NULL
 * and the run is to end, it returns early: mx_stop then says so to the caller too. */
__attribute__((visibility("hidden"))) void mx_gemm_block(f32 *C, i64 ldc, const f32 *A, i64 lda, const f32 *B, i64 rows,
                                                         i64 cols, i64 K, int first, mx_ctx *ctx);

/* ---- halves.c: products of bfloat16 or float16, summed in float32; B packed into panels of MX_NR columns ------------ */

#define MX_BF16 0
#define MX_F16 1
MX_API i64 mx_half_pack_size(i64 K, i64 N); /* halves in the packed B, its marks among them */
MX_API void mx_half_pack(i64 kind, u16 *dst, const u16 *B, i64 K, i64 N, i64 row_stride, i64 col_stride, i64 lo, i64 hi);
/* Writes the marks of packed panels [lo,hi) of ceil(N/32) behind the last panel: mx_half_gemm asks them for the smallest
 * number, since the fast way with bfloat16 takes subnormals for 0.  The other products look at B themselves. */
MX_API void mx_half_mark(i64 kind, u16 *packed, i64 K, i64 N, i64 lo, i64 hi);
/* both as steps, as mx_k_pack_b_f32 */
MX_API int mx_k_pack_b_bf16(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);
MX_API int mx_k_pack_b_f16(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);
/* C[rows x cols] = A B by this thread: C has whole panels of columns, scratch mx_half_block_scratch bytes */
MX_API i64 mx_half_block_scratch(i64 kind, i64 rows);
MX_API void mx_half_block(i64 kind, f32 *C, i64 ldc, const u16 *A, i64 lda, const u16 *Bp, i64 rows, i64 cols, i64 K,
                          void *scratch);
MX_API void mx_half_runs(i64 kind, f32 *C, i64 ldc, const void *const *at, i64 runs, i64 run, const u16 *Bp, i64 rows,
                         i64 cols, void *scratch); /* as mx_gemm_runs */
__attribute__((visibility("hidden"))) int mx_half_pairs(i64 kind); /* whether B is packed in pairs of rows */
/* Items as mx_half_gemm_plan cuts them.  The epilogue finds the tile at ctx->scratch, as float32 in rows of whole panels. */
MX_API void mx_half_gemm_plan(i64 M, i64 N, i64 nthreads, i64 *mb, i64 *nb);
MX_API i64 mx_half_gemm_scratch(i64 kind, i64 M, i64 mb, i64 nb);
MX_API int mx_half_gemm(i64 kind, const u16 *A, i64 lda, const u16 *Bp, i64 M, i64 N, i64 K, i64 mb, i64 nb, i64 lo,
                        i64 hi, mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx);
/* one whole product with any strides and an unpacked B */
MX_API i64 mx_half_matmul_scratch(i64 kind, i64 M, i64 N, i64 K);
MX_API int mx_half_matmul(i64 kind, const u16 *A, i64 ars, i64 acs, const u16 *B, i64 brs, i64 bcs, i64 M, i64 N, i64 K,
                          mx_epilogue epilogue, void *const *b, const i64 *d, mx_ctx *ctx);

/* ---- quantized.c: products with blocks of few bits, laid out for 16 rows of weights at once -------------------------- */

#define MX_Q4_0 0
#define MX_Q4_K 1
#define MX_Q6_K 2
MX_API i64 mx_q_pack_size(i64 kind, i64 blocks, i64 n); /* bytes of n rows of blocks */
/* Lays out groups [lo,hi) of ceil(n/16): b = {dst, rows of blocks as they are in files}, d = {blocks of a row, n} */
MX_API int mx_k_pack_q4_0(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);
MX_API int mx_k_pack_q4_k(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);
MX_API int mx_k_pack_q6_k(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);
/* Columns of groups [lo,hi) of y[m x n]: m left rows as ops/quantized.h quantises them, their blocks even for Q4_0 */
MX_API int mx_q_product(i64 kind, f32 *y, i64 n, const u8 *w, i64 blocks, const i8 *q, const i32 *s, const f32 *d, i64 m,
                        i64 lo, i64 hi, mx_ctx *ctx);

/* ---- float8.c: products with weights that are floats of 8 bits ------------------------------------------------------- */

#define MX_E4M3FN 0
#define MX_E4M3FNUZ 1
MX_API i64 mx_float8_scratch(void); /* bytes of ctx->scratch that a product needs */
/* Columns first .. first + MX_NR of y[m x n], from left rows x[m x k] and the rows of w[n x k].  `d` are scales in rows of
 * `blocks`, one for `down` rows and `across` columns of w. */
MX_API int mx_float8(i64 kind, f32 *y, i64 n, const f32 *x, i64 m, const u8 *w, i64 k, const f32 *d, i64 first, i64 down,
                     i64 across, i64 blocks, mx_ctx *ctx);

/* ---- int8.c: products of bytes with weights of signed bytes, summed in integers --------------------------------------- */

#define MX_INT8_ROWS 128 /* left rows of an item: there are ceil(n/32) times ceil(m/MX_INT8_ROWS), down the rows first */
#define MX_FLOATS 0      /* left operands: floats, unsigned bytes, signed bytes */
#define MX_UNSIGNED 1
#define MX_SIGNED 2
#define MX_RELU 1        /* activations; 0 is none */
#define MX_GELU 2
#define MX_GELU_TANH 3
#define MX_GELU_QUICK 4
#define MX_SILU 5
#define MX_SIGMOID 6
#define MX_TANH 7
MX_API i64 mx_int8_step(i64 k);             /* bytes by which left rows of k bytes are apart */
MX_API i64 mx_int8_pack_size(i64 k, i64 n); /* bytes of the packed weights */
/* Packs panels [lo,hi) of ceil(n/32) of w[n x k] */
MX_API void mx_int8_pack(u8 *dst, const i8 *w, i64 k, i64 n, i64 lo, i64 hi);
MX_API int mx_k_pack_int8(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx); /* b = {dst, w}, d = {k, n} */
/* Rows [lo,hi) of x[m x k] as bytes q with a scale d and a zero z each.  given: {scale, zero}, or NULL for those of each row
 * of floats by itself. */
MX_API void mx_int8_left(u8 *q, f32 *d, i32 *z, const void *x, i64 kind, i64 k, const f32 *given, i64 lo, i64 hi);
/* Items [lo,hi) of y[m x n] = act((q - z) d times w^T scales + bias) */
MX_API int mx_int8_product(f32 *y, i64 n, const u8 *w, i64 k, const u8 *q, const f32 *d, const i32 *z, i64 m,
                           const f32 *scales, const f32 *bias, i64 activation, i64 lo, i64 hi, mx_ctx *ctx);

/* ---- winograd.c: windows of 3 x 3 in a quarter of the multiplications ------------------------------------------------ */

/* Tiles [lo,hi) of 4 x 4 pixels of the result, line by line, of the channels [c0,c1): whole panels of 32, but for the last.
 * `most` of them, a multiple of 32, are done at a time, in mx_winograd_scratch bytes. */
MX_API i64 mx_winograd_scratch(i64 tiles, i64 ic, i64 most);
MX_API int mx_winograd_f32(const mx_winograd *a, i64 lo, i64 hi, i64 c0, i64 c1, i64 most, void *scratch, mx_ctx *ctx);
/* The filter for it, panels [lo,hi) of ceil(oc/32): b = {dst, filter}, d = {ic, oc, row, column, tap}, the distances of its
 * channels, of those of the result and of the taps */
MX_API int mx_k_pack_winograd(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);

/* ---- attention.c -------------------------------------------------------------------------------------------------- */

/* How attention is cut is a plan of three numbers: query positions of an item, keys of a block, and what is read where it is
 * instead of being packed.  Plans with blocks of as many keys give the same bits.  chooses one, and returns the extent of the
 * parallel axis: batch * heads * ceil(tq / plan[0]) */
#define MX_KEYS_IN_PLACE 1
#define MX_VALUES_IN_PLACE 2
#define MX_PACKED_ONCE 4 /* what is packed is kept for the other queries of the head, all keys of it */
MX_API i64 mx_attention_plan(i64 batch, i64 heads, i64 tq, i64 tk, i64 dim, i64 dim_v, i64 nthreads, i64 *plan);
/* the query positions of an item, of which there may be `most` */
MX_API void mx_attention_cut(i64 batch, i64 heads, i64 tq, i64 nthreads, i64 most, i64 *qb);
MX_API i64 mx_attention_scratch(i64 tk, i64 dim, i64 dim_v, const i64 *plan);
MX_API int mx_attention_f32(const mx_attention *a, i64 lo, i64 hi, mx_score score, void *const *b, const i64 *d,
                            mx_ctx *ctx);
/* lanes.c: the same in three parts, for `lanes` queries, whole vectors of 16 of them.
 * Scores: S[count x lanes] = keys queries.  Keys are `step` floats apart, queries packed into panels as a right operand.
 * Meanwhile their values, `dim` floats of each, and the keys that come `soon` are asked for. */
MX_API void mx_lane_scores(f32 *S, i64 lds, const f32 *keys, i64 step, i64 count, const f32 *queries, i64 lanes, i64 dim,
                           const f32 *values, const f32 *soon);
/* Scores become weights, relative to the largest so far, of which `tops` has those of each lane.  `totals`, the sums of all
 * weights, are brought along; sums of values have to be multiplied by `fades`. */
MX_API void mx_lane_weights(f32 *S, i64 lds, i64 count, i64 lanes, f32 *tops, f32 *totals, f32 *fades);
/* O[rows x dim] += S^T values, for the first `rows` lanes; dim is a multiple of MX_NR */
MX_API void mx_lane_sums(f32 *O, i64 ldo, const f32 *S, i64 lds, const f32 *values, i64 step, i64 count, i64 rows, i64 dim);
/* dense attention as a step: b = {o, q, k, v}, d = {heads, tq, tk, dim, dim_v, plan...} */
MX_API int mx_k_attention(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);

#endif
