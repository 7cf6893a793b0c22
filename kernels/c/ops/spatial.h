// spatial.h - images: sections for generated kernels, see ../prelude.h.
//
// Channels lie first or last in an image.  The library of products wants them last, so images with the channels first
// are turned before and their results behind it; convolutions that keep channels apart are summed here, in either order.

// @section turn_f32 needs shuffle
typedef f32 __attribute__((vector_size(32), aligned(4), may_alias)) mx_turned;
typedef i32 __attribute__((vector_size(32))) mx_turning;
#define MX_LOW(a, b) MX_SHUFFLE(mx_turning, a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define MX_HIGH(a, b) MX_SHUFFLE(mx_turning, a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define MX_EVENS(a, b) MX_SHUFFLE(mx_turning, a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define MX_ODDS(a, b) MX_SHUFFLE(mx_turning, a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define MX_FIRST(a, b) MX_SHUFFLE(mx_turning, a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define MX_SECOND(a, b) MX_SHUFFLE(mx_turning, a, b, 4, 5, 6, 7, 12, 13, 14, 15)
/* to[c][r] = from[r][c] for rows x cols numbers; rows of `to` are `ts` apart, those of `from` are `fs`. */
INL void mx_turn_f32(f32 *RS to, i64 ts, const f32 *RS from, i64 fs, i64 rows, i64 cols) {
  const i64 whole = rows / 8 * 8, even = cols / 8 * 8;
  for (i64 c0 = 0; c0 < even; c0 += 16) /* whole cache lines of both, one line of `to` after the other */
    for (i64 r0 = 0; r0 < whole; r0 += 16)
      for (i64 c = c0; c < (c0 + 16 < even ? c0 + 16 : even); c += 8)
        for (i64 r = r0; r < (r0 + 16 < whole ? r0 + 16 : whole); r += 8) {
          const f32 *const in = from + r * fs + c;
          f32 *const out = to + c * ts + r;
          mx_turned v[8], w[8];
          _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) v[i] = *(const mx_turned *)(in + i * fs);
          _Pragma("GCC unroll 4") for (int i = 0; i < 8; i += 2) { /* pairs of rows, then fours, then eights */
            w[i] = MX_LOW(v[i], v[i + 1]), w[i + 1] = MX_HIGH(v[i], v[i + 1]);
          }
          _Pragma("GCC unroll 4") for (int i = 0; i < 8; i += 4) {
            v[i] = MX_EVENS(w[i], w[i + 2]), v[i + 1] = MX_ODDS(w[i], w[i + 2]);
            v[i + 2] = MX_EVENS(w[i + 1], w[i + 3]), v[i + 3] = MX_ODDS(w[i + 1], w[i + 3]);
          }
          _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
            *(mx_turned *)(out + i * ts) = MX_FIRST(v[i], v[i + 4]);
            *(mx_turned *)(out + (i + 4) * ts) = MX_SECOND(v[i], v[i + 4]);
          }
        }
  for (i64 c = even; c < cols; c++)
    for (i64 r = 0; r < whole; r++) to[c * ts + r] = from[r * fs + c];
  for (i64 r = whole; r < rows; r++)
    for (i64 c = 0; c < cols; c++) to[c * ts + r] = from[r * fs + c];
}
// @end

// @section turn_u16 needs abi
INL void mx_turn_u16(u16 *RS to, i64 ts, const u16 *RS from, i64 fs, i64 rows, i64 cols) {
  for (i64 r0 = 0; r0 < rows; r0 += 32)
    for (i64 c = 0; c < cols; c++)
      for (i64 r = r0; r < (r0 + 32 < rows ? r0 + 32 : rows); r++) to[c * ts + r] = from[r * fs + c];
}
// @end

