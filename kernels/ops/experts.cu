// The groups of rows that experts take, on GPUs; experts.c says what the numbers are.

// A block an expert: rows are counted, one thread says where groups begin, then the rows of each expert
// get their places, in order.
// @op expert_indices_gpu(ids: E[tokens]) -> (order: uint32[tokens], starts: uint32[ends],
//   restore: uint32[tokens], experts: int32[groups], usage: uint32[2])
// @types E: int32 | int64 | uint32
// @temp places: uint32[groups]
// @items groups

// @part count
// @work tokens
// @cuda block threads=256 shared=32
u32 *const sums = (u32 *)shared;
const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
u32 mine = 0;
for (i64 row = threadIdx.x; row < tokens; row += blockDim.x) {
  const i64 expert = load(ids, row);
  if (i == 0 && (expert < 0 || expert >= groups)) refuse(expert, groups);
  mine += expert == i;
}
for (int step = 16; step; step >>= 1) mine += __shfl_xor_sync(MX_FULL_WARP, mine, step);
if (lane == 0) sums[warp] = mine;
__syncthreads();
if (threadIdx.x == 0) {
  for (unsigned w = 1; w < 8; w++) mine += sums[w];
  places[i] = mine;
}
__syncthreads();

// @part starts
// @items 1
// @work groups
// @cuda serial
u32 first = 0, most = 0;
i64 active = 0;
for (i64 e = 0; e < groups; e++) {
  const u32 many = places[e];
  if (!many) continue;
  starts[active] = places[e] = first;
  experts[active++] = (i32)e;
  first += many;
  most = many > most ? many : most;
}
usage[0] = most;
usage[1] = (u32)active;
for (; active < groups; active++) starts[active] = first, experts[active] = -1;
starts[groups] = first;

// @part place
// @work tokens
// @cuda block threads=256 shared=32
u32 *const sums = (u32 *)shared;
const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
u32 next = places[i];
for (i64 start = 0; start < tokens; start += blockDim.x) {
  const i64 row = start + threadIdx.x;
  const bool taken = row < tokens && (i64)load(ids, row) == i;
  const unsigned votes = __ballot_sync(MX_FULL_WARP, taken);
  if (lane == 0) sums[warp] = __popc(votes);
  __syncthreads();
  u32 place = next + __popc(votes & ((1u << lane) - 1u));
  for (unsigned w = 0; w < 8; w++) {
    if (w < warp) place += sums[w];
    next += sums[w];
  }
  if (taken) order[place] = (u32)row, restore[row] = place;
  __syncthreads();
}
