/* warp.cpp - what the lanes of a warp do together: barriers, shuffles, votes, tensor cores; and asynchronous copies.
 *
 * An operation is done by the lane that arrives last, for all its members: operands lie in the threads, so no lane can
 * overwrite what another one has yet to read. Operations with different masks may be under way in one warp.
 */
#include "runtime.h"
#include "types.h"

#include <cstring>

namespace cs {

Thread &Worker::collect(u32 mask, u32 op, const void *pc) {
  Thread &t = *current;
  Warp &w = warp();
  const u32 lane = 1u << t.index % WARP;
  t.pc = pc;
  t.mask = mask;
  t.op = op;
  Report more = Report();
  more.detail = mask;
  if (!(mask & lane)) {
    report(BAD_MASK, pc, more);
    abandon();
  }
  const u32 number = (u32)__builtin_ctz(mask);
  Slot &s = w.slot[number];
  if (!(w.pending >> number & 1u)) {
    s = {mask, 0, op};
    w.pending |= 1u << number;
  } else if (s.mask != mask || s.op != op) {
    Thread &other = threads[t.index / WARP * WARP + (u32)__builtin_ctz(s.arrived)];
    more.other_pc = (const char *)other.pc - job->image;
    more.other_block = block_index;
    more.other_thread = other.index;
    report(BAD_MASK, pc, more);
    abandon();
  }
  s.arrived |= lane;
  if (s.arrived == (mask & w.alive))
    complete(w, number);
  else
    wait(t, IN_WARP);
  return t;
}

void Worker::complete(Warp &w, u32 number) {
  const Slot s = w.slot[number];
  w.pending &= ~(1u << number);
  combine(w, s.arrived, s.op);
  Thread *lanes = &threads[(u32)(&w - warps) * WARP];
  for (u32 open = s.arrived; open; open &= open - 1) {
    Thread &t = lanes[__builtin_ctz(open)];
    if (t.state == IN_WARP) wake(t);
  }
  if (check && s.op == OP_SYNC) check_syncwarp(*check, (u32)(&w - warps), s.arrived);
}

/* Lanes that ask which of them are together: those that asked at the same place, once no other lane can still come. */
void Worker::resolve_asking(Warp &w) {
  Thread *lanes = &threads[(u32)(&w - warps) * WARP];
  const void *pc = lanes[__builtin_ctz(w.asking)].pc;
  u32 together = 0;
  for (u32 open = w.asking; open; open &= open - 1)
    if (lanes[__builtin_ctz(open)].pc == pc) together |= open & -open;
  w.asking &= ~together;
  for (u32 open = together; open; open &= open - 1) {
    lanes[__builtin_ctz(open)].out[0] = together;
    wake(lanes[__builtin_ctz(open)]);
  }
}

u32 Worker::activemask(const void *pc) {
  Thread &t = *current;
  t.pc = pc;
  warp().asking |= 1u << t.index % WARP;
  wait(t, ASKING);
  return t.out[0];
}

static u32 fold(u32 op, u32 a, u32 b) {
  switch (op) {
  case CS_ADD: return a + b;
  case CS_MIN_S: return (int32_t)b < (int32_t)a ? b : a;
  case CS_MIN_U: return b < a ? b : a;
  case CS_MAX_S: return (int32_t)a < (int32_t)b ? b : a;
  case CS_MAX_U: return a < b ? b : a;
  case CS_BIT_AND: return a & b;
  case CS_BIT_OR: return a | b;
  default: return a ^ b;
  }
}

/* C += A B with the fragments that mx_device.cuh draws. Products of 16-bit floats are exact in float. */
static void multiply(Thread *lanes, bool bf16) {
  float a[16][16], b[16][8];
  auto value = [bf16](u32 word, u32 half) {
    const u16 bits = (u16)(word >> 16 * half);
    return bf16 ? cs_bfloat16_value(bits) : cs_half_value(bits);
  };
  for (u32 lane = 0; lane < WARP; lane++) {
    const u32 g = lane / 4, t = lane % 4 * 2;
    for (u32 r = 0; r < 4; r++)
      for (u32 h = 0; h < 2; h++) a[g + r % 2 * 8][t + r / 2 * 8 + h] = value(lanes[lane].in[r], h);
    for (u32 r = 0; r < 2; r++)
      for (u32 h = 0; h < 2; h++) b[t + r * 8 + h][g] = value(lanes[lane].in[4 + r], h);
  }
  for (u32 lane = 0; lane < WARP; lane++)
    for (u32 i = 0; i < 4; i++) {
      const u32 row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float sum = __uint_as_float(lanes[lane].in[6 + i]);
      for (u32 k = 0; k < 16; k++) sum += a[row][k] * b[k][column];
      lanes[lane].out[i] = __float_as_uint(sum);
    }
}

static void distribute(Thread *lanes, bool transposed) {
  for (u32 lane = 0; lane < WARP; lane++)
    for (u32 tile = 0; tile < 4; tile++) {
      const u32 g = lane / 4, t = lane % 4 * 2;
      auto at = [&](u32 row, u32 column) {
        return lanes[tile * 8 + row].in[column / 2] >> 16 * (column % 2) & 0xffffu;
      };
      lanes[lane].out[tile] = transposed ? at(t, g) | at(t + 1, g) << 16 : at(g, t) | at(g, t + 1) << 16;
    }
}

void Worker::combine(Warp &w, u32 members, u32 op) {
  Thread *lanes = &threads[(u32)(&w - warps) * WARP];
  const u32 first = (u32)__builtin_ctz(members);
  auto each = [members](auto f) {
    for (u32 open = members; open; open &= open - 1) f((u32)__builtin_ctz(open));
  };
  switch (op) {
  case OP_SYNC: return;
  case OP_SHUFFLE:
    each([&](u32 l) {
      const u32 source = lanes[l].in[2];
      const bool present = members >> source & 1u;
      if (!present && check) {
        Report more = Report();
        more.thread = lanes[l].index + 1;
        more.detail = source;
        report(BAD_LANE, lanes[l].pc, more);
      }
      memcpy(lanes[l].out, lanes[present ? source : l].in, 8);
    });
    return;
  case OP_VOTE: {
    u32 ballot = 0;
    each([&](u32 l) { ballot |= (u32)(lanes[l].in[0] != 0) << l; });
    each([&](u32 l) {
      const u32 how = lanes[l].in[1];
      lanes[l].out[0] = how == CS_BALLOT ? ballot : how == CS_ANY ? ballot != 0 : ballot == members;
    });
    return;
  }
  case OP_MATCH:
    each([&](u32 l) {
      u32 same = 0;
      each([&](u32 m) { same |= (u32)(memcmp(lanes[l].in, lanes[m].in, 8) == 0) << m; });
      lanes[l].out[0] = same;
    });
    return;
  case OP_FOLD: {
    u32 sum = lanes[first].in[0];
    each([&](u32 l) {
      if (l != first) sum = fold(lanes[first].in[1], sum, lanes[l].in[0]);
    });
    each([&](u32 l) { lanes[l].out[0] = sum; });
    return;
  }
  default: /* tensor cores take whole warps */
    if (members != FULL_WARP) {
      Report more = Report();
      more.thread = lanes[first].index + 1;
      more.detail = members;
      report(BAD_MASK, lanes[first].pc, more);
      abandon();
    }
    if (op == OP_BF16 || op == OP_F16)
      multiply(lanes, op == OP_BF16);
    else
      distribute(lanes, op == OP_LDMATRIX_TRANS);
  }
}

} // namespace cs