// @section depthwise needs bf16 f16
typedef f32 mx_d16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef u32 mx_d16u __attribute__((vector_size(64)));
typedef u16 mx_d16h __attribute__((vector_size(32), aligned(2), may_alias));
INL mx_d16 mx_sixteen_f32(const f32 *p) { return *(const mx_d16 *)p; }
INL mx_d16 mx_sixteen_bf16(const u16 *p) { return (mx_d16)(__builtin_convertvector(*(const mx_d16h *)p, mx_d16u) << 16); }
INL mx_d16 mx_sixteen_f16(const u16 *p) {
  mx_d16 v;
#if defined(__AVX512F__)
  __asm__("vcvtph2ps %1, %0" : "=v"(v) : "m"(*(const mx_d16h *)p));
#else
  for (int i = 0; i < 16; i++) v[i] = mx_f16_to_f32(p[i]);
#endif
  return v;
}
typedef f32 mx_d8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef u32 mx_d8u __attribute__((vector_size(32)));
typedef u16 mx_d8h __attribute__((vector_size(16), aligned(2), may_alias));
INL mx_d8 mx_eight_f32(const f32 *p) { return *(const mx_d8 *)p; }
INL mx_d8 mx_eight_bf16(const u16 *p) { return (mx_d8)(__builtin_convertvector(*(const mx_d8h *)p, mx_d8u) << 16); }
INL mx_d8 mx_eight_f16(const u16 *p) {
  mx_d8 v;
  for (int i = 0; i < 8; i++) v[i] = mx_f16_to_f32(p[i]);
  return v;
}
INL f32 mx_one_f32(f32 x) { return x; }
INL f32 mx_one_bf16(u16 x) { return mx_bf16_to_f32(x); }
INL f32 mx_one_f16(u16 x) { return mx_f16_to_f32(x); }
/* Four pixels, channels last, whose windows are inside of the image and begin `step` apart: y[c] = bias[c] + the sum of
 * w[t][c] * (x + at[t])[c] over n taps, for the first; results are `channels` apart.  bias may be NULL. */
#define MX_DEPTHWISE_FOUR(NAME, T, KIND)                                                                               \
  INL void NAME(f32 *RS y, const T *RS x, i64 step, const i64 *at, const T *const *w, int n, i64 channels,             \
                const T *RS bias) {                                                                                    \
    const mx_d16 none = {0};                                                                                           \
    i64 c = 0;                                                                                                         \
    for (; c + 32 <= channels; c += 32) {                                                                              \
      const mx_d16 b0 = bias ? mx_sixteen_##KIND(bias + c) : none, b1 = bias ? mx_sixteen_##KIND(bias + c + 16) : none; \
      mx_d16 a00 = b0, a01 = b1, a10 = b0, a11 = b1, a20 = b0, a21 = b1, a30 = b0, a31 = b1;                           \
      for (int t = 0; t < n; t++) {                                                                                    \
        const T *const p = x + at[t] + c;                                                                              \
        const mx_d16 v0 = mx_sixteen_##KIND(w[t] + c), v1 = mx_sixteen_##KIND(w[t] + c + 16);                          \
        a00 += mx_sixteen_##KIND(p) * v0, a01 += mx_sixteen_##KIND(p + 16) * v1;                                       \
        a10 += mx_sixteen_##KIND(p + step) * v0, a11 += mx_sixteen_##KIND(p + step + 16) * v1;                         \
        a20 += mx_sixteen_##KIND(p + 2 * step) * v0, a21 += mx_sixteen_##KIND(p + 2 * step + 16) * v1;                 \
        a30 += mx_sixteen_##KIND(p + 3 * step) * v0, a31 += mx_sixteen_##KIND(p + 3 * step + 16) * v1;                 \
      }                                                                                                                \
      f32 *const to = y + c;                                                                                           \
      *(mx_d16 *)to = a00, *(mx_d16 *)(to + 16) = a01;                                                                 \
      *(mx_d16 *)(to + channels) = a10, *(mx_d16 *)(to + channels + 16) = a11;                                         \
      *(mx_d16 *)(to + 2 * channels) = a20, *(mx_d16 *)(to + 2 * channels + 16) = a21;                                 \
      *(mx_d16 *)(to + 3 * channels) = a30, *(mx_d16 *)(to + 3 * channels + 16) = a31;                                 \
    }                                                                                                                  \
    for (; c + 16 <= channels; c += 16) {                                                                              \
      mx_d16 a0 = bias ? mx_sixteen_##KIND(bias + c) : none, a1 = a0, a2 = a0, a3 = a0;                                \
      for (int t = 0; t < n; t++) {                                                                                    \
        const T *const p = x + at[t] + c;                                                                              \
        const mx_d16 v = mx_sixteen_##KIND(w[t] + c);                                                                  \
        a0 += mx_sixteen_##KIND(p) * v, a1 += mx_sixteen_##KIND(p + step) * v;                                         \
        a2 += mx_sixteen_##KIND(p + 2 * step) * v, a3 += mx_sixteen_##KIND(p + 3 * step) * v;                          \
      }                                                                                                                \
      *(mx_d16 *)(y + c) = a0, *(mx_d16 *)(y + channels + c) = a1;                                                     \
      *(mx_d16 *)(y + 2 * channels + c) = a2, *(mx_d16 *)(y + 3 * channels + c) = a3;                                  \
    }                                                                                                                  \
    for (; c + 8 <= channels; c += 8) {                                                                                \
      mx_d8 a0 = bias ? mx_eight_##KIND(bias + c) : (mx_d8){0}, a1 = a0, a2 = a0, a3 = a0;                             \
      for (int t = 0; t < n; t++) {                                                                                    \
        const T *const p = x + at[t] + c;                                                                              \
        const mx_d8 v = mx_eight_##KIND(w[t] + c);                                                                     \
        a0 += mx_eight_##KIND(p) * v, a1 += mx_eight_##KIND(p + step) * v;                                             \
        a2 += mx_eight_##KIND(p + 2 * step) * v, a3 += mx_eight_##KIND(p + 3 * step) * v;                              \
      }                                                                                                                \
      *(mx_d8 *)(y + c) = a0, *(mx_d8 *)(y + channels + c) = a1;                                                       \
      *(mx_d8 *)(y + 2 * channels + c) = a2, *(mx_d8 *)(y + 3 * channels + c) = a3;                                    \
    }                                                                                                                  \
    for (; c < channels; c++)                                                                                          \
      for (int q = 0; q < 4; q++) {                                                                                    \
        f32 a = bias ? mx_one_##KIND(bias[c]) : 0;                                                                     \
        for (int t = 0; t < n; t++) a += mx_one_##KIND(x[at[t] + q * step + c]) * mx_one_##KIND(w[t][c]);              \
        y[q * channels + c] = a;                                                                                       \
      }                                                                                                                \
  }
