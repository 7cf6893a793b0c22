"""A device of the CUDA backend on the fake driver: memory, streams, events, kernels, graphs."""

from __future__ import annotations

from tests.driver_cuda.conftest import Run

BEGIN = """
import numpy as np
from maxlab.errors import DeviceError
from tests.driver_cuda.fake.harness import counted
from tests.driver_cuda.programs import *
def error_of(work):
    try: work()
    except DeviceError as error: return error
    raise AssertionError("no error")
"""
READY = BEGIN + "c = opened()\nk, = kernels(c, SCALE)\n"
"""Behind it ``c`` is a context, and ``k`` a kernel that multiplies."""


def test_asking_imports_nothing_first(on_fake: Run) -> None:
    result = on_fake(
        """
import sys
from maxlab.driver.cuda import backend
print("pycuda" in sys.modules, backend.count(), "pycuda" in sys.modules, backend.missing())
"""
    )
    assert result.out.split() == ["False", "1", "True", "[]"]


def test_properties(on_fake: Run) -> None:
    result = on_fake(
        BEGIN
        + """
c = opened(1)
print(c.properties)
print(c.id, c.target, c.call(c.memory), opened(1) is c)
""",
        devices=2,
        memory=1 << 20,
    )
    first, second = result.out.splitlines()
    assert "architecture='sm_90', multiprocessors=4, shared_bytes=232448, simulated=False" in first
    assert second == "1 sm_90a (1048576, 1048576) True"


def test_copies_in_and_out(on_fake: Run) -> None:
    on_fake(
        BEGIN
        + """
c = opened()
x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
a = put(c, x)
assert a % 256 == 0
x_before = x.copy()
x[:] = 0  # the copy was taken
assert (get(c, a, 1000) == x_before).all()
assert (get(c, a + 400, 10) == x_before[100:110]).all()
b = c.call(lambda: c.allocate(4000))
c.call(lambda: c.copy(c.default_queue, b, a + 2000, 2000))
c.call(lambda: c.fill(c.default_queue, b + 2000, 0, 2000))
assert (get(c, b, 1000) == np.r_[x_before[500:], np.zeros(500)]).all()
for nothing in (c.upload, c.download, c.copy, c.fill):
    c.call(lambda: nothing(c.default_queue, b, a if nothing != c.fill else 0, 0))
assert (c.counters.uploads, c.counters.upload_bytes, c.counters.downloads) == (2, 4000, 4)
assert (c.counters.copies, c.counters.fills) == (2, 2)
"""
    )


def test_pinned_memory_is_read_when_the_queue_is_there(on_fake: Run) -> None:
    on_fake(
        BEGIN
        + """
from maxlab.toolchain.cffi_abi import ffi
c = opened()
q = c.call(c.queue)
host = c.call(lambda: c.allocate_pinned(400))
x = np.frombuffer(ffi.buffer(ffi.cast("char *", host), 400), np.float32)
x[:] = 1
a = c.call(lambda: c.allocate(400))
c.call(lambda: c.upload(q, a, host, 400))
x[:] = 2  # the driver has not looked yet
assert (get(c, a, 100, q) == 2).all()
x[:] = 0
c.call(lambda: c.download(q, host, a, 400))
assert (x == 2).all()  # a download waits, pinned or not
c.call(lambda: c.release_pinned(host))
"""
    )


def test_out_of_memory(on_fake: Run) -> None:
    result = on_fake(
        BEGIN
        + """
c = opened()
keep = c.call(lambda: c.allocate(1 << 19))
error = error_of(lambda: c.call(lambda: c.allocate(3 << 18)))
print(error)
def inside():  # a pool catches it inside of its own work
    try: return c.allocate(3 << 18)
    except DeviceError as error:
        assert error.code == "ML403"
        c.release(keep)
        return c.allocate(3 << 18)
c.call(inside)
print(error_of(lambda: c.call(lambda: c.allocate(1 << 70))).code)
print(error_of(lambda: c.call(lambda: c.allocate_pinned(1 << 40))).code)
""",
        memory=1 << 20,
    )
    assert result.out.splitlines() == [
        "cannot allocate 786432 bytes on gpu:0 [ML403]",
        "  because the device has 524288 of 1048576 bytes free",
        "  fix: free tensors that are no longer needed, or use a smaller batch",
        "ML403",
        "ML403",
    ]


