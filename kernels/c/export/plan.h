/* plan.h - what the tables of an exported model (plan.c) consist of, for model.c, which runs them. */
#ifndef PLAN_H
#define PLAN_H
#include "model.h"
#include "mx_abi.h"

/* ---- sizes ---------------------------------------------------------------------------------------------------------- */

/* A size of the plan, of the sizes s that the inputs give.  What cannot be counted is noted in plan_wrong. */
typedef i64 (*plan_size)(const i64 *s);
#define PLAN_OVER 1    /* more than 63 bits */
#define PLAN_DIVIDED 2 /* a division by zero */
extern __thread int plan_wrong;
i64 plan_add(i64 a, i64 b);
i64 plan_mul(i64 a, i64 b);
i64 plan_div(i64 a, i64 b); /* rounds down, as sizes do */

/* Writes the message of this thread; returns MODEL_BAD_INPUT. */
int plan_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- memory --------------------------------------------------------------------------------------------------------- */

enum { PLAN_INPUT, PLAN_OUTPUT, PLAN_DATA, PLAN_PACKED, PLAN_ARENA };
typedef struct plan_slot {
  i64 kind;
  i64 index;        /* of the input or output */
  plan_size nbytes; /* of an arena's */
  i64 first, last;  /* the steps that use an arena's */
  i64 offset;       /* of data: in the file of weights; of what is packed: in the source */
  i64 bytes;        /* of data, and of what is packed */
  mx_fn pack;       /* packs it from the slot `source` */
  i64 source, items, nsizes;
  const i64 *sizes;
} plan_slot;

/* ---- steps ---------------------------------------------------------------------------------------------------------- */

enum { PLAN_ONCE, PLAN_ITEMS, PLAN_BLOCKS, PLAN_GEMM, PLAN_BATCHED, PLAN_ATTENTION };
typedef struct plan_launch { /* how many items a step has, and what they cost */
  i64 formula;
  plan_size size[6]; /* items: extent, cost, scratch, total or NULL; blocks: rows, columns, depth; products: [items], m, n, k */
  i64 number;        /* items: the unit; blocks: the weight; products: MX_BF16, MX_F16, or -1 for float32 */
  i64 serial;
  i64 nextra;
  const i64 *extra;
} plan_launch;

enum { PLAN_INDEX, PLAN_SLICE, PLAN_BOUNDS, PLAN_BACKWARDS };
typedef struct plan_fault { /* an op whose indices a kernel tests */
  const char *label, *where;
  i64 kind;
} plan_fault;

typedef struct plan_note { /* an assertion in a kernel of a user */
  i64 number;
  const char *text;
} plan_note;

typedef struct plan_step {
  const char *name, *where;
  mx_fn fn, longer;      /* `longer` where `costs`, of one item, is more than PLAN_LONG */
  plan_size costs;
  i64 kind, jump;        /* as mx_step has them */
  i64 npointers, nsizes;
  const i64 *pointers;   /* slots */
  const plan_size *sizes;
  plan_launch launch;
  int (*guard)(const i64 *s); /* of a step that refuses to run the next `refused` steps: 0 where they may */
  i64 refused;
  i64 nmoves;
  const i64 *moves;      /* of MX_EXCHANGE: its sizes as the executor takes them, as many as nmoves */
  i64 nfaults;
  const plan_fault *faults;
} plan_step;
#define PLAN_LONG (1 << 28)

/* ---- the plan: plan.c ----------------------------------------------------------------------------------------------- */

typedef struct plan_output {
  i64 slot, alias; /* alias: the number of the input that it is, or -1; slot: of other outputs */
  i64 same;        /* the number of the output whose memory it is, or -1 */
  const plan_size *shape;
} plan_output;

typedef struct plan_table {
  i64 nslots, nsteps, nsizes, npairs, nnotes, is_program, weights;
  const char *id; /* of the file of weights: 16 bytes at its offset 16 */
  const plan_slot *slots;
  const plan_step *steps;
  const plan_output *outputs;
  const i64 (*pairs)[2];  /* inputs that cannot be one memory */
  const plan_note *notes;
  int (*bind)(const model_value *inputs, i64 *s); /* the sizes that the inputs give */
  const mx_lib *(*products)(void);                /* NULL for a model that needs none; so are these */
  void (*half_gemm_plan)(i64 M, i64 N, i64 nthreads, i64 *mb, i64 *nb);
  i64 (*half_gemm_scratch)(i64 kind, i64 M, i64 mb, i64 nb);
  i64 (*half_matmul_scratch)(i64 kind, i64 M, i64 N, i64 K);
} plan_table;
extern const plan_table plan;

#define PLAN_MAGIC "maxlabW1"
#endif
