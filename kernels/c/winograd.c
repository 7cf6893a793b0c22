// maxlab-flags: -O2
/* winograd.c - convolutions with windows of 3 x 3 in a quarter of the multiplications: Winograd's F(4 x 4, 3 x 3)
 * (A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, arXiv:1509.09308).
 *
 *   y = A^T [ (G g G^T) * (B^T d B) ] A        for a tile y of 4 x 4 pixels, which depends on 6 x 6 pixels d
 *
 * For each of the 36 places of a tile the sum over channels is a product of matrices, tiles x channels by channels x
 * channels of the result:
 *
 *   V[36][tiles][ic] = B^T d B       the image, once for each item
 *   M[36][tiles][oc] = V[x] U[x]     36 products; U = G g G^T is made of the filter when a model is loaded
 *   y = A^T M A + bias               written where it belongs
 *
 * The sums are others than those of the definition, and numbers that are up to 8 times as large are added: results are off
 * by up to some 1e-5 of the largest, so only models that ask for speed get them.  A NaN or an infinity in the image makes
 * all pixels of its tiles NaN.
 */
#include "tile.h"

#define SIDE 6           /* pixels of a tile of the image */
#define MADE 4           /* pixels of a tile of the result */
#define PLACES (SIDE * SIDE)
#define APART 16         /* floats between the matrices of two places, which would crowd few lines of the cache otherwise */

typedef mx_v16 six[SIDE];

/* B^T v, for each of 16 channels */
INLINE void image_line(mx_v16 *out, i64 step, const mx_v16 *v, i64 apart) {
  const mx_v16 v0 = v[0], v1 = v[apart], v2 = v[2 * apart], v3 = v[3 * apart], v4 = v[4 * apart], v5 = v[5 * apart];
  const mx_v16 a = v4 - 4.0f * v2, b = v3 - 4.0f * v1, c = v4 - v2, e = 2.0f * (v3 - v1);
  out[0] = 4.0f * v0 - 5.0f * v2 + v4;
  out[step] = a + b;
  out[2 * step] = a - b;
  out[3 * step] = c + e;
  out[4 * step] = c - e;
  out[5 * step] = 4.0f * v1 - 5.0f * v3 + v5;
}

/* A^T m */
INLINE void result_line(mx_v16 *out, i64 step, const mx_v16 *m, i64 apart) {
  const mx_v16 s = m[apart] + m[2 * apart], d = m[apart] - m[2 * apart];
  const mx_v16 p = m[3 * apart] + m[4 * apart], q = m[3 * apart] - m[4 * apart];
  out[0] = m[0] + s + p;
  out[step] = d + 2.0f * q;
  out[2 * step] = s + 4.0f * p;
  out[3 * step] = d + 8.0f * q + m[5 * apart];
}

/* V of one tile, whose first pixel is (h, w) of the image; what lies outside of that is 0. */
static void image_tile(const mx_winograd *a, i64 h, i64 w, f32 *to, i64 place) {
  const int inside = h >= 0 && w >= 0 && h + SIDE <= a->ih && w + SIDE <= a->iw;
  for (i64 c = 0; c < a->ic; c += 16) {
    mx_v16 d[PLACES], t[PLACES];
    if (inside) {
      const f32 *const from = a->x + (h * a->iw + w) * a->ic + c;
      for (i64 i = 0; i < SIDE; i++)
        for (i64 j = 0; j < SIDE; j++) d[i * SIDE + j] = *(const mx_v16 *)(from + (i * a->iw + j) * a->ic);
    } else
      for (i64 i = 0; i < SIDE; i++)
        for (i64 j = 0; j < SIDE; j++) {
          const i64 y = h + i, x = w + j;
          const int there = y >= 0 && x >= 0 && y < a->ih && x < a->iw;
          d[i * SIDE + j] = there ? *(const mx_v16 *)(a->x + (y * a->iw + x) * a->ic + c) : (mx_v16){0};
        }
    for (i64 j = 0; j < SIDE; j++) image_line(t + j, SIDE, d + j, SIDE);
    for (i64 i = 0; i < SIDE; i++) {
      six line;
      image_line(line, 1, t + i * SIDE, 1);
      for (i64 j = 0; j < SIDE; j++) *(mx_v16 *)(to + (i * SIDE + j) * place + c) = line[j];
    }
  }
}

