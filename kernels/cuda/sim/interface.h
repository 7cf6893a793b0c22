/* interface.h - what simulated kernels and the simulator's runtime know of each other.
 *
 * A kernel file is compiled with `cudasim.h`, which prints the CUDA language in terms of these functions; the runtime
 * (`runtime.cpp`, `check.cpp`) is compiled once and shared by all of them.
 */
#pragma once

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 d) : x(d.x), y(d.y), z(d.z) {}
};

/* What the running CUDA thread can ask about itself. */
struct cs_here {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
  unsigned lane;
  char *dynamic; /* dynamic shared memory of the block */
};

enum cs_vote_op { CS_BALLOT, CS_ANY, CS_ALL };
enum cs_block_op { CS_COUNT, CS_AND, CS_OR };
enum cs_fold_op { CS_ADD, CS_MIN_S, CS_MIN_U, CS_MAX_S, CS_MAX_U, CS_BIT_AND, CS_BIT_OR, CS_BIT_XOR };
enum cs_mma_kind { CS_BF16, CS_F16 };

extern "C" {
/* Initial-exec: one load instead of a call for threadIdx. Only one pointer of the loader's reserve is used. */
extern __thread cs_here *cs_now __attribute__((tls_model("initial-exec")));

void cs_syncthreads(void);
int cs_syncthreads_fold(int op, int predicate);
void cs_syncwarp(unsigned mask);
unsigned long long cs_shuffle(unsigned mask, unsigned long long bits, unsigned source_lane);
unsigned cs_vote(unsigned mask, int op, int predicate);
unsigned cs_match(unsigned mask, unsigned long long bits);
unsigned cs_fold(unsigned mask, int op, unsigned value);
unsigned cs_activemask(void);
void cs_fence(void);
void cs_yield(void);
void cs_mma_m16n8k16(int kind, float *c, const unsigned *a, const unsigned *b);
void cs_ldmatrix(unsigned *out, const void *row, int transposed);
void cs_copy_async(void *shared, const void *global, int bytes, int valid);
void cs_copy_commit(void);
void cs_copy_wait(int pending_groups);
int cs_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cs_watch(const char *name, double value, int line);
[[noreturn]] void cs_trap(const char *what);
}