def test_release_waits_for_work(on_fake: Run) -> None:
    on_fake(
        READY
        + """
x, y = put(c, np.ones(64, np.float32)), put(c, np.zeros(64, np.float32))
c.call(lambda: (c.launch(c.default_queue, k, (1, 1, 1), (64, 1, 1), 0, [x, y, 64, 3]),
                c.release(x)))
assert (get(c, y, 64) == 3).all()
"""
    )


def test_kernels_with_tails_and_negative_numbers(on_fake: Run) -> None:
    on_fake(
        BEGIN
        + """
c = opened()
k, again, reverse = kernels(c, SCALE, SCALE, REVERSE)
assert k is again
rng = np.random.default_rng(1)
for n in (1, 255, 256, 257, 5000):
    x = rng.normal(size=n).astype(np.float32)
    a, b = put(c, x), put(c, np.full(n + 5, 9, np.float32))
    grid = (-(-n // 256), 1, 1)
    for by in (-3, 3, (1 << 64) - 3):
        c.call(lambda: c.launch(c.default_queue, k, grid, (256, 1, 1), 0, [a, b, n, by]))
        wanted = x * np.float32(by if by < 4 else -3)
        assert (get(c, b, n + 5) == np.r_[wanted, np.full(5, 9)]).all()
x = rng.normal(size=1024).astype(np.float32)
a = put(c, x)
c.call(lambda: c.launch(c.default_queue, reverse, (4, 1, 1), (256, 1, 1), 1024, [a]))
assert (get(c, a, 1024) == x.reshape(4, 256)[:, ::-1].ravel()).all()
assert c.counters.launches == counted("launches") == 16
assert counted("modules") <= 2
"""
    )


def test_more_shared_memory_is_opted_in_to(on_fake: Run) -> None:
    result = on_fake(
        BEGIN
        + """
c = opened()
k, = kernels(c, REVERSE)
x = np.arange(256, dtype=np.float32)
a = put(c, x)
go = lambda shared: c.call(
    lambda: c.launch(c.default_queue, k, (1, 1, 1), (256, 1, 1), shared, [a]))
for shared in (48 * 1024, 100 * 1024, 64 * 1024, 227 * 1024 - 16):
    go(shared)
error = error_of(lambda: go(227 * 1024))
print(error.code, error.what)
assert (get(c, a, 256) == x).all()  # reversed four times, and the device is well
print(error_of(lambda: c.call(lambda: c.launch(
    c.default_queue, k, (1, 1, 1), (2048, 1, 1), 0, [a]))).what)
assert (get(c, a, 256) == x).all()
"""
    )
    first, second = result.out.splitlines()
    assert first.startswith("ML443 the CUDA driver refused kernel k_reverse (grid (1, 1, 1), ")
    assert "block (2048, 1, 1)" in second
    assert "invalid argument" in second


def test_facts(on_fake: Run) -> None:
    result = on_fake(BEGIN + "print(kernels(opened(), SCALE)[0].facts)")
    assert result.out.strip() == "FunctionFacts(registers=24, shared_bytes=16, spill_bytes=4)"


def test_load_says_what_was_compiled(on_fake: Run) -> None:
    result = on_fake(
        BEGIN
        + """
import dataclasses
c = opened()
new = dataclasses.replace(SCALE, text=SCALE.text + f"// {__file__}")
for _ in range(2):
    loaded, = c.load([new])
    print(loaded.hit, loaded.why_miss, loaded.ms > 0)
print(c.call(lambda: c.load([new]))[0].function is loaded.function)  # the owner may load, too
"""
    )
    assert result.out.splitlines() == ["False new text True", "True None False", "True"]


# ---------------------------------------------------------------- streams and events


def test_queues_are_independent_until_told(on_fake: Run) -> None:
    on_fake(
        READY
        + """
one, two = c.call(c.queue), c.call(c.queue)
assert len({one.handle, two.handle, 0}) == 3 and c.default_queue.handle == 0
x = put(c, np.ones(8, np.float32), one)
c.call(one.synchronize)
launch = lambda q, a, b, by: c.call(
    lambda: c.launch(q, k, (1, 1, 1), (8, 1, 1), 0, [a, b, 8, by]))
launch(one, x, x, 5)
assert (get(c, x, 8, two) == 1).all()  # nothing said that two comes after one
mark = c.call(one.mark)
c.call(lambda: two.wait(mark))
launch(one, x, x, 7)  # behind the mark
assert (get(c, x, 8, two) == 5).all()
assert (get(c, x, 8, one) == 35).all()
"""
    )