INL void mx_depthwise_four_f32(f32 *RS, const f32 *RS, i64, const i64 *, const f32 *const *, int, i64, const f32 *RS);
INL void mx_depthwise_four_bf16(f32 *RS, const u16 *RS, i64, const i64 *, const u16 *const *, int, i64, const u16 *RS);
INL void mx_depthwise_four_f16(f32 *RS, const u16 *RS, i64, const i64 *, const u16 *const *, int, i64, const u16 *RS);
MX_DEPTHWISE_FOUR(mx_depthwise_four_f32, f32, f32)
MX_DEPTHWISE_FOUR(mx_depthwise_four_bf16, u16, bf16)
MX_DEPTHWISE_FOUR(mx_depthwise_four_f16, u16, f16)
/* The same for up to four pixels, tap t of pixel q at x[4 * t + q]; those that are not there read any numbers. */
#define MX_DEPTHWISE_EDGE(NAME, T, KIND)                                                                               \
  INL void NAME(f32 *RS y, int many, const T *const *x, const T *const *w, int n, i64 channels, const T *RS bias) {    \
    const mx_d16 none = {0};                                                                                           \
    i64 c = 0;                                                                                                         \
    for (; c + 32 <= channels; c += 32) {                                                                              \
      const mx_d16 b0 = bias ? mx_sixteen_##KIND(bias + c) : none, b1 = bias ? mx_sixteen_##KIND(bias + c + 16) : none;\
      mx_d16 a00 = b0, a01 = b1, a10 = b0, a11 = b1, a20 = b0, a21 = b1, a30 = b0, a31 = b1;                           \
      for (int t = 0; t < n; t++) {                                                                                    \
        const T *const p0 = x[4 * t] + c, *const p1 = x[4 * t + 1] + c;                                                \
        const T *const p2 = x[4 * t + 2] + c, *const p3 = x[4 * t + 3] + c;                                            \
        const mx_d16 v0 = mx_sixteen_##KIND(w[t] + c), v1 = mx_sixteen_##KIND(w[t] + c + 16);                          \
        a00 += mx_sixteen_##KIND(p0) * v0, a01 += mx_sixteen_##KIND(p0 + 16) * v1;                                     \
        a10 += mx_sixteen_##KIND(p1) * v0, a11 += mx_sixteen_##KIND(p1 + 16) * v1;                                     \
        a20 += mx_sixteen_##KIND(p2) * v0, a21 += mx_sixteen_##KIND(p2 + 16) * v1;                                     \
        a30 += mx_sixteen_##KIND(p3) * v0, a31 += mx_sixteen_##KIND(p3 + 16) * v1;                                     \
      }                                                                                                                \
      f32 *const to = y + c;                                                                                           \
      *(mx_d16 *)to = a00, *(mx_d16 *)(to + 16) = a01;                                                                 \
      if (many > 1) *(mx_d16 *)(to + channels) = a10, *(mx_d16 *)(to + channels + 16) = a11;                           \
      if (many > 2) *(mx_d16 *)(to + 2 * channels) = a20, *(mx_d16 *)(to + 2 * channels + 16) = a21;                   \
      if (many > 3) *(mx_d16 *)(to + 3 * channels) = a30, *(mx_d16 *)(to + 3 * channels + 16) = a31;                   \
    }                                                                                                                  \
    for (; c + 8 <= channels; c += 8) {                                                                                \
      mx_d8 a0 = bias ? mx_eight_##KIND(bias + c) : (mx_d8){0}, a1 = a0, a2 = a0, a3 = a0;                             \
      for (int t = 0; t < n; t++) {                                                                                    \
        const T *const *const p = x + 4 * t;                                                                           \
        const mx_d8 v = mx_eight_##KIND(w[t] + c);                                                                     \
        a0 += mx_eight_##KIND(p[0] + c) * v, a1 += mx_eight_##KIND(p[1] + c) * v;                                      \
        a2 += mx_eight_##KIND(p[2] + c) * v, a3 += mx_eight_##KIND(p[3] + c) * v;                                      \
      }                                                                                                                \
      *(mx_d8 *)(y + c) = a0;                                                                                          \
      if (many > 1) *(mx_d8 *)(y + channels + c) = a1;                                                                 \
      if (many > 2) *(mx_d8 *)(y + 2 * channels + c) = a2;                                                             \
      if (many > 3) *(mx_d8 *)(y + 3 * channels + c) = a3;                                                             \
    }                                                                                                                  \
    for (; c < channels; c++)                                                                                          \
      for (int q = 0; q < many; q++) {                                                                                 \
        f32 a = bias ? mx_one_##KIND(bias[c]) : 0;                                                                     \
        for (int t = 0; t < n; t++) a += mx_one_##KIND(x[4 * t + q][c]) * mx_one_##KIND(w[t][c]);                      \
        y[q * channels + c] = a;                                                                                       \
      }                                                                                                                \
  }
