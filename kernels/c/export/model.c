/* model.c - binds the tables of an exported model to the sizes of its inputs, and runs it.
 *
 * What maxlab/engine does in Python for a model in a process of its own is done here in C: sizes, the places of intermediate
 * values, how steps are cut into chunks, and what is said of a step that fails.  plan.c has the tables, executor.c runs them.
 */
#define _GNU_SOURCE
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALIGNED 64
#define GRAIN_COST 16384        /* as maxlab/engine/launching.py has them */
#define PIECE_COST (1 << 22)
#define SMALL_PRODUCT 400000
#define BLOCK 256
#define PACKED_AT_ONCE (1 << 15)
#define SLICE_NS 1000000000
#define FEW_COLUMNS 128 /* of a product whose left operand is read where it is: what was copied is hardly read again */
#define EXTRAS 8

typedef struct buffer {
  void *memory;
  i64 capacity;
} buffer;

struct model {
  mx_team *team;
  i64 threads;
  char *file;       /* the weights, mapped */
  i64 file_bytes;
  mx_mapped *guard; /* of that: a page that cannot be read ends a run, and not the process */
  void *packed;
  buffer arena, *outputs;
  void **address;   /* of each slot; those of arenas are set when sizes are bound */
  void **argp;
  mx_step *steps;
  i64 *dims, *sizes;
  i64 scratch;
  i64 *shapes;      /* those that are bound, all inputs behind each other */
  int bound;
  char message[512];
};

/* ---- sizes ---------------------------------------------------------------------------------------------------------- */

__thread int plan_wrong;
static __thread char said[512];