def test_the_default_queue_waits_for_a_mark(on_fake: Run) -> None:
    on_fake(
        READY
        + """
q, d = c.call(c.queue), c.default_queue
x = put(c, np.ones(8, np.float32)); c.call(d.synchronize)
c.call(lambda: c.launch(q, k, (1, 1, 1), (8, 1, 1), 0, [x, x, 8, 5]))
c.call(lambda: d.wait(q.mark()))
assert (get(c, x, 8) == 5).all()
c.call(lambda: c.launch(d, k, (1, 1, 1), (8, 1, 1), 0, [x, x, 8, 2]))
c.call(lambda: q.wait(d.mark()))
assert (get(c, x, 8, q) == 10).all()
"""
    )


def test_streams_of_other_libraries(on_fake: Run) -> None:
    on_fake(
        READY
        + """
ours, theirs = c.call(c.queue), c.call(c.queue)
x = put(c, np.ones(8, np.float32)); c.call(c.default_queue.synchronize)
go = lambda q: c.call(lambda: c.launch(q, k, (1, 1, 1), (8, 1, 1), 0, [x, x, 8, 3]))
go(ours)
c.call(lambda: c.follow(theirs.handle, ours.mark()))
assert (get(c, x, 8, theirs) == 3).all()
go(theirs)
c.call(lambda: ours.wait(c.mark_stream(theirs.handle)))
assert (get(c, x, 8, ours) == 9).all()
"""
    )


def test_marks(on_fake: Run) -> None:
    on_fake(
        READY
        + """
x = put(c, np.ones(8, np.float32))
q = c.call(c.queue)
a = c.call(lambda: q.mark(timed=True))
for _ in range(3):
    c.call(lambda: c.launch(q, k, (1, 1, 1), (8, 1, 1), 0, [x, x, 8, 1]))
b = c.call(lambda: q.mark(timed=True))
assert c.call(b.done) is False
c.call(b.synchronize)
assert c.call(b.done) is True and c.call(a.done) is True
assert c.call(lambda: b.ms_since(a)) == 3.0  # the fake's kernels take 1 ms
plain = c.call(q.mark)
assert c.call(plain.done) is False
assert c.call(plain.done) is True
assert error_of(lambda: c.call(lambda: plain.ms_since(a))).code == "ML443"
assert c.counters.waits == 1
"""
    )


def test_events_are_used_again(on_fake: Run) -> None:
    result = on_fake(
        BEGIN
        + """
c = opened()
q = c.call(c.queue)
for number in range(50):
    mark = c.call(lambda: q.mark(timed=number % 2 == 0))
    c.call(mark.synchronize)
    del mark
print(len(c._all_events))
"""
    )
    assert int(result.out) <= 3
    assert result.report["events recorded"] == 50


def test_dropped_queues_finish_their_work(on_fake: Run) -> None:
    on_fake(
        READY
        + """
x = put(c, np.ones(8, np.float32)); c.call(c.default_queue.synchronize)
q = c.call(c.queue)
c.call(lambda: c.launch(q, k, (1, 1, 1), (8, 1, 1), 0, [x, x, 8, 5]))
del q
c.call(int)
assert not c._held.streams
assert (get(c, x, 8) == 5).all()
"""
    )


# ---------------------------------------------------------------- graphs


def test_recordings_replay(on_fake: Run) -> None:
    on_fake(
        READY
        + """
x, y = put(c, np.ones(8, np.float32)), put(c, np.zeros(8, np.float32))
def work(q):
    c.launch(q, k, (1, 1, 1), (8, 1, 1), 0, [x, y, 8, 2])
    c.fill(q, x, 0, 4)
    c.copy(q, x + 4, y + 4, 28)
c.call(c.default_queue.synchronize)
recording = c.record(work)
assert counted("kernels run") == 0
assert (get(c, x, 8) == 1).all()  # nothing ran
for times in (1, 2, 3):
    c.call(lambda: recording.launch(c.default_queue))
    assert (get(c, x, 8) == np.r_[0, np.full(7, 2.0**times)]).all()
assert c.counters.replays == counted("graph launches") == 3
q = c.call(c.queue)
c.call(lambda: recording.launch(q))
assert get(c, x, 8, q)[1] == 16
del recording
c.call(int)
assert not c._executables
"""
    )


