"""The executor: right chunks, errors, two host threads, fork, and a long random stress run."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels_c.conftest import SOURCES, Lab, prelude

KERNELS = (
    prelude("abi")
    + """
/* adds 1 to y[i] for every item; a second chunk with the same item would show */
int k_count(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  i64 *y = b[0];
  (void)d, (void)ctx;
  for (i64 i = lo; i < hi; i++) y[i]++;
  return 0;
}
/* y[i] = x[i] + d[0] and checks that the step before is complete: x[n-1-i] must be there */
int k_next(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  i64 *y = b[1], *x = b[0], n = d[1];
  if (d[2] > 0) ((char *)ctx->scratch)[d[2] - 1] = 1;
  if ((u64)ctx->scratch % 64) { ctx->err[0] = -1; return 9; }
  for (i64 i = lo; i < hi; i++) {
    if (x[n - 1 - i] != x[i]) { ctx->err[0] = i; ctx->err[1] = x[n - 1 - i]; return 7; }
    y[i] = x[i] + d[0];
  }
  return 0;
}
int k_fail(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  (void)b;
  if (d[0] < lo || d[0] >= hi) return 0;
  ctx->err[0] = d[0]; ctx->err[1] = 11; ctx->err[2] = 22; ctx->err[3] = 33;
  return 5;
}
int k_spin(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  volatile f64 x = 0; (void)b, (void)ctx, (void)x;
  for (i64 i = lo; i < hi; i++) for (i64 k = 0; k < d[0]; k++) x += 1;
  return 0;
}
/* the same, and who did it */
int k_who(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  for (i64 i = lo; i < hi; i++) ((i64 *)b[0])[i] = (i64)ctx;
  return k_spin(b, d, lo, hi, ctx);
}
"""
)
NAMES = ("k_count", "k_next", "k_fail", "k_spin", "k_who")


@pytest.fixture(scope="module")
def kernels(lab: Lab) -> Any:
    signature = "(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx);"
    return lab.open_text(KERNELS, "".join(f"int {n}{signature}" for n in NAMES), "-O2")


class Program:
    """A step table kept alive with its arrays."""

    def __init__(self, lab: Lab, runtime: Any) -> None:
        self.ffi, self.lib = lab.ffi, runtime
        self.rows: list[tuple[Any, int, int, int, int, int]] = []
        self.pointers: list[Any] = []
        self.dims: list[int] = []
        self.keep: list[Any] = []

    def add(self, fn: Any, arrays: list[Any], dims: list[int], extent: int, grain: int) -> None:
        self.rows.append((fn, len(self.pointers), len(self.dims), extent, grain, 0))
        self.keep += arrays
        self.pointers += [self.ffi.cast("void *", a.ctypes.data) for a in arrays]
        self.dims += dims

    def ready(self) -> None:
        self.steps = self.ffi.new("mx_step[]", self.rows)
        self.argp = self.ffi.new("void *[]", self.pointers or [self.ffi.NULL])
        self.d = self.ffi.new("i64[]", self.dims or [0])
        self.err = self.ffi.new("i64[6]")

    def run(self, team: Any, scratch: int = 0, times: Any = None) -> int:
        null = self.ffi.NULL
        return int(
            self.lib.mx_execute(
                team, self.steps, len(self.rows), self.argp, self.d, null, 0, null, scratch,
                null if times is None else times, self.err,
            )
        )  # fmt: skip


@pytest.fixture
def program(lab: Lab, runtime: Any) -> Program:
    return Program(lab, runtime)


@pytest.fixture(params=[1, 2, 5])
def team(request: pytest.FixtureRequest, runtime: Any) -> Any:
    made = runtime.mx_team_new(request.param)
    yield made
    runtime.mx_team_free(made)


def test_every_item_once(program: Program, team: Any, kernels: Any) -> None:
    cases = [(1, 1), (0, 1), (10, 3), (10, 10), (10, 100), (10, 0), (1000, 1), (4097, 64)]
    cases += [(2, 1), (3, 1), (65_536, 1), (65_537, 1), (140_003, 1), (200_000, 3)]
    ys = [np.zeros(max(n, 1), np.int64) for n, _ in cases]
    for (n, grain), y in zip(cases, ys, strict=True):
        program.add(kernels.k_count, [y], [], n, grain)
    program.ready()
    for _ in range(20):
        assert program.run(team) == 0
    for (n, _), y in zip(cases, ys, strict=True):
        assert (y[:n] == 20).all()


def test_steps_are_barriers_and_times_are_ordered(
    program: Program, team: Any, kernels: Any, lab: Lab
) -> None:
    n, steps = 5000, 40
    a, b = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for s in range(steps):
        program.add(kernels.k_next, [a, b] if s % 2 == 0 else [b, a], [1, n, 300], n, 37 + s)
    program.ready()
    begins_and_ends = lab.ffi.new("i64[]", 2 * steps)
    times = lab.ffi.new("mx_times *", {"steps": begins_and_ends})
    for turn in range(100):
        assert program.run(team, 300 + 5000 * turn, times) == 0, list(program.err)
        stamps = np.array(list(begins_and_ends))
        assert (np.diff(stamps) >= 0).all()
        assert stamps[0] > 0
    assert (a == 100 * steps).all()


def test_every_chunk_is_in_a_row_of_the_thread_that_ran_it(
    program: Program, team: Any, kernels: Any, lab: Lab, runtime: Any
) -> None:
    cases = [(60, 1), (0, 1), (7, 7), (100, 9)]
    for n, grain in cases:
        program.add(kernels.k_spin, [], [2000], n, grain)
    program.ready()
    threads, steps = runtime.mx_team_size(team), len(cases)
    begins_and_ends = lab.ffi.new("i64[]", 2 * steps)
    rows = lab.ffi.new("i64[]", [-1] * (threads * steps * 3 + 1))
    times = lab.ffi.new("mx_times *", {"steps": begins_and_ends, "threads": rows})
    for _ in range(50):
        assert program.run(team, 0, times) == 0
        table = np.array(list(rows)[:-1]).reshape(threads, steps, 3)
        whole = np.array(list(begins_and_ends)).reshape(steps, 2)
        chunks = [-(-n // grain) for n, grain in cases]
        # A team of one runs each step in one call.
        assert table[:, :, 2].sum(0).tolist() == (chunks if threads > 1 else [1, 0, 1, 1])
        for begin, end, count in table.reshape(-1, 3):
            assert (begin == end == 0) if count == 0 else (0 < begin < end)
        for step, (begin, end) in enumerate(whole):
            busy = table[:, step][table[:, step, 2] > 0]
            assert (busy[:, 0] >= begin).all()
            assert end == max([begin, *busy[:, 1]])
            assert step == 0 or begin == whole[step - 1, 1]
    assert rows[threads * steps * 3] == -1


def test_threads_share_the_work_they_are_timed_for(
    program: Program, runtime: Any, kernels: Any, lab: Lab
) -> None:
    program.add(kernels.k_spin, [], [200_000], 16, 1)
    program.ready()
    team = runtime.mx_team_new(2)
    begin_and_end = lab.ffi.new("i64[2]")
    rows = lab.ffi.new("i64[6]")
    times = lab.ffi.new("mx_times *", {"steps": begin_and_end, "threads": rows})
    helped = 0
    for _ in range(50):
        assert program.run(team, 0, times) == 0
        helped += rows[5] > 0
    runtime.mx_team_free(team)
    assert helped, "the worker never took a chunk"


def test_each_of_two_threads_begins_with_a_half(
    program: Program, runtime: Any, kernels: Any
) -> None:
    """So it finds in its cache what it had there before. Who is done helps with the other half."""
    who = np.zeros(16, np.int64)
    program.add(kernels.k_who, [who], [200_000], 16, 1)
    program.ready()
    team = runtime.mx_team_new(2)
    halves = 0
    for _ in range(100):
        assert program.run(team) == 0
        halves += set(who[:8]) != set(who[8:]) and len(set(who[:8])) == len(set(who[8:])) == 1
    runtime.mx_team_free(team)
    assert halves, "no thread had a half to itself"


def test_patches_replace_pointers(program: Program, runtime: Any, kernels: Any, lab: Lab) -> None:
    x, y = np.zeros(4, np.int64), np.zeros(4, np.int64)
    program.add(kernels.k_count, [x], [], 4, 4)
    program.ready()
    team = runtime.mx_team_new(1)
    patch = lab.ffi.new("mx_patch[]", [(0, 1)])
    io = lab.ffi.new("void *[]", [lab.ffi.NULL, lab.ffi.cast("void *", y.ctypes.data)])
    null = lab.ffi.NULL
    code = runtime.mx_execute(
        team, program.steps, 1, program.argp, program.d, patch, 1, io, 0, null, null
    )
    assert (code, x.sum(), y.sum()) == (0, 0, 4)
    runtime.mx_team_free(team)


def test_first_error_wins_and_the_rest_is_skipped(
    program: Program, team: Any, kernels: Any
) -> None:
    before, after = np.zeros(1000, np.int64), np.zeros(1000, np.int64)
    program.add(kernels.k_count, [before], [], 1000, 10)
    program.add(kernels.k_fail, [], [637], 1000, 10)
    program.add(kernels.k_fail, [], [1], 1000, 10)
    program.add(kernels.k_count, [after], [], 1000, 10)
    program.ready()
    for _ in range(2000):
        assert program.run(team) == 1
        assert list(program.err) == [1, 5, 637, 11, 22, 33]
    assert (before == 2000).all()
    assert (after == 0).all()


def test_unknown_kind_is_refused(program: Program, team: Any, kernels: Any) -> None:
    program.add(kernels.k_count, [np.zeros(4, np.int64)], [], 4, 4)
    program.ready()
    program.steps[0].kind = 3
    assert program.run(team) == 3
    assert program.err[0] == 0


def test_stress_random_programs(lab: Lab, runtime: Any, kernels: Any) -> None:
    rng = random.Random(0)
    team = runtime.mx_team_new(3)
    programs: list[tuple[Program, bool, list[Any]]] = []
    for _ in range(60):
        p = Program(lab, runtime)
        arrays = []
        fails = rng.random() < 0.3
        steps = rng.randint(1, 12)
        bad = rng.randrange(steps)
        for s in range(steps):
            extent = rng.choice([1, 2, 7, 64, 333])
            grain = rng.choice([1, 2, 5, 64, 1000])
            if fails and s == bad:
                p.add(kernels.k_fail, [], [rng.randrange(extent)], extent, grain)
            else:
                y = np.zeros(extent, np.int64)
                p.add(kernels.k_count, [y], [], extent, grain)
                arrays.append((y, not fails or s < bad))
        p.ready()
        programs.append((p, fails, arrays))
    runs = [0] * len(programs)
    for _ in range(100_000):
        i = rng.randrange(len(programs))
        p, fails, _ = programs[i]
        assert p.run(team) == int(fails)
        runs[i] += 1
    for (_, _, arrays), count in zip(programs, runs, strict=True):
        for y, ran in arrays:
            assert (y == (count if ran else 0)).all()
    runtime.mx_team_free(team)


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_no_race_and_no_stray_access(lab: Lab, sanitizer: str) -> None:
    program = lab.folder / "stress"
    files = [str(Path(__file__).with_name("stress.c")), *map(str, SOURCES.glob("*.c"))]
    flags = ["-g", "-O1", "-fopenmp-simd", "-pthread", f"-I{SOURCES}", f"-fsanitize={sanitizer}"]
    built = subprocess.run(
        ["gcc", *flags, *files, "-o", str(program), "-lm"], capture_output=True, check=False
    )
    if built.returncode:
        pytest.skip("this compiler has no sanitizer library")
    done = subprocess.run([str(program)], capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()[:2000]


def test_two_host_threads_share_one_team(lab: Lab, runtime: Any, kernels: Any) -> None:
    team = runtime.mx_team_new(2)
    results: list[int] = []

    def work() -> None:
        p = Program(lab, runtime)
        y = np.zeros(500, np.int64)
        for _ in range(5):
            p.add(kernels.k_count, [y], [], 500, 7)
        p.ready()
        for _ in range(3000):
            assert p.run(team, 100) == 0
        results.append(int(y.min()) if y.min() == y.max() else -1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert results == [15000] * 4
    runtime.mx_team_free(team)


def test_fork_recreates_the_workers(program: Program, runtime: Any, kernels: Any) -> None:
    team = runtime.mx_team_new(2)
    y = np.zeros(5000, np.int64)
    program.add(kernels.k_count, [y], [], 5000, 10)
    program.ready()
    assert program.run(team) == 0
    child = os.fork()
    if child == 0:
        grandchild = os.fork()
        good = all(program.run(team) == 0 for _ in range(50)) and bool((y == 51).all())
        if grandchild:
            good &= os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) == 0
        runtime.mx_team_free(team)
        os._exit(0 if good else 1)
    deadline = time.monotonic() + 30
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
        assert time.monotonic() < deadline, "the forked child hangs"
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 0
    assert program.run(team) == 0
    runtime.mx_team_free(team)


def test_team_life(runtime: Any, program: Program, kernels: Any) -> None:
    y = np.zeros(100, np.int64)
    program.add(kernels.k_count, [y], [], 100, 1)
    program.ready()
    for n in range(200):
        team = runtime.mx_team_new(n % 4)
        assert runtime.mx_team_size(team) == max(1, n % 4)
        if n % 3:
            assert program.run(team) == 0
        runtime.mx_team_free(team)


def test_dispatch_is_short(program: Program, runtime: Any, kernels: Any) -> None:
    y = np.zeros(1, np.int64)
    program.add(kernels.k_count, [y], [], 1, 1)
    program.ready()
    team = runtime.mx_team_new(2)
    best = 1e9
    for _ in range(200):
        begin = time.process_time_ns()
        for _ in range(100):
            program.run(team)
        best = min(best, (time.process_time_ns() - begin) / 100)
    assert best < 5000  # ns, the Python call and this test's wrapper included
    runtime.mx_team_free(team)