i64 plan_add(i64 a, i64 b) {
  i64 made;
  if (__builtin_add_overflow(a, b, &made)) plan_wrong |= PLAN_OVER, made = 0;
  return made;
}
i64 plan_mul(i64 a, i64 b) {
  i64 made;
  if (__builtin_mul_overflow(a, b, &made)) plan_wrong |= PLAN_OVER, made = 0;
  return made;
}
i64 plan_div(i64 a, i64 b) {
  if (b == 0) {
    plan_wrong |= PLAN_DIVIDED;
    return 0;
  }
  if (b == -1) return plan_mul(a, -1);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int plan_say(const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  vsnprintf(said, sizeof said, format, rest);
  va_end(rest);
  return MODEL_BAD_INPUT;
}

static int fail(model *m, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int fail(model *m, int code, const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  vsnprintf(m->message, sizeof m->message, format, rest);
  va_end(rest);
  return code;
}

static i64 most(i64 a, i64 b) { return a > b ? a : b; }
static i64 up(i64 a, i64 b) { return a / b + (a % b > 0); } /* a / b, rounded up; a >= 0 */
static i64 aligned(i64 n) { return plan_mul(up(n, ALIGNED), ALIGNED); }
static i64 of(plan_size size, const i64 *s) { return size ? size(s) : 0; }

/* ---- how steps are cut into chunks ---------------------------------------------------------------------------------- */

typedef struct launch {
  i64 extent, grain, piece, scratch, nextra, extra[EXTRAS];
} launch;

static i64 grain_of(i64 extent, i64 cost, i64 threads) {
  if (plan_mul(extent, cost) < 2 * GRAIN_COST || threads == 1) return most(extent, 1);
  const i64 worth = most(up(GRAIN_COST, most(cost, 1)), 1), least = most(up(extent, threads * 4), worth);
  const i64 share = up(extent, threads), parts = share / least;
  for (i64 n = parts; n > parts / 2; n--)
    if (share % n == 0) return share / n;
  for (i64 n = parts + 1; n <= 4 * share / least && n <= share / worth; n++)
    if (share % n == 0) return share / n;
  return least;
}
static i64 piece_of(i64 extent, i64 cost) {
  if (plan_mul(extent, cost) <= PIECE_COST) return 0;
  i64 count = PIECE_COST / most(cost, 1);
  return most(count < 64 ? count : count / 64 * 64, 1);
}

static launch launch_of(const plan_launch *p, const i64 *s, i64 threads, const mx_lib *lib) {
  launch l = {.extent = 1, .grain = 1};
  i64 z[6];
  for (int i = 0; i < 6; i++) z[i] = of(p->size[i], s);
  if (plan_wrong) return l;
  for (int i = 0; i < 6; i++)
    if (z[i] < 0) z[i] = 0;
  const i64 half = p->number;
  switch (p->formula) {
  case PLAN_ITEMS: {
    const i64 extent = z[0], cost = z[1], unit = p->number, units = up(extent, unit);
    l.extent = extent, l.scratch = z[2], l.nextra = p->nextra;
    for (i64 i = 0; i < p->nextra; i++) l.extra[i] = p->extra[i];
    if (p->serial || (p->size[3] && z[3] < GRAIN_COST)) {
      l.grain = most(extent, 1);
      break;
    }
    l.grain = plan_mul(grain_of(units, cost, threads), unit), l.piece = plan_mul(piece_of(units, cost), unit);
    break;
  }
  case PLAN_BLOCKS: {
    l.extent = plan_mul(z[0], up(z[1], BLOCK));
    const i64 cost = plan_mul(plan_mul(p->number, z[2]), z[1] < BLOCK ? z[1] : BLOCK);
    l.grain = grain_of(l.extent, cost, threads), l.piece = piece_of(l.extent, cost);
    break;
  }
  case PLAN_GEMM: {
    const i64 m = z[0], n = z[1], k = z[2];
    i64 mb, nb;
    if (half < 0) lib->gemm_plan(m, n, k, threads, &mb, &nb);
    else plan.half_gemm_plan(m, n, threads, &mb, &nb);
    mb = most(mb, 1), nb = most(nb, 1);
    l.extent = plan_mul(up(m, mb), up(n, nb));
    l.scratch = half < 0 ? lib->gemm_scratch(m, n, k, mb, nb) : plan.half_gemm_scratch(half, m, mb, nb);
    l.grain = plan_mul(2, plan_mul(m, plan_mul(n, k))) < SMALL_PRODUCT ? most(l.extent, 1) : 1;
    l.nextra = 4, l.extra[0] = mb, l.extra[1] = nb, l.extra[2] = 0, l.extra[3] = n <= FEW_COLUMNS;
    break;
  }
  case PLAN_BATCHED: {
    const i64 items = z[0], m = z[1], n = z[2], k = z[3];
    const i64 cost = plan_mul(2, plan_mul(m, plan_mul(n, most(k, 1)))) / 16;
    l.extent = items;
    l.scratch = half < 0 ? lib->matmul_scratch(m, n, k) : plan.half_matmul_scratch(half, m, n, k);
    l.grain = grain_of(items, cost, threads), l.piece = piece_of(items, cost);
    if (half < 0) l.nextra = 1, l.extra[0] = lib->matmul_guess(m, n, k);
    break;
  }
  case PLAN_ATTENTION: {
    l.extent = lib->attention_plan(z[0], z[1], z[2], z[3], z[4], z[5], threads, l.extra);
    l.scratch = lib->attention_scratch(z[3], z[4], z[5], l.extra);
    l.nextra = 3;
    break;
  }
  default: break;
  }
  return l;
}

/* ---- binding -------------------------------------------------------------------------------------------------------- */

static int grow(buffer *b, i64 bytes) {
  if (b->memory && b->capacity >= bytes) return 0;
  mx_free(b->memory);
  b->memory = mx_alloc(bytes);
  b->capacity = b->memory ? bytes : 0;
  return !b->memory;
}

/* Places the intermediate values: the largest first, each at the first place where nothing overlaps it in time and space. */
static int place(model *m, const i64 *s) {
  typedef struct placed {
    i64 slot, bytes, offset;
  } placed;
  placed *rows = malloc((size_t)(plan.nslots + 1) * sizeof *rows);
  if (!rows) return MODEL_NO_MEMORY;
  i64 n = 0, total = 0;
  const int before = plan_wrong;
  for (i64 i = 0; i < plan.nslots; i++) {
    if (plan.slots[i].kind != PLAN_ARENA || plan.slots[i].first < 0) continue;
    plan_wrong = 0;
    i64 bytes = of(plan.slots[i].nbytes, s);
    if (plan_wrong == PLAN_DIVIDED || bytes < 0) bytes = 0; /* of a branch that refuses to run */
    if (plan_wrong & PLAN_OVER) {
      free(rows);
      return plan_say("an intermediate value is larger than 63 bits can count [ML223]");
    }
    i64 at = n++;
    for (; at > 0 && rows[at - 1].bytes < bytes; at--) rows[at] = rows[at - 1];
    rows[at] = (placed){i, bytes, 0};
  }
  plan_wrong = before;
  for (i64 i = 0; i < n; i++) {
    const plan_slot *own = &plan.slots[rows[i].slot];
    const i64 size = aligned(most(rows[i].bytes, 1));
    for (int moved = 1; moved;) { /* over all that it would overlap, until nothing is left */
      moved = 0;
      for (i64 j = 0; j < i; j++) {
        const plan_slot *other = &plan.slots[rows[j].slot];
        if (other->first > own->last || own->first > other->last) continue;
        const i64 end = plan_add(rows[j].offset, aligned(most(rows[j].bytes, 1)));
        if (rows[i].offset < end && rows[j].offset < plan_add(rows[i].offset, size)) rows[i].offset = end, moved = 1;
      }
    }
    total = most(total, plan_add(rows[i].offset, size));
  }
  int code = plan_wrong & PLAN_OVER ? plan_say("the intermediate values are larger than 63 bits can count [ML223]") : 0;
  if (!code && grow(&m->arena, most(total, 1))) code = MODEL_NO_MEMORY;
  for (i64 i = 0; i < n && !code; i++) m->address[rows[i].slot] = (char *)m->arena.memory + rows[i].offset;
  free(rows);
  return code;
}

/* Writes the table that the executor walks. */
static int bind_steps(model *m, const i64 *s) {
  i64 pointers = 0, dims = 0, refused = 0; /* `refused`: the step from which on steps run again */
  const mx_lib *lib = plan.products ? plan.products() : NULL;
  m->scratch = ALIGNED;
  for (i64 n = 0; n < plan.nsteps; n++) {
    const plan_step *p = &plan.steps[n];
    mx_step *to = &m->steps[n];
    *to = (mx_step){.fn = p->fn, .b0 = pointers, .d0 = dims, .kind = p->kind, .grain = 1};
    pointers += p->npointers;
    if (p->kind >= MX_BRANCH) {
      to->fn = NULL, to->extent = p->jump;
      for (i64 i = 0; i < p->nmoves; i++) m->dims[dims++] = p->moves[i];
      if (p->nmoves) m->scratch = most(m->scratch, p->moves[0] * 8);
      continue;
    }
    if (n < refused) continue; /* it cannot run: extent 0 */
    if (p->guard) {
      const int wrong = plan_wrong;
      const int holds = !p->guard(s);
      plan_wrong = wrong;
      if (holds) continue;
      refused = n + p->refused;
    }
    const launch l = launch_of(&p->launch, s, m->threads, lib);
    to->extent = l.extent, to->grain = l.grain, to->piece = l.piece;
    if (l.extent > 0) {
      if (p->longer && of(p->costs, s) > PLAN_LONG) to->fn = p->longer;
      for (i64 i = 0; i < p->nsizes; i++) m->dims[dims++] = p->sizes[i](s);
      for (i64 i = 0; i < l.nextra; i++) m->dims[dims++] = l.extra[i];
    }
    m->scratch = most(m->scratch, l.scratch);
    if (plan_wrong & PLAN_OVER)
      return plan_say("a size of %s is larger than 63 bits can count [ML223]", p->name);
    if (plan_wrong) return plan_say("a size of %s is a division by zero [ML624]", p->name);
  }
  return 0;
}

static int look_at(model *m, const model_value *inputs) {
  for (i64 i = 0; i < model_input_count; i++) {
    const model_spec *spec = &model_input_specs[i];
    const model_value *x = &inputs[i];
    if (x->rank != spec->rank)
      return fail(m, MODEL_BAD_INPUT, "input %lld (%s) has %lld axes, expected %s [ML601]", i, spec->name, (i64)x->rank,
                  spec->type);
    i64 count = spec->itemsize, over = 0, empty = 0;
    for (i64 a = 0; a < x->rank; a++) {
      if (x->shape[a] < 0)
        return fail(m, MODEL_BAD_INPUT, "input %lld (%s) has the negative size %lld at axis %lld [ML602]", i, spec->name,
                    (i64)x->shape[a], a);
      empty |= x->shape[a] == 0;
      over |= __builtin_mul_overflow(count, x->shape[a] ? x->shape[a] : 1, &count);
    }
    if (over)
      return fail(m, MODEL_BAD_INPUT, "input %lld (%s) is larger than 63 bits can count [ML223]", i, spec->name);
    if (!x->data && !empty) return fail(m, MODEL_BAD_INPUT, "input %lld (%s) has no data [ML601]", i, spec->name);
    if ((u64)x->data % (u64)spec->itemsize)
      return fail(m, MODEL_BAD_INPUT, "input %lld (%s) is not aligned to its elements [ML601]", i, spec->name);
  }
  for (i64 i = 0; i < plan.npairs; i++) {
    const i64 *pair = plan.pairs[i];
    if (inputs[pair[0]].data && inputs[pair[0]].data == inputs[pair[1]].data)
      return fail(m, MODEL_BAD_INPUT, "inputs %lld and %lld are one memory, and one operation changes the first and takes the "
                  "second [ML601]", pair[0], pair[1]);
  }
  return MODEL_OK;
}

static int bind(model *m, const model_value *inputs) {
  i64 at = 0;
  int same = m->bound;
  for (i64 i = 0; i < model_input_count; i++)
    for (i64 a = 0; a < inputs[i].rank; a++, at++) {
      same &= m->shapes[at] == inputs[i].shape[a];
      m->shapes[at] = inputs[i].shape[a];
    }
  if (same) return MODEL_OK;
  m->bound = 0, plan_wrong = 0;
  int code = plan.bind(inputs, m->sizes);
  if (!code) code = place(m, m->sizes);
  if (!code) code = bind_steps(m, m->sizes);
  if (code == MODEL_BAD_INPUT) return fail(m, code, "%s", said);
  if (code) return fail(m, code, "there is no memory for the intermediate values [ML654]");
  m->bound = 1;
  return MODEL_OK;
}

/* ---- running -------------------------------------------------------------------------------------------------------- */

static int make_outputs(model *m, const model_value *inputs, model_value *outputs) {
  for (i64 n = 0; n < model_output_count; n++) {
    const plan_output *p = &plan.outputs[n];
    const model_spec *spec = &model_output_specs[n];
    model_value *y = &outputs[n];
    if (p->alias >= 0) {
      *y = inputs[p->alias];
      continue;
    }
    if (p->same >= 0) {
      *y = outputs[p->same];
      continue;
    }
    i64 bytes = spec->itemsize, spread = bytes;
    plan_wrong = 0;
    y->rank = spec->rank;
    for (i64 a = 0; a < spec->rank; a++) {
      const i64 size = p->shape[a](m->sizes);
      y->shape[a] = size;
      bytes = plan_mul(bytes, size), spread = plan_mul(spread, size ? size : 1);
    }
    if (plan_wrong) return fail(m, MODEL_BAD_INPUT, "output %lld is larger than 63 bits can count [ML223]", n);
    if (grow(&m->outputs[n], most(bytes, 1)))
      return fail(m, MODEL_NO_MEMORY, "there is no memory for output %lld, %lld bytes [ML654]", n, bytes);
    y->data = m->address[p->slot] = m->outputs[n].memory;
  }
  return MODEL_OK;
}

static int index_fault(model *m, const plan_fault *f, i64 value, i64 limit) {
  const char *label = f ? f->label : "", *where = f ? f->where : "", *colon = *label ? ": " : "";
  const i64 kind = f ? f->kind : PLAN_INDEX;
  if (kind == PLAN_SLICE && limit < 0)
    return fail(m, MODEL_FAULT, "buffer_store_slice: the slice has %lld elements along an axis where the source has %lld%s "
                "[ML779]", value, -1 - limit, where);
  return fail(m, MODEL_FAULT, "%s%sthe %s %lld is out of range for a dim of size %lld%s [ML652]", label, colon,
              kind == PLAN_BOUNDS || kind == PLAN_BACKWARDS ? "bound" : "index", value, limit, where);
}

static int failed_step(model *m, const i64 *info) {
  const plan_step *p = &plan.steps[info[0]];
  const i64 code = info[1], number = info[4];
  if (code == MX_REFUSED && p->guard) {
    plan_wrong = 0;
    p->guard(m->sizes);
    return fail(m, MODEL_BAD_INPUT, "%s", said);
  }
  if (code == 1) return index_fault(m, number >= 0 && number < p->nfaults ? &p->faults[number] : NULL, info[2], info[3]);
  if (code == 2)
    for (i64 i = 0; i < plan.nnotes; i++)
      if (plan.notes[i].number == info[2])
        return fail(m, MODEL_FAULT, "an assertion does not hold for the item %lld: %s%s [ML791]", info[3],
                    plan.notes[i].text, p->where);
  if (code == 3) return fail(m, MODEL_FAULT, "element %lld of what %s writes is NaN%s [ML792]", info[2], p->name, p->where);
  return fail(m, MODEL_FAULT, "the kernel %s failed with code %lld%s [ML651]", p->name, code, p->where);
}

int model_run(model *m, const model_value *inputs, model_value *outputs) {
  m->message[0] = 0;
  int code = look_at(m, inputs);
  if (!code) code = bind(m, inputs);
  if (!code) code = make_outputs(m, inputs, outputs);
  if (code) return code;
  static char nothing[ALIGNED]; /* what an array without elements begins at */
  i64 at = 0;
  for (i64 n = 0; n < plan.nslots; n++)
    if (plan.slots[n].kind == PLAN_INPUT) {
      void *data = inputs[plan.slots[n].index].data;
      m->address[n] = data ? data : nothing;
    }
  for (i64 n = 0; n < plan.nsteps; n++)
    for (i64 i = 0; i < plan.steps[n].npointers; i++) m->argp[at++] = m->address[plan.steps[n].pointers[i]];
  i64 info[6] = {0}, pc = 0;
  mx_use_lib(plan.products ? plan.products() : NULL);
  do {
    code = plan.is_program ? mx_execute_program(m->team, m->steps, plan.nsteps, m->argp, m->dims, NULL, 0, NULL, m->scratch,
                                                NULL, info, &pc, SLICE_NS)
                           : mx_execute(m->team, m->steps, plan.nsteps, m->argp, m->dims, NULL, 0, NULL, m->scratch, NULL,
                                        info);
  } while ((code & ~MX_LOST) == MX_PAUSED);
  if (m->guard && mx_mapped_lost(m->guard)) return fail(m, MODEL_BAD_WEIGHTS, "a page of the weights cannot be read [ML641]");
  code &= ~MX_LOST; /* of another model's file */
  if (code == MX_ERR_STEP) return failed_step(m, info);
  if (code == MX_ERR_MEMORY) return fail(m, MODEL_NO_MEMORY, "there is no memory to run it [ML654]");
  if (code) return fail(m, MODEL_FAULT, "it could not run: the executor's code is %d [ML651]", code);
  return MODEL_OK;
}

const char *model_message(const model *m) { return m->message; }

/* ---- loading -------------------------------------------------------------------------------------------------------- */

static int open_weights(model *m, const char *path) {
  if (!plan.weights) return MODEL_OK;
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return fail(m, MODEL_BAD_WEIGHTS, "%s cannot be opened: %s", path, strerror(errno));
  struct stat is;
  char head[32];
  int code = MODEL_BAD_WEIGHTS;
  if (fstat(file, &is) || !S_ISREG(is.st_mode)) fail(m, code, "%s is no regular file", path);
  else if (is.st_size != plan.weights)
    fail(m, code, "%s has %lld bytes, expected %lld: it is cut, or of another model", path, (i64)is.st_size, plan.weights);
  else if (pread(file, head, sizeof head, 0) != sizeof head || memcmp(head, PLAN_MAGIC, 8) || memcmp(head + 16, plan.id, 16))
    fail(m, code, "%s has the weights of another model", path);
  else {
    m->file_bytes = is.st_size;
    m->file = mmap(NULL, (size_t)m->file_bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (m->file == MAP_FAILED) m->file = NULL, code = fail(m, MODEL_NO_MEMORY, "%s cannot be mapped: %s", path, strerror(errno));
    else if (!(m->guard = mx_mapped_new(m->file, m->file_bytes, -1, is.st_size, -1, 0)))
      code = fail(m, MODEL_NO_MEMORY, "there is no memory");
    else code = MODEL_OK;
  }
  close(file);
  return code;
}

/* Packs operands of products as this processor wants them. */
static int pack(model *m) {
  i64 total = 0, n = 0;
  for (i64 i = 0; i < plan.nslots; i++) {
    const plan_slot *slot = &plan.slots[i];
    if (slot->kind == PLAN_DATA) m->address[i] = m->file + slot->offset;
    if (slot->kind == PLAN_PACKED) total += aligned(slot->bytes);
  }
  if (!total) return MODEL_OK;
  m->packed = mx_alloc(total);
  if (!m->packed) return fail(m, MODEL_NO_MEMORY, "there is no memory for %lld bytes of packed weights [ML654]", total);
  char *at = m->packed;
  for (i64 i = 0; i < plan.nslots; i++) {
    const plan_slot *slot = &plan.slots[i];
    if (slot->kind != PLAN_PACKED) continue;
    m->address[i] = at;
    at += aligned(slot->bytes);
    void *argp[] = {m->address[i], (char *)m->address[slot->source] + slot->offset};
    const i64 grain = most(up(PACKED_AT_ONCE * slot->items, most(slot->bytes / 4, 1)), 1);
    const mx_step step = {.fn = slot->pack, .extent = slot->items, .grain = grain, .piece = grain};
    i64 info[6];
    n = mx_execute(m->team, &step, 1, argp, slot->sizes, NULL, 0, NULL, ALIGNED, NULL, info) & ~MX_LOST;
    if (n) return fail(m, MODEL_NO_MEMORY, "the weights could not be packed: the executor's code is %lld [ML651]", n);
  }
  if (m->guard && mx_mapped_lost(m->guard)) return fail(m, MODEL_BAD_WEIGHTS, "a page of the weights cannot be read [ML641]");
  return MODEL_OK;
}

int model_create(model **made, const char *weights, int64_t threads, char *message, size_t room) {
  *made = NULL;
  model *m = calloc(1, sizeof *m);
  if (!m) {
    snprintf(message, room, "there is no memory");
    return MODEL_NO_MEMORY;
  }
  i64 pointers = 0, dims = 0, axes = 0;
  for (i64 n = 0; n < plan.nsteps; n++)
    pointers += plan.steps[n].npointers, dims += plan.steps[n].nsizes + plan.steps[n].nmoves + EXTRAS;
  for (i64 i = 0; i < model_input_count; i++) axes += model_input_specs[i].rank;
  m->threads = threads > 0 ? threads : sysconf(_SC_NPROCESSORS_ONLN);
  m->threads = m->threads < 1 ? 1 : m->threads > 1024 ? 1024 : m->threads;
  m->address = calloc((size_t)plan.nslots + 1, sizeof *m->address);
  m->argp = calloc((size_t)pointers + 1, sizeof *m->argp);
  m->steps = calloc((size_t)plan.nsteps + 1, sizeof *m->steps);
  m->dims = calloc((size_t)dims + 1, sizeof *m->dims);
  m->sizes = calloc((size_t)plan.nsizes + 1, sizeof *m->sizes);
  m->shapes = calloc((size_t)axes + 1, sizeof *m->shapes);
  m->outputs = calloc((size_t)model_output_count + 1, sizeof *m->outputs);
  m->team = mx_team_new(m->threads);
  int code = MODEL_OK;
  if (!m->address || !m->argp || !m->steps || !m->dims || !m->sizes || !m->shapes || !m->outputs || !m->team)
    code = fail(m, MODEL_NO_MEMORY, "there is no memory");
  if (!code) code = open_weights(m, weights);
  if (!code) code = pack(m);
  if (code) {
    snprintf(message, room, "%s", m->message);
    model_destroy(m);
    return code;
  }
  *made = m;
  return MODEL_OK;
}

void model_destroy(model *m) {
  if (!m) return;
  mx_team_free(m->team);
  if (m->guard) mx_mapped_free(m->guard);
  if (m->file) munmap(m->file, (size_t)m->file_bytes);
  for (i64 n = 0; m->outputs && n < model_output_count; n++) mx_free(m->outputs[n].memory);
  mx_free(m->arena.memory);
  mx_free(m->packed);
  free(m->address), free(m->argp), free(m->steps), free(m->dims), free(m->sizes), free(m->shapes), free(m->outputs);
  free(m);
}