/* ------------------------------------------------------------- what kernels call */

using namespace cs;
#define HERE __builtin_return_address(0)

void cs_syncwarp(unsigned mask) { self().collect(mask, OP_SYNC, HERE); }

unsigned long long cs_shuffle(unsigned mask, unsigned long long bits, unsigned source) {
  Worker &w = self();
  memcpy(w.current->in, &bits, 8);
  w.current->in[2] = source % WARP;
  memcpy(&bits, w.collect(mask, OP_SHUFFLE, HERE).out, 8);
  return bits;
}

unsigned cs_vote(unsigned mask, int op, int predicate) {
  Worker &w = self();
  w.current->in[0] = predicate != 0;
  w.current->in[1] = (u32)op;
  return w.collect(mask, OP_VOTE, HERE).out[0];
}

unsigned cs_match(unsigned mask, unsigned long long bits) {
  Worker &w = self();
  memcpy(w.current->in, &bits, 8);
  return w.collect(mask, OP_MATCH, HERE).out[0];
}

unsigned cs_fold(unsigned mask, int op, unsigned value) {
  Worker &w = self();
  w.current->in[0] = value;
  w.current->in[1] = (u32)op;
  return w.collect(mask, OP_FOLD, HERE).out[0];
}

unsigned cs_activemask() { return self().activemask(HERE); }