/* The pixels of one tile of the result, the first of which is (h, w), from the sums of `cols` channels from c0 on. */
static void result_tile(const mx_winograd *a, i64 h, i64 w, i64 c0, i64 cols, const f32 *from, i64 place) {
  const i64 high = min64(MADE, a->oh - h), wide = min64(MADE, a->ow - w);
  for (i64 c = 0; c < cols; c += 16) {
    mx_v16 m[PLACES], t[MADE * SIDE];
    for (i64 n = 0; n < PLACES; n++) m[n] = *(const mx_v16 *)(from + n * place + c);
    for (i64 j = 0; j < SIDE; j++) result_line(t + j, SIDE, m + j, SIDE);
    const mx_v16 bias = a->bias ? *(const mx_v16 *)(a->bias + c0 + c) : (mx_v16){0};
    for (i64 i = 0; i < high; i++) {
      mx_v16 line[MADE];
      result_line(line, 1, t + i * SIDE, 1);
      f32 *const to = a->y + ((h + i) * a->ow + w) * a->oc + c0 + c;
      for (i64 j = 0; j < wide; j++) *(mx_v16 *)(to + j * a->oc) = line[j] + bias;
    }
  }
}

i64 mx_winograd_scratch(i64 tiles, i64 ic, i64 most) { return 4 * PLACES * (tiles * (ic + most) + 2 * APART); }

int mx_winograd_f32(const mx_winograd *a, i64 lo, i64 hi, i64 c0, i64 c1, i64 most, void *scratch, mx_ctx *ctx) {
  const i64 across = ceil_div(a->ow, MADE), tiles = hi - lo;
  const i64 v_place = tiles * a->ic + APART, m_place = tiles * most + APART;
  f32 *const v = scratch, *const m = v + PLACES * v_place;
  for (i64 t = lo; t < hi; t++)
    image_tile(a, t / across * MADE - a->ph, t % across * MADE - a->pw, v + (t - lo) * a->ic, v_place);
  for (i64 c = c0; c < c1; c += most) {
    const i64 cols = min64(most, c1 - c);
    for (i64 n = 0; n < PLACES; n++) {
      if (mx_stop(ctx)) return MX_STOPPED;
      mx_gemm_block(m + n * m_place, cols, v + n * v_place, a->ic, a->u + (n * a->wide + c) * a->ic, tiles, cols, a->ic,
                    1, 0);
    }
    for (i64 t = lo; t < hi; t++)
      result_tile(a, t / across * MADE, t % across * MADE, c, cols, m + (t - lo) * cols, m_place);
  }
  return 0;
}

/* U of the panels [lo,hi) of 32 channels of the result, as 36 packed right operands of products. */
int mx_k_pack_winograd(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  static const double G[SIDE][3] = {{1 / 4.0, 0, 0},
                                    {-1 / 6.0, -1 / 6.0, -1 / 6.0},
                                    {-1 / 6.0, 1 / 6.0, -1 / 6.0},
                                    {1 / 24.0, 1 / 12.0, 1 / 6.0},
                                    {1 / 24.0, -1 / 12.0, 1 / 6.0},
                                    {0, 0, 1}};
  const i64 ic = d[0], oc = d[1], row = d[2], column = d[3], tap = d[4], wide = ceil_div(oc, MX_NR) * MX_NR;
  f32 *const u = b[0];
  const f32 *const filter = b[1];
  (void)ctx;
  for (i64 p = lo; p < hi; p++)
    for (i64 c = 0; c < ic; c++)
      for (i64 j = 0; j < MX_NR; j++) {
        const i64 o = p * MX_NR + j;
        double left[SIDE][3];
        for (i64 i = 0; i < SIDE; i++)
          for (i64 s = 0; s < 3; s++) {
            left[i][s] = 0;
            for (i64 r = 0; r < 3 && o < oc; r++) left[i][s] += G[i][r] * filter[(r * 3 + s) * tap + c * row + o * column];
          }
        for (i64 i = 0; i < SIDE; i++)
          for (i64 k = 0; k < SIDE; k++) {
            const double sum = left[i][0] * G[k][0] + left[i][1] * G[k][1] + left[i][2] * G[k][2];
            u[((i * SIDE + k) * wide + p * MX_NR) * ic + c * MX_NR + j] = (f32)sum;
          }
      }
  return 0;
}