INL void mx_depthwise_edge_f32(f32 *RS, int, const f32 *const *, const f32 *const *, int, i64, const f32 *RS);
INL void mx_depthwise_edge_bf16(f32 *RS, int, const u16 *const *, const u16 *const *, int, i64, const u16 *RS);
INL void mx_depthwise_edge_f16(f32 *RS, int, const u16 *const *, const u16 *const *, int, i64, const u16 *RS);
MX_DEPTHWISE_EDGE(mx_depthwise_edge_f32, f32, f32)
MX_DEPTHWISE_EDGE(mx_depthwise_edge_bf16, u16, bf16)
MX_DEPTHWISE_EDGE(mx_depthwise_edge_f16, u16, f16)
/* How many pixels of a line are summed at once at most: their sums and the taps of a line of the window are in registers. */
#define MX_DEPTHWISE_TAPS 7
#if defined(__AVX512F__)
#define MX_DEPTHWISE_MOST 14
#else
#define MX_DEPTHWISE_MOST 4
#endif
/* `many` neighbouring pixels of a line of the result, float32 with the channels last, each of which is by itself: sums over
 * `lines` lines of `window` taps, `step` pixels apart, of windows that are a `stride` apart.  Taps of line n begin at w[n],
 * and the first pixel that the first window sees of it lies `left` pixels behind x[n]; only pixels `from` to `to` of those
 * that are seen are in the image, and `kept` results are wanted.  What is not said to vary is a literal.  Each number of the
 * image is read once, and goes into all sums that it is part of; the order of a sum is that of the taps. */
