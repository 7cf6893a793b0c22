/* grouped.cuh - products of groups of rows, each with the matrix of its expert, by the tiles of product.cuh.
 *
 *   template <class CFG, class T>
 *   mx_grouped_product(shared, x, w, starts, experts, usage, rows, groups, count, n, k, least, most, i,
 *                      store, refuse)
 *
 *   x             rows of k elements; those of the group g go from starts[g] to starts[g + 1]
 *   w             `count` matrices of n x k; experts[g] says which is that of the group g, -1 that its rows are 0
 *   usage         the rows of the largest group, and how many groups have rows
 *   least, most   this launch makes the groups of so many rows
 *   i             the item: which tile of CFG::BM x CFG::BN of the groups that this launch makes
 *   store(e, v)   called once for each element e of the result, rows of n
 *   refuse(v, m)  called for a row or a place v that is not one of m; of its item no element comes
 *
 * The tiles of all groups are counted one after the other, those above each other first, which share the columns of w
 * in the L2 cache.  An item behind the last tile has nothing to do: how many there are is known on the device alone.
 */
#pragma once

/* Tiles that leave room for what the groups need. */
typedef mx_tile<64, 64, 16, 8, 4, 1, 3> mx_grouped_64x64;
typedef mx_tile<16, 64, 64, 8, 4, 4, 2, 255> mx_grouped_16x64;

template <class CFG, class T, class STORE, class REFUSE>
MX_INLINE void mx_grouped_product(void *shared, const mx_stored<T> *x, const mx_stored<T> *w, const u32 *starts,
                                  const i32 *experts, const u32 *usage, i64 rows, i64 groups, i64 count, i64 n, i64 k,
                                  i64 least, i64 most, i64 i, STORE store, REFUSE refuse) {
  const i64 active = usage[1], columns = mx_ceil_div(n, CFG::BN);
  if (active > groups) {
    refuse(active, groups + 1);
    return;
  }
  const i64 begin = starts[0], end = starts[active];
  if (i == 0 && begin != 0) {
    refuse(begin, 1);
    return;
  }
  if (i == 0 && end != rows) {
    refuse(end < rows ? end : end - 1, end < rows ? end : rows);
    return;
  }
  i64 left = i;
  for (i64 g = 0; g < active; g++) {
    const i64 first = starts[g], last = starts[g + 1], expert = experts[g];
    if (first > last || last > rows) {
      refuse(last > rows ? last - 1 : first, last > rows ? rows : last);
      return;
    }
    if (last - first > (i64)usage[0]) {
      refuse(last - first, (i64)usage[0] + 1);
      return;
    }
    if (last - first < least || last - first > most) continue;
    const i64 high = mx_ceil_div(last - first, CFG::BM);
    if (left >= high * columns) {
      left -= high * columns;
      continue;
    }
    if (expert < -1 || expert >= count) {
      refuse(expert, count);
      return;
    }
    mx_product_tile<CFG, T, T>(
        shared, x + first * k, k, 1, w + (expert < 0 ? 0 : expert) * n * k, 1, k, left % high * CFG::BM,
        left / high * CFG::BN, last - first, n, expert < 0 ? 0 : k,
        [&](i64 row, i64 column, f32 value) { store((first + row) * n + column, value); }, mx_split(nullptr), 0);
    return;
  }
}