void cs_mma_m16n8k16(int kind, float *c, const unsigned *a, const unsigned *b) {
  Worker &w = self();
  u32 *in = w.current->in;
  memcpy(in, a, 16), memcpy(in + 4, b, 8), memcpy(in + 6, c, 16);
  memcpy(c, w.collect(FULL_WARP, kind == CS_BF16 ? OP_BF16 : OP_F16, HERE).out, 16);
}

static void require_aligned(Worker &w, const void *p, int bytes, const void *pc) {
  if (!w.check || (uintptr_t)p % (unsigned)bytes == 0) return;
  Report more = Report();
  more.address = (i64)p;
  more.size = bytes;
  w.report(MISALIGNED, pc, more);
  w.abandon();
}

void cs_ldmatrix(unsigned *out, const void *row, int transposed) {
  Worker &w = self();
  w.current->pc = HERE;
  require_aligned(w, row, 16, HERE);
  if (w.check) check_access(*w.check, row, 16, READ, HERE);
  memcpy(w.current->in, row, 16);
  memcpy(out, w.collect(FULL_WARP, transposed ? OP_LDMATRIX_TRANS : OP_LDMATRIX, HERE).out, 16);
}

/* Copies are made when they are waited for: a kernel that forgets to wait reads what was there before. */
void cs_copy_async(void *shared, const void *global, int bytes, int valid) {
  Worker &w = self();
  w.current->pc = HERE;
  require_aligned(w, shared, bytes, HERE);
  require_aligned(w, global, bytes, HERE);
  if (w.check) {
    if (valid > 0) check_access(*w.check, global, (size_t)valid, READ, HERE);
    check_access(*w.check, shared, (size_t)bytes, ASYNC, HERE);
  }
  w.current->copying = true;
  const Copy copy = {(char *)shared, (const char *)global, bytes, valid, w.current->committed, HERE};
  w.copies[w.current->index].push_back(copy);
}

void cs_copy_commit() { self().current->committed++; }

void cs_copy_wait(int pending) {
  Worker &w = self();
  std::vector<Copy> &copies = w.copies[w.current->index];
  size_t done = 0;
  w.current->pc = HERE;
  for (; done < copies.size() && copies[done].group + (u32)pending < w.current->committed; done++) {
    const Copy &c = copies[done];
    if (c.valid == 4 && c.bytes == 4) /* nearly all are one of two sizes */
      memcpy(c.to, c.from, 4);
    else if (c.valid == 16)
      memcpy(c.to, c.from, 16);
    else {
      memcpy(c.to, c.from, (size_t)c.valid);
      memset(c.to + c.valid, 0, (size_t)(c.bytes - c.valid));
    }
    if (w.check) check_copied(*w.check, c);
  }
  if (done == copies.size())
    copies.clear();
  else
    copies.erase(copies.begin(), copies.begin() + (long)done);
}