#define MX_DEPTHWISE_LINE(NAME, VECTOR)                                                                                \
  INL void NAME(const int many, const int window, const int step, const int stride, f32 *RS y, const f32 *const *x,    \
                i64 left, const f32 *const *w, int lines, i64 from, i64 to, i64 kept, i64 c, i64 channels,             \
                const f32 *RS bias) {                                                                                  \
    VECTOR sums[MX_DEPTHWISE_MOST], taps[MX_DEPTHWISE_TAPS];                                                           \
    const VECTOR start = bias ? *(const VECTOR *)(bias + c) : (VECTOR){0};                                             \
    _Pragma("GCC unroll 14") for (int p = 0; p < many; p++) sums[p] = start;                                           \
    for (int n = 0; n < lines; n++) {                                                                                  \
      const f32 *const in = x[n] + left * channels + c, *const by = w[n] + c;                                          \
      _Pragma("GCC unroll 7") for (int s = 0; s < window; s++) taps[s] = *(const VECTOR *)(by + s * channels);         \
      _Pragma("GCC unroll 64") for (int j = 0; j < (many - 1) * stride + (window - 1) * step + 1; j++)                 \
        if (j >= from && j < to) {                                                                                     \
          const VECTOR v = *(const VECTOR *)(in + j * channels);                                                       \
          _Pragma("GCC unroll 7") for (int s = 0; s < window; s++) {                                                   \
            const int first = j - s * step, p = first / stride;                                                        \
            if (first >= 0 && first % stride == 0 && p < many) sums[p] += v * taps[s];                                 \
          }                                                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    _Pragma("GCC unroll 14") for (int p = 0; p < many; p++)                                                            \
      if (p < kept) *(VECTOR *)(y + p * channels + c) = sums[p];                                                       \
  }
INL void mx_depthwise_line16(int, int, int, int, f32 *RS, const f32 *const *, i64, const f32 *const *, int, i64, i64, i64,
                             i64, i64, const f32 *RS);
INL void mx_depthwise_line8(int, int, int, int, f32 *RS, const f32 *const *, i64, const f32 *const *, int, i64, i64, i64,
                            i64, i64, const f32 *RS);
INL void mx_depthwise_line1(int, int, int, int, f32 *RS, const f32 *const *, i64, const f32 *const *, int, i64, i64, i64,
                            i64, i64, const f32 *RS);
MX_DEPTHWISE_LINE(mx_depthwise_line16, mx_d16)
MX_DEPTHWISE_LINE(mx_depthwise_line8, mx_d8)
MX_DEPTHWISE_LINE(mx_depthwise_line1, f32)
/* One channel of an image, channels first: `rows` x `cols` sums over taps, of which tap t has the weight w[t] and begins
 * at x + at[t] for the first sum, `line` numbers further for each row.  Whole vectors of 4 rows are read, up to 15 numbers
 * and 3 rows too far, which must exist; as much is written, to rows of y that are `out` apart. */
INL void mx_depthwise_plane(f32 *RS y, i64 out, const f32 *RS x, i64 line, const f32 *w, const i64 *at, int n, i64 rows,
                            i64 cols, f32 start) {
  for (i64 r = 0; r < rows; r += 4)
    for (i64 c = 0; c < cols; c += 16) {
      const f32 *const from = x + r * line + c;
      mx_d16 a0 = (mx_d16){0} + start, a1 = a0, a2 = a0, a3 = a0;
      for (int t = 0; t < n; t++) {
        const f32 *const p = from + at[t];
        const mx_d16 v = (mx_d16){0} + w[t];
        a0 += v * *(const mx_d16 *)p, a1 += v * *(const mx_d16 *)(p + line);
        a2 += v * *(const mx_d16 *)(p + 2 * line), a3 += v * *(const mx_d16 *)(p + 3 * line);
      }
      f32 *const to = y + r * out + c;
      *(mx_d16 *)to = a0, *(mx_d16 *)(to + out) = a1;
      *(mx_d16 *)(to + 2 * out) = a2, *(mx_d16 *)(to + 3 * out) = a3;
    }
}
// @end