def test_a_recording_that_fails_leaves_the_device_well(on_fake: Run) -> None:
    on_fake(
        READY
        + """
x = put(c, np.ones(8, np.float32))
def fails(q):
    c.launch(q, k, (1, 1, 1), (8, 1, 1), 0, [x, x, 8, 2])
    raise KeyError("mine")
try: c.record(fails)
except KeyError: pass
else: raise AssertionError
def waits(q):
    c.launch(q, k, (1, 1, 1), (8, 1, 1), 0, [x, x, 8, 2])
    q.synchronize()
assert error_of(lambda: c.record(waits)).code == "ML443"
def drops(q):  # a block that the collector frees in the middle of a recording
    spare = put_before.pop()
    c.release(spare)
    c.launch(q, k, (1, 1, 1), (8, 1, 1), 0, [x, x, 8, 2])
put_before = [c.call(lambda: c.allocate(64))]
recording = c.record(drops)
assert len(c._held.allocations) == 1
assert (get(c, x, 8) == 1).all()
c.call(lambda: recording.launch(c.default_queue))
assert (get(c, x, 8) == 2).all()
"""
    )


# ---------------------------------------------------------------- several threads and devices


def test_many_threads_share_a_device(on_fake: Run) -> None:
    on_fake(
        BEGIN
        + """
import threading
c = opened()
wrong = []
def work(number):
    try:
        k, = kernels(c, SCALE)  # whoever is first compiles
        q = c.call(c.queue)
        rng = np.random.default_rng(number)
        for step in range(20):
            n = int(rng.integers(1, 300))
            x = rng.normal(size=n).astype(np.float32)
            a, b = put(c, x, q), c.call(lambda: c.allocate(4 * n))
            c.call(lambda: c.launch(q, k, (2, 1, 1), (256, 1, 1), 0, [a, b, n, step]))
            if not (get(c, b, n, q) == x * np.float32(step)).all():
                wrong.append((number, step))
            c.later(lambda a=a: c.release(a))
            c.call(lambda: c.release(b))
    except BaseException as error:
        wrong.append(error)
threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong, wrong
assert c.counters.launches == counted("kernels run") == 120
c.call(int)
assert not c._held.allocations
"""
    )


def test_two_devices(on_fake: Run) -> None:
    on_fake(
        BEGIN
        + """
a, b = opened(0), opened(1)
k, m = kernels(a, SCALE)[0], kernels(b, SCALE)[0]
assert k is not m
x = put(a, np.ones(8, np.float32))
y = put(b, np.full(8, 2, np.float32)); b.call(b.default_queue.synchronize)
copy = lambda: a.call(lambda: a.copy(a.default_queue, x, y, 32))
assert error_of(copy).code == "ML443"  # not asked for yet
assert a.can_access(b) and a.can_access(b) and a.can_access(a)
assert a.call(lambda: a.can_access(b))
copy()
assert (get(a, x, 8) == 2).all()
q = b.call(b.queue)
b.call(lambda: b.launch(q, m, (1, 1, 1), (8, 1, 1), 0, [y, y, 8, 5]))
mark = b.call(q.mark)  # of another device
a.call(lambda: a.default_queue.wait(mark))
copy()
assert (get(a, x, 8) == 10).all()
assert not a.can_access(object())
""",
        devices=2,
    )


def test_devices_without_access(on_fake: Run) -> None:
    on_fake(
        BEGIN + "assert not opened(0).can_access(opened(1))",
        devices=2,
        peer=False,
    )


def test_peers_that_another_library_enabled(on_fake: Run) -> None:
    on_fake(
        BEGIN
        + """
import ctypes
a, b = opened(0), opened(1)
cuda = ctypes.CDLL("libcuda.so.1")
a.call(lambda: cuda.cuCtxEnablePeerAccess(ctypes.c_void_p(b.handle), 0))
assert a.can_access(b)
""",
        devices=2,
    )
