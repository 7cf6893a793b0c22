/* library.cpp - the documented interface of cuBLASLt, computed on the CPU in double precision.
 *
 * For tests of what maxlab passes to it. Matrices are column-major; whatever is not set has the documented default;
 * what the real library would refuse is refused: sizes of attributes, leading dimensions, alignments that were
 * promised and are not kept, an algorithm that is not the one that was returned, a workspace that is too small.
 */
#include <cstdint>
#include <cstring>
#include <cmath>
#include <dlfcn.h>

enum { OK = 0, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { F32 = 0, F16 = 2, BF16 = 14 };

struct Operation { int compute, scale; int32_t transpose[2]; };
struct Layout { int type; uint64_t rows, columns; int64_t ld; int32_t batch; int64_t stride; };
struct Preference { uint64_t workspace; uint32_t alignment[4]; };
struct Algorithm { uint64_t magic, workspace, alignment, rest[5]; };
struct Result { Algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };
static_assert(sizeof(Result) == 96, "as documented");

static const uint64_t MAGIC = 0x6d61786c6162u;
static int live = 0, heuristics = 0;

#define API extern "C" __attribute__((visibility("default"))) int

extern "C" __attribute__((visibility("default"))) size_t cublasLtGetVersion() { return 130000; }
API fakeblas_live() { return live; }
API fakeblas_heuristics() { return heuristics; }

API cublasLtCreate(void **handle) { live++; *handle = new int(1); return OK; }
API cublasLtDestroy(void *handle) { live--; delete static_cast<int *>(handle); return OK; }
API cublasLtMatmulDescCreate(void **made, int compute, int scale) {
  if (compute != 68 || scale != F32) return NOT_SUPPORTED;
  live++;
  *made = new Operation{compute, scale, {0, 0}};
  return OK;
}
API cublasLtMatmulDescDestroy(void *given) { live--; delete static_cast<Operation *>(given); return OK; }
API cublasLtMatmulDescSetAttribute(void *given, int attribute, const void *value, size_t size) {
  if ((attribute != 3 && attribute != 4) || size != 4) return INVALID_VALUE;
  memcpy(&static_cast<Operation *>(given)->transpose[attribute - 3], value, 4);
  return OK;
}
API cublasLtMatrixLayoutCreate(void **made, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  if (type != F32 && type != F16 && type != BF16) return NOT_SUPPORTED;
  if (ld < (int64_t)rows || !rows || !columns) return INVALID_VALUE;
  live++;
  *made = new Layout{type, rows, columns, ld, 1, 0};
  return OK;
}
API cublasLtMatrixLayoutDestroy(void *given) { live--; delete static_cast<Layout *>(given); return OK; }
API cublasLtMatrixLayoutSetAttribute(void *given, int attribute, const void *value, size_t size) {
  Layout *layout = static_cast<Layout *>(given);
  if (attribute == 5 && size == 4) memcpy(&layout->batch, value, 4);
  else if (attribute == 6 && size == 8) memcpy(&layout->stride, value, 8);
  else return INVALID_VALUE;
  return OK;
}
API cublasLtMatmulPreferenceCreate(void **made) {
  live++;
  *made = new Preference{0, {256, 256, 256, 256}};
  return OK;
}
API cublasLtMatmulPreferenceDestroy(void *given) { live--; delete static_cast<Preference *>(given); return OK; }
API cublasLtMatmulPreferenceSetAttribute(void *given, int attribute, const void *value, size_t size) {
  Preference *preference = static_cast<Preference *>(given);
  if (attribute == 1 && size == 8) memcpy(&preference->workspace, value, 8);
  else if (attribute >= 5 && attribute <= 8 && size == 4) memcpy(&preference->alignment[attribute - 5], value, 4);
  else return INVALID_VALUE;
  return OK;
}

static bool fits(const Operation &op, const Layout &a, const Layout &b, const Layout &c, uint64_t *k) {
  const uint64_t m = op.transpose[0] ? a.columns : a.rows, ka = op.transpose[0] ? a.rows : a.columns;
  const uint64_t n = op.transpose[1] ? b.rows : b.columns, kb = op.transpose[1] ? b.columns : b.rows;
  *k = ka;
  return ka == kb && c.rows == m && c.columns == n && a.type == b.type && a.batch == b.batch && a.batch == c.batch &&
         (c.type == a.type || c.type == F32);
}

API cublasLtMatmulAlgoGetHeuristic(void *, void *operation, void *a, void *b, void *c, void *d, void *preference,
                                   int wanted, void *results, int *count) {
  const Operation &op = *static_cast<Operation *>(operation);
  const Preference &wish = *static_cast<Preference *>(preference);
  uint64_t k;
  heuristics++;
  *count = 0;
  if (c != d || wanted < 1) return INVALID_VALUE;
  if (!fits(op, *static_cast<Layout *>(a), *static_cast<Layout *>(b), *static_cast<Layout *>(c), &k)) return NOT_SUPPORTED;
  if (static_cast<Layout *>(c)->rows == 7777) return NOT_SUPPORTED; /* a size this library has nothing for */
  Result &result = *static_cast<Result *>(results);
  memset(&result, 0, sizeof result);
  uint64_t alignment = 256;
  for (uint32_t each : wish.alignment) alignment = each < alignment ? each : alignment;
  result.algorithm.magic = MAGIC;
  result.algorithm.alignment = alignment;
  result.algorithm.workspace = result.workspace = k >= 64 && wish.workspace >= 4096 ? 4096 : 0;
  *count = 1;
  return OK;
}

static double load(const void *from, int type, int64_t i) {
  if (type == F32) return static_cast<const float *>(from)[i];
  if (type == F16) return (double)static_cast<const _Float16 *>(from)[i];
  const uint32_t bits = (uint32_t)static_cast<const uint16_t *>(from)[i] << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
static void store(void *to, int type, int64_t i, double value) {
  const float single = (float)value;
  if (type == F32) static_cast<float *>(to)[i] = single;
  if (type == F16) static_cast<_Float16 *>(to)[i] = (_Float16)single;
  if (type == BF16) {
    uint32_t bits;
    memcpy(&bits, &single, 4);
    static_cast<uint16_t *>(to)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

struct Work {
  Operation op;
  Layout la, lb, lc;
  uint64_t k;
  const void *a, *b;
  void *d, *workspace;
  size_t workspace_bytes;
};

static void run(void *data) {
  const Work &w = *static_cast<Work *>(data);
  const bool ta = w.op.transpose[0], tb = w.op.transpose[1];
  if (w.workspace) memset(w.workspace, 0xEE, w.workspace_bytes);
  for (int64_t batch = 0; batch < w.la.batch; batch++)
    for (int64_t col = 0; col < (int64_t)w.lc.columns; col++)
      for (int64_t row = 0; row < (int64_t)w.lc.rows; row++) {
        double sum = 0;
        for (int64_t i = 0; i < (int64_t)w.k; i++) {
          const int64_t at_a = ta ? i + row * w.la.ld : row + i * w.la.ld;
          const int64_t at_b = tb ? col + i * w.lb.ld : i + col * w.lb.ld;
          sum += load(w.a, w.la.type, batch * w.la.stride + at_a) * load(w.b, w.lb.type, batch * w.lb.stride + at_b);
        }
        store(w.d, w.lc.type, batch * w.lc.stride + row + col * w.lc.ld, sum);
      }
}
static void drop(void *data) { delete static_cast<Work *>(data); }

API cublasLtMatmul(void *, void *operation, const void *alpha, const void *a, void *a_layout, const void *b,
                   void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                   const void *algorithm, void *workspace, size_t workspace_bytes, void *stream) {
  const Operation &op = *static_cast<Operation *>(operation);
  const Layout &la = *static_cast<Layout *>(a_layout), &lb = *static_cast<Layout *>(b_layout);
  const Layout &lc = *static_cast<Layout *>(c_layout);
  const Algorithm &chosen = *static_cast<const Algorithm *>(algorithm);
  const uint64_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)d;
  uint64_t k;
  if (!fits(op, la, lb, lc, &k) || c != d || c_layout != d_layout) return INVALID_VALUE;
  if (chosen.magic != MAGIC || all % chosen.alignment) return INVALID_VALUE;
  if (workspace_bytes < chosen.workspace || (chosen.workspace && !workspace)) return INVALID_VALUE;
  if (*static_cast<const float *>(alpha) != 1 || *static_cast<const float *>(beta) != 0) return NOT_SUPPORTED;
  int (*give)(void *, void (*)(void *), void *, void (*)(void *));
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  *(void **)&give = driver ? dlsym(driver, "fakecuda_give") : nullptr;
  if (!give) return NOT_SUPPORTED;
  Work *work = new Work{op, la, lb, lc, k, a, b, d, chosen.workspace ? workspace : nullptr, workspace_bytes};
  return give(stream, run, work, drop) ? EXECUTION_FAILED : OK;
}
