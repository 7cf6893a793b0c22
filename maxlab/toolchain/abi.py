"""The one C interface Python uses: the executor, the planners, memory and the loader.

``cffi`` would need its C parser (50 ms) to read these declarations at run time, so they
are translated once, into ``cffi_abi.py``; ``python -m maxlab.toolchain.abi`` does that, and a
test holds that the file is current. Kernels are not declared: all of them have the type
`mx_fn` and are found by name. The structures are those of ``kernels/c/mx_abi.h``.
"""

from __future__ import annotations

from pathlib import Path

ABI_VERSION = 11  # MX_VERSION of mx_abi.h

DECLARATIONS = """
typedef long long i64;
typedef int (*mx_fn)(void *const *b, const i64 *d, i64 lo, i64 hi, void *ctx);
typedef struct mx_step { mx_fn fn; i64 b0; i64 d0; i64 extent; i64 grain; i64 kind;
                         i64 piece; } mx_step;
typedef struct mx_patch { i64 dst; i64 src; } mx_patch;
typedef struct mx_times { i64 *steps; i64 *threads; } mx_times;
typedef struct mx_team mx_team;
typedef struct mx_lib mx_lib;
typedef struct mx_object mx_object;

mx_team *mx_team_new(i64 nthreads);
void mx_team_free(mx_team *team);
void mx_team_rest(mx_team *team);
i64 mx_team_size(mx_team *team);
int mx_execute(mx_team *team, const mx_step *steps, i64 nsteps, void **argp, const i64 *dims,
               const mx_patch *patches, i64 npatch, void *const *io, i64 scratch_bytes,
               const mx_times *times, i64 *errinfo);
int mx_execute_program(mx_team *team, const mx_step *steps, i64 nsteps, void **argp,
                       const i64 *dims, const mx_patch *patches, i64 npatch, void *const *io,
                       i64 scratch_bytes, const mx_times *times, i64 *errinfo, i64 *at,
                       i64 slice_ns);
typedef struct mx_mapped mx_mapped;
typedef struct mx_watch { i64 due_ns; i64 bad; i64 n; mx_mapped **files; } mx_watch;
mx_mapped *mx_mapped_new(const void *begin, i64 bytes, i64 fd, i64 size, i64 mtime_ns,
                         i64 writable);
void mx_mapped_free(mx_mapped *file);
i64 mx_mapped_lost(mx_mapped *file);
int mx_mapped_whole(mx_mapped *file);
int mx_look(mx_watch *watch);
typedef struct mx_call { mx_watch *watch; mx_team *team; const mx_step *steps; i64 nsteps;
                         void **argp; const i64 *dims; const mx_patch *patches; i64 npatch;
                         void *const *io; i64 scratch_bytes; const mx_times *times; i64 *errinfo;
                         i64 is_program; i64 slice_ns; i64 at; i64 paused; } mx_call;
int mx_run(mx_call *call);
void mx_interrupts(int (*ended)(void), i64 period_ns);
void mx_use_lib(const mx_lib *lib);
const mx_lib *mx_get_lib(void);
void mx_collect(mx_object **made);
void mx_retain(mx_object *o);
void mx_release(mx_object *o);
void mx_release_all(mx_object **made);
typedef struct mx_death { i64 signal; i64 known; i64 address; i64 access; i64 stack; } mx_death;
i64 mx_guard_place(int file, const i64 *rooms, i64 count, i64 zone, i64 *at);
void mx_guard_leave(i64 base, i64 total);
int mx_guarded(mx_fn fn, void *const *b, const i64 *d, i64 extent, i64 grain, i64 threads,
               void *scratch, i64 *err, mx_death *said);
i64 mx_now_ns(void);
i64 mx_first_fit(i64 count, const i64 *bytes, const i64 *first, const i64 *last, i64 *offsets);
void *mx_alloc(i64 bytes);
void mx_free(void *memory);

i64 mx_pack_b_size(i64 K, i64 N);
void mx_pack_b_f32(float *dst, const float *B, i64 K, i64 N, i64 row_stride, i64 col_stride,
                   i64 lo, i64 hi);
void mx_gemm_plan(i64 M, i64 N, i64 K, i64 nthreads, i64 *mb, i64 *nb);
void mx_gemm_tile(i64 M, i64 N, i64 K, i64 nthreads, i64 rows_most, i64 panels_most,
                  i64 *mb, i64 *nb);
i64 mx_gemm_scratch(i64 M, i64 N, i64 K, i64 mb, i64 nb);
i64 mx_matmul_scratch(i64 M, i64 N, i64 K);
i64 mx_matmul_guess(i64 M, i64 N, i64 K);
i64 mx_half_pack_size(i64 K, i64 N);
i64 mx_half_block_scratch(i64 kind, i64 rows);
void mx_half_gemm_plan(i64 M, i64 N, i64 nthreads, i64 *mb, i64 *nb);
i64 mx_half_gemm_scratch(i64 kind, i64 M, i64 mb, i64 nb);
i64 mx_half_matmul_scratch(i64 kind, i64 M, i64 N, i64 K);
i64 mx_q_pack_size(i64 kind, i64 blocks, i64 n);
i64 mx_int8_step(i64 k);
i64 mx_int8_pack_size(i64 k, i64 n);
i64 mx_attention_plan(i64 batch, i64 heads, i64 tq, i64 tk, i64 dim, i64 dim_v, i64 nthreads,
                      i64 *plan);
void mx_attention_cut(i64 batch, i64 heads, i64 tq, i64 nthreads, i64 most, i64 *qb);
i64 mx_attention_scratch(i64 tk, i64 dim, i64 dim_v, const i64 *plan);

void *dlopen(const char *path, int flags);
void *dlsym(void *handle, const char *symbol);
char *dlerror(void);

void *aligned_alloc(size_t alignment, size_t size);
void free(void *memory);
int mlock(const void *memory, size_t size);
int munlock(const void *memory, size_t size);
int madvise(void *memory, size_t size, int advice);

typedef struct { int32_t device_type; int32_t device_id; } DLDevice;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct {
  void *data; DLDevice device; int32_t ndim; DLDataType dtype;
  int64_t *shape; int64_t *strides; uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor dl_tensor; void *manager_ctx; void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;
typedef struct { uint32_t major; uint32_t minor; } DLPackVersion;
typedef struct DLManagedTensorVersioned {
  DLPackVersion version; void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags; DLTensor dl_tensor;
} DLManagedTensorVersioned;
"""


def generate(directory: Path) -> Path:
    """The path of the ``cffi_abi.py`` that was written into ``directory``."""
    from cffi import FFI

    builder = FFI()
    builder.cdef(DECLARATIONS)
    builder.set_source("cffi_abi", None)
    target = directory / "cffi_abi.py"
    builder.emit_python_code(str(target))
    return target


if __name__ == "__main__":
    generate(Path(__file__).parent)
