/* Two host threads run random programs, some with an error, on one team of four, which a third one sends to rest now and then;
 * built with the thread sanitizer. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mx_abi.h"

#define STEPS 20
#define ITEMS 500
#define THREADS 4

static mx_team *team;
static i64 counts[2][STEPS][ITEMS];

static int k_count(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  i64 *y = b[0];
  (void)d;
  for (i64 i = lo; i < hi; i++) y[i]++;
  ((char *)ctx->scratch)[7] = 1;
  return 0;
}

static int k_fail(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)b;
  ctx->err[0] = lo;
  return lo <= d[0] && d[0] < hi ? 5 : 0;
}

static void *run(void *arg) {
  i64 who = (i64)arg;
  unsigned seed = (unsigned)who + 1;
  for (int round = 0; round < 3000; round++) {
    mx_step steps[STEPS];
    void *pointers[STEPS];
    i64 dims[STEPS], error[6], begins_and_ends[2 * STEPS], rows[THREADS * STEPS * MX_ROW];
    mx_times times = {begins_and_ends, round % 3 ? rows : 0};
    int n = rand_r(&seed) % STEPS + 1, bad = rand_r(&seed) % (2 * STEPS);
    for (int i = 0; i < n; i++) {
      i64 extent = rand_r(&seed) % ITEMS;
      pointers[i] = counts[who][i];
      dims[i] = extent / 2;
      steps[i] = (mx_step){i == bad ? k_fail : k_count, i, i, extent, rand_r(&seed) % 40, 0};
    }
    int want = bad < n && steps[bad].extent > 0 ? MX_ERR_STEP : MX_OK;
    int code = mx_execute(team, steps, n, pointers, dims, 0, 0, 0, 64 + rand_r(&seed) % 9000,
                          round % 2 ? &times : 0, error);
    if (code == MX_STOPPED) continue;
    if (code != want || (code && error[0] != bad)) {
      fprintf(stderr, "round %d: code %d, expected %d\n", round, code, want);
      exit(1);
    }
    for (int i = 0; !code && round % 2 && round % 3 && i < n; i++) {
      i64 chunks = 0;
      for (int thread = 0; thread < THREADS; thread++) chunks += rows[(thread * n + i) * MX_ROW + 2];
      if ((chunks > 0) != (steps[i].extent > 0)) {
        fprintf(stderr, "round %d, step %d: %lld chunks of %lld items\n", round, i, chunks, steps[i].extent);
        exit(1);
      }
    }
  }
  return 0;
}

static void *rest(void *arg) {
  (void)arg;
  for (int round = 0; round < 100; round++) {
    mx_team_rest(team);
    usleep(2000);
  }
  return 0;
}

int main(void) {
  pthread_t threads[3];
  team = mx_team_new(THREADS);
  for (i64 i = 0; i < 2; i++) pthread_create(&threads[i], 0, run, (void *)i);
  pthread_create(&threads[2], 0, rest, 0);
  for (i64 i = 0; i < 3; i++) pthread_join(threads[i], 0);
  mx_team_free(team);
  return 0;
}
