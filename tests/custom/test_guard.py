"""Guard mode: kernels of users run in a process of their own, and what they do wrong is an error
with a name, a place and a cause, not the end of the notebook."""

from __future__ import annotations

import functools
import gc
import os
import platform
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.dtype import DType
from maxlab.engine.stepping import Walk
from maxlab.errors import ArgumentError, ArgumentTypeError, DeviceError, ExecutionError, MaxlabError
from maxlab.graph import BufferType, DeviceRef, Graph, OpaqueType, TensorType, ops

CPU = DeviceRef.CPU()
ROOT = Path(__file__).resolve().parents[2]
HANG_S = 60
"""Seconds after which a process that should have ended long ago is stopped."""
KERNELS = """
// @op fine(x: float32[n]) -> (y: float32[n])
// @c
store(y, i, 2 * load(x, i) + 1);

// @op read_null(x: float32[n]) -> (y: float32[n])
// @c
f32 *volatile nowhere = 0;
store(y, i, load(x, i) + *nowhere);

// @op read_wild(x: float32[n]) -> (y: float32[n])
// @c
volatile u64 place = 0x5a5a5a5a5a5a5a5aull;
store(y, i, load(x, i) + *(f32 *)place);

// @op past_end(x: float32[n]) -> (y: float32[n])
// @c serial
store(y, i + 1, load(x, i));

// @op byte_before(x: float32[n]) -> (y: float32[n])
// @c serial
store(y, i, load(x, i));
((u8 *)y)[-1] = 7;

// @op read_far(x: float32[n]) -> (y: float32[n])
// @c
volatile i64 far = 1000;
store(y, i, load(x, i + far));

// @op write_far(x: float32[n]) -> (y: float32[n])
// @c serial
volatile i64 far = 5000;
store(y, i - far, load(x, i));

// @op write_operand(x: float32[n]) -> (y: float32[n])
// @c serial
((f32 *)x)[2] = 5;
store(y, i, load(x, i));

// @op leaves(x: float32[n]) -> (y: float32[n])
// @c
extern void exit(int);
exit(0);
store(y, i, load(x, i));

// @op aborts(x: float32[n]) -> (y: float32[n])
// @c
extern void abort(void);
abort();
store(y, i, load(x, i));

// @op spins(x: float32[n]) -> (y: float32[n])
// @c
for (volatile int go = 1; go;) {}
store(y, i, load(x, i));

// @op deep(x: float32[n]) -> (y: float32[n])
// @c serial
for (volatile int k = 0; k < 1 << 20; k++) ((volatile char *)__builtin_alloca(4096))[0] = 1;
store(y, i, load(x, i));

// @op divides(x: float32[n]) -> (y: float32[n])
// @c serial
volatile i32 zero = 0;
store(y, i, 7 / zero);

// @op pushed(inout kept: float32[n], x: float32[n]) -> ()
// @c serial
store(kept, i, load(kept, i) + load(x, i));

// @op pushed_badly(inout kept: float32[n], x: float32[n]) -> ()
// @c serial
store(kept, i, load(kept, i) + load(x, i));
if (i == n - 1) *(volatile i32 *)8 = 1;

// @op pushed_far(inout kept: float32[n], x: float32[n]) -> ()
// @c serial
store(kept, i, load(kept, i) + load(x, i));
store(kept, n, 3);

// @op asserted(x: float32[n]) -> (y: float32[n])
// @c
MX_ASSERT(load(x, i) < 3, "too large");
MX_LOG(INFO, "item %g", load(x, i));
store(y, i, load(x, i));

// @op counts(x: int64[]) -> (y: int64[])
// @c
static i64 calls;
store(y, 0, load(x, 0) + calls++);

// @op scratched(x: float32[n]) -> (y: float32[n])
// @c serial scratch=8*n
f64 *const s = (f64 *)scratch;
s[i] = load(x, i);
store(y, i, s[i] / 2);

// @op scratched_badly(x: float32[n]) -> (y: float32[n])
// @c serial scratch=8*n
f64 *const s = (f64 *)scratch;
s[i + 1] = load(x, i);
store(y, i, s[i + 1] / 2);

// @op twice(x: T[*shape]) -> (y: T[*shape])
// @types T: float64 | float32 | float16 | bfloat16 | int8 | uint8 | int16 | int32 | int64 | bool
// @c
store(y, i, load(x, i) + load(x, i));

// @op both(x: float32[n]) -> (y: float32[n], z: int32[])
// @c serial
if (i == 0) store(z, 0, n);
store(y, i, load(x, i) * 3);
"""
VECTOR = TensorType(DType.float32, ["n"])
X = np.arange(4, dtype=np.float32)


def one(name: str, type: TensorType = VECTOR, kernels: str = KERNELS) -> Graph:
    """The graph of one call of the op ``name``, from a tensor to one of the same type."""
    with Graph(name, input_types=[type], custom_extensions=kernels) as graph:
        graph.output(*ops.custom(name, CPU, [graph.inputs[0]], [type]))
    return graph


def own_session() -> engine.InferenceSession:
    """A session with a process of its own."""
    return engine.InferenceSession(num_threads=1)


@functools.cache
def session(threads: int = 1) -> engine.InferenceSession:
    """A session whose process many tests share."""
    return engine.InferenceSession(num_threads=threads)


def fails(run: Callable[[], Any]) -> MaxlabError:
    with pytest.raises(MaxlabError) as caught:
        run()
    return caught.value


# ---------------------------------------------------------------- what a kernel does wrong
SLOW_NOT = engine.Guard(seconds=0.5) if hasattr(engine, "Guard") else True
WRONG = {
    "read_null": ("ML771", ("SIGSEGV", "read", "0x0")),
    "read_wild": ("ML771", ("SIGSEGV",)),
    "past_end": ("ML772", ("wrote", "y", "element 4", "byte 16")),
    "byte_before": ("ML772", ("wrote", "y", "byte -1")),
    "read_far": ("ML771", ("SIGSEGV", "read", "x", "element 1000", "byte 4000")),
    "write_far": ("ML771", ("SIGSEGV", "wrote", "y", "element -5000", "byte -20000")),
    "write_operand": ("ML771", ("SIGSEGV", "wrote", "x", "element 2", "byte 8", "inout")),
    "leaves": ("ML771", ("exit(0)",)),
    "aborts": ("ML771", ("SIGABRT", "abort")),
    "spins": ("ML773", ("0.5 s",)),
    "deep": ("ML771", ("SIGSEGV", "stack")),
    "divides": ("ML771", ("SIGFPE", "divided by zero")),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_kernel_does_wrong_is_an_error(name: str) -> None:
    """It names the kernel, the argument, the place and the signal, at the user's line; the model
    and other models of the session run on."""
    if name == "divides" and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("this processor divides by zero without a signal")
    code, words = WRONG[name]
    bad = session(2).load(one(name), guard=SLOW_NOT)
    error = fails(lambda: bad(X))
    assert isinstance(error, ExecutionError)
    assert error.code == code, error
    assert error.what.startswith(f"{name}: ")
    for word in words:
        assert word in f"{error.what} {error.fix}", error
    assert error.at is not None
    assert "ops.custom(name" in error.at.text
    assert any("<kernels>" in why for why in error.why)
    assert fails(lambda: bad(X[:3])).code == code  # the model can be used again
    good = session(2).load(one("fine"), guard=True)
    assert good(X)[0].to_numpy().tolist() == [1, 3, 5, 7]


def test_an_error_leaves_the_arguments_of_the_caller_alone() -> None:
    for name in ("write_operand", "past_end", "byte_before"):
        x = X.copy()
        fails(lambda: session().load(one(name), guard=True)(x))  # noqa: B023
        assert x.tolist() == X.tolist()


# ---------------------------------------------------------------- healthy kernels
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "dtype",
    [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "int8",
        "uint8",
        "int16",
        "int32",
        "int64",
        "bool",
    ],
)
def test_results_are_bitwise_those_without_a_guard(dtype: str, threads: int) -> None:
    kind = DType[dtype]
    graph = one("twice", TensorType(kind, ["a", "b"]))
    plain, guarded = (session(threads).load(graph, guard=guard) for guard in (False, True))
    for shape in ((7, 3), (1, 1), (0, 3), (300, 301)):
        bits = np.random.default_rng(1).integers(0, 255, size=(*shape, kind.size_in_bytes))
        if kind is DType.bool:
            bits = bits % 2
        x = np.ascontiguousarray(bits.astype(np.uint8)).view(kind.ml_numpy).reshape(shape)
        want, got = (model(x)[0] for model in (plain, guarded))
        assert tuple(got.shape) == shape
        assert got.dtype is kind
        assert _bytes(got) == _bytes(want)


def _bytes(x: driver.Tensor) -> bytes:
    return bytes(x.view(DType.uint8).to_numpy()) if x.num_elements else b""


def test_rank_0_and_several_results() -> None:
    with Graph("both", input_types=[VECTOR], custom_extensions=KERNELS) as graph:
        graph.output(*ops.custom(
            "both", CPU, [graph.inputs[0]], [VECTOR, TensorType(DType.int32, [])]
        ))  # fmt: skip
    model = session().load(graph, guard=True)
    for n in (4, 0, 1):
        y, z = model(np.ones(n, np.float32))
        assert y.to_numpy().tolist() == [3] * n
        if n:
            assert z.item() == n


def test_a_view_that_is_aligned_to_its_elements_only() -> None:
    model = session().load(one("fine"), guard=True)
    base = np.arange(9, dtype=np.float32)
    assert model(base[1:])[0].to_numpy().tolist() == (2 * base[1:] + 1).tolist()


def test_symbolic_dims_of_several_sizes() -> None:
    model = session(2).load(one("fine"), guard=True)
    for n in (3, 100_000, 3, 17):
        x = np.arange(n, dtype=np.float32)
        assert (model(x)[0].to_numpy() == 2 * x + 1).all()


def test_scratch_memory_is_guarded_too() -> None:
    here = session()
    good, bad = (here.load(one(name), guard=True) for name in ("scratched", "scratched_badly"))
    assert good(X)[0].to_numpy().tolist() == [0, 0.5, 1, 1.5]
    error = fails(lambda: bad(X))
    assert error.code == "ML772"
    assert "byte 32 of its scratch memory" in error.what


def test_what_a_kernel_checks_itself_is_told_as_without_a_guard(caplog: Any) -> None:
    told = []
    for guard in (False, True):
        here = own_session()
        here.set_mojo_assert_level(engine.AssertLevel.ALL)
        here.set_mojo_log_level("info")
        model = here.load(one("asserted"), guard=guard)
        caplog.clear()
        with caplog.at_level(1, "maxlab.kernels"):
            error = fails(lambda: model(X))  # noqa: B023
            model(X[:2])
        told.append((error.code, error.what, [r.getMessage() for r in caplog.records]))
    assert told[0] == told[1]
    assert told[0][0] == "ML791"
    assert "asserted: item 1" in told[0][2]


# ---------------------------------------------------------------- buffers in place
def pushing(name: str) -> Graph:
    types = [BufferType(DType.float32, ["n"], CPU), VECTOR]
    with Graph(name, input_types=types, custom_extensions=KERNELS) as graph:
        kept, x = graph.inputs
        ops.inplace_custom(name, CPU, [kept.buffer, x.tensor], [])
        graph.output()
    return graph


def test_a_buffer_is_changed_when_the_kernel_has_ended_well() -> None:
    model = session().load(pushing("pushed"), guard=True)
    kept = np.ones(4, np.float32)
    model(kept, X)
    model(kept, X)
    assert kept.tolist() == [1, 3, 5, 7]


@pytest.mark.parametrize("name", ["pushed_badly", "pushed_far"])
def test_a_buffer_is_as_it_was_when_the_kernel_has_not(name: str) -> None:
    model = session().load(pushing(name), guard=True)
    kept = np.ones(4, np.float32)
    error = fails(lambda: model(kept, X))
    assert error.code == {"pushed_badly": "ML771", "pushed_far": "ML772"}[name]
    if name == "pushed_far":
        assert "kept" in error.what
        assert "element 4" in error.what
    assert kept.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_long_kernel_changes_each_element_once(threads: int) -> None:
    """The executor cuts long steps into pieces; a guarded one is one call."""
    types = [BufferType(DType.float32, ["n"], CPU), VECTOR]
    kernels = """
    // @op added(inout kept: float32[n], x: float32[n]) -> ()
    // @c work=1000000
    store(kept, i, load(kept, i) + load(x, i));
    """
    with Graph("added", input_types=types, custom_extensions=textwrap.dedent(kernels)) as graph:
        kept, x = graph.inputs
        ops.inplace_custom("added", CPU, [kept.buffer, x.tensor], [])
        graph.output()
    buffer = np.zeros(1000, np.float32)
    session(threads).load(graph, guard=True)(buffer, np.ones(1000, np.float32))
    assert (buffer == 1).all()


# ---------------------------------------------------------------- where kernels stand
def in_a_loop(name: str) -> Graph:
    """Calls the op ``name`` three times, in the body of a loop."""
    count = TensorType(DType.int64, [])
    with Graph("loop", input_types=[VECTOR], custom_extensions=KERNELS) as graph:
        begin = ops.constant(0, DType.int64, CPU)

        def body(at: Any, x: Any) -> Any:
            (y,) = ops.custom(name, CPU, [x], [VECTOR])
            return [at + 1, y]

        _, y = ops.while_loop([begin, graph.inputs[0]], lambda at, x: at < 3, body)
        graph.output(y)
    assert count is not None
    return graph


def test_in_the_body_of_a_loop() -> None:
    for threads in (1, 2):
        model = session(threads).load(in_a_loop("fine"), guard=True)
        assert model(X)[0].to_numpy().tolist() == (8 * X + 7).tolist()
    error = fails(lambda: session().load(in_a_loop("past_end"), guard=True)(X))
    assert error.code == "ML772"
    assert error.at is not None
    assert "ops.custom(name" in error.at.text


def test_in_branches_and_subgraphs() -> None:
    with Graph("main", input_types=[VECTOR], custom_extensions=KERNELS) as graph:
        part = graph.add_subgraph("part", input_types=[VECTOR], custom_extensions=KERNELS)
        with part:
            part.output(*ops.custom("fine", CPU, [part.inputs[0]], [VECTOR]))
        (x,) = ops.call(part, graph.inputs[0])
        (x,) = ops.call(part, x)
        flag = ops.shape_to_tensor([x.tensor.shape[0]]).reshape([]) > 2
        (y,) = ops.cond(
            flag,
            [VECTOR],
            lambda: ops.custom("fine", CPU, [x], [VECTOR]),
            lambda: ops.custom("past_end", CPU, [x], [VECTOR]),
        )
        graph.output(y)
    model = session().load(graph, guard=True)
    assert model(X)[0].to_numpy().tolist() == (8 * X + 7).tolist()
    assert fails(lambda: model(X[:2])).code == "ML772"
    assert model(X)[0].to_numpy().tolist() == (8 * X + 7).tolist()


def test_behind_dims_that_are_computed() -> None:
    with Graph("staged", input_types=[VECTOR], custom_extensions=KERNELS) as graph:
        hits = ops.nonzero(graph.inputs[0], "hits")
        found = ops.cast(ops.reshape(hits, ["hits"]), DType.float32)
        dense = TensorType(DType.float32, ["hits"])
        (good,) = ops.custom("fine", CPU, [found], [dense])
        graph.output(good, *ops.custom("past_end", CPU, [found], [dense]))
    model = session().load(graph, guard=True)
    error = fails(lambda: model(X))
    assert error.code == "ML772"
    assert "element 3" in error.what


def test_profile_compare_and_steps() -> None:
    library = maxlab.graph.KernelLibrary()
    library.add_source(KERNELS)
    library.reference("fine")(lambda x: 2 * x + 1)
    with Graph("seen", input_types=[VECTOR], custom_extensions=library) as graph:
        (y,) = ops.custom("fine", CPU, [graph.inputs[0]], [VECTOR])
        graph.output(ops.tanh(y))
    model = session(2).load(graph, guard=True)
    assert maxlab.compare(model, X).ok
    assert next(k.name for k in model.profile(X, runs=2, warmup=1).kernels) == "fine"
    assert next(step.name for step in Walk(model, [X])) == "fine"
    other = model.reload(num_threads=1)
    assert np.array_equal(other(X)[0].to_numpy(), model(X)[0].to_numpy())
    bad = session().load(one("past_end"), guard=True)
    assert fails(lambda: list(Walk(bad, [X]))).code == "ML772"
    assert fails(lambda: bad.profile(X)).code == "ML772"
    assert fails(lambda: bad.reload()(X)).code == "ML772"


# ---------------------------------------------------------------- the process
def children() -> set[int]:
    """The processes that this one has started and that have not ended."""
    found = subprocess.run(
        ["ps", "-o", "pid=,stat=,args=", "--ppid", str(os.getpid())],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    rows = [line.split(None, 2) for line in found.stdout.splitlines()]
    return {int(pid) for pid, stat, args in rows if "maxlab" in args and stat[0] != "Z"}


def wait_until(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + HANG_S
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_one_process_serves_a_session_and_ends_with_it() -> None:
    gc.collect()
    before = children()
    here = own_session()
    first, second = (here.load(one(name), guard=True) for name in ("fine", "twice"))
    assert children() == before  # it starts when it is needed
    for model in (first, second, first):
        model(X)
    (child,) = children() - before
    with pytest.raises(ExecutionError):
        here.load(one("aborts"), guard=True)(X)
    first(X)
    (other,) = children() - before
    assert other != child
    os.kill(other, signal.SIGKILL)  # somebody ends it while it waits
    assert wait_until(lambda: _can_be_reaped(other))
    assert first(X)[0].to_numpy().tolist() == [1, 3, 5, 7]
    del here, first, second, model
    gc.collect()
    assert wait_until(lambda: children() <= before)


def test_a_kernel_that_breaks_the_connection_is_an_error() -> None:
    """It writes to all open files of its process, and closes them."""
    kernels = """
    // @op closes(x: float32[n]) -> (y: float32[n])
    // @c serial
    extern long write(int, const void *, unsigned long);
    extern int close(int);
    for (int file = 3; i == 0 && file < 64; file++) {
      write(file, "{]\\n", 3);
      close(file);
    }
    store(y, i, load(x, i));
    """
    model = session().load(one("closes", kernels=textwrap.dedent(kernels)), guard=SLOW_NOT)
    assert fails(lambda: model(X)).code in ("ML771", "ML773")
    good = session().load(one("fine"), guard=True)
    assert good(X)[0].to_numpy().tolist() == [1, 3, 5, 7]


def test_memory_for_large_arguments_is_given_back() -> None:
    here = own_session()
    model = here.load(one("fine"), guard=True)
    x = np.ones(20_000_000, np.float32)
    for _ in range(2):
        assert (model(x)[0].to_numpy() == 3).all()
        assert model(X)[0].to_numpy().tolist() == [1, 3, 5, 7]
    (process,) = here.beside._found
    assert os.fstat(process.memory).st_blocks * 512 < 1 << 20


def test_a_graph_without_kernels_of_users_starts_no_process() -> None:
    gc.collect()
    before = children()
    with Graph("plain", input_types=[VECTOR]) as graph:
        graph.output(graph.inputs[0].tensor * 2)
    assert own_session().load(graph, guard=True)(X)[0].to_numpy().tolist() == [0, 2, 4, 6]
    assert children() == before


def test_what_a_kernel_keeps_in_static_memory_stays_from_run_to_run() -> None:
    number = TensorType(DType.int64, [])
    model = own_session().load(one("counts", number), guard=True)
    assert [model(10)[0].item() for _ in range(3)] == [10, 11, 12]


def test_threads_run_guarded_models_side_by_side() -> None:
    here = session(2)
    models = [here.load(one(name), guard=True) for name in ("fine", "twice", "past_end")]
    wrong: list[Any] = []

    def work(model: Any, name: str) -> None:
        for n in (5, 50, 500) * 4:
            x = np.arange(n, dtype=np.float32)
            try:
                got = model(x)[0].to_numpy()
                good = (got == (2 * x + (name == "fine"))).all() and name != "past_end"
            except ExecutionError as error:
                good = name == "past_end" and error.code == "ML772" and f"element {n}" in error.what
            if not good:
                wrong.append((name, n))

    names = ("fine", "twice", "past_end")
    threads = [threading.Thread(target=work, args=pair) for pair in zip(models, names, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    assert not wrong


PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
from maxlab import engine
from tests.custom.test_guard import children, one, own_session, wait_until, X

model = own_session().load(one("spins"), guard=engine.Guard(seconds=600))
good = own_session().load(one("fine"), guard=True)
good(X)
"""


def program(text: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + textwrap.dedent(text)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def test_an_interrupt_ends_the_kernel_and_is_raised() -> None:
    done = program(
        """
        before = children()
        def interrupt():
            wait_until(lambda: children() - before)
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        begin = time.monotonic()
        try:
            model(X)
        except KeyboardInterrupt:
            print("interrupted", wait_until(lambda: children() <= before), flush=True)
        print(good(X)[0].to_numpy().tolist())
        """
    )
    try:
        said, _ = done.communicate(timeout=HANG_S)
    finally:
        done.kill()
    assert said.splitlines() == ["interrupted True", "[1.0, 3.0, 5.0, 7.0]"]


def test_no_process_is_left_behind_when_the_caller_is_killed() -> None:
    done = program(
        """
        before = children()
        def tell():
            wait_until(lambda: children() - before)
            time.sleep(0.3)
            print(*children(), flush=True)
        threading.Thread(target=tell).start()
        model(X)
        """
    )
    assert done.stdout is not None
    with done.stdout:
        try:
            pids = [int(word) for word in done.stdout.readline().split()]
        finally:
            done.kill()
            done.wait()
    assert len(pids) == 2
    assert wait_until(lambda: not any(_alive(pid) for pid in pids))


def _can_be_reaped(pid: int) -> bool:
    """Whether all threads of a child have ended: it is a zombie before."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_fork_of_the_caller_gets_a_process_of_its_own() -> None:
    done = program(
        """
        pid = os.fork()
        assert good(X)[0].to_numpy().tolist() == [1, 3, 5, 7]
        if not pid:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert good(X)[0].to_numpy().tolist() == [1, 3, 5, 7]
        print("fine")
        """
    )
    try:
        said, _ = done.communicate(timeout=HANG_S)
    finally:
        done.kill()
    assert said == "fine\n"


# ---------------------------------------------------------------- what is not guarded
def test_handles_are_refused() -> None:
    kernels = """
    // @opaque cell
    typedef struct { i64 at; } cell;

    // @op cell_new() -> (c: cell)
    // @c
    c = calloc(1, sizeof *c);
    """
    with Graph("new", custom_extensions=textwrap.dedent(kernels)) as graph:
        graph.output(*ops.custom("cell_new", CPU, [], [OpaqueType("cell")]))
    error = fails(lambda: session().load(graph, guard=True))
    assert error.code == "ML774"
    assert "cell_new" in error.what
    assert error.at is not None
    assert error.fix


def test_kernels_of_gpus_are_refused() -> None:
    kernels = """
    // @op half(x: float32[n]) -> (y: float32[n])
    // @both
    store(y, i, load(x, i) / 2);
    """
    with driver.simulated():
        gpu = DeviceRef.GPU()
        there = TensorType(DType.float32, ["n"], gpu)
        with Graph("gpu", input_types=[there], custom_extensions=textwrap.dedent(kernels)) as graph:
            graph.output(*ops.custom("half", gpu, [graph.inputs[0]], [there]))
        here = engine.InferenceSession(devices=[driver.Accelerator()])
        error = fails(lambda: here.load(graph, guard=True))
        assert isinstance(error, DeviceError)
        assert error.code == "ML774"
        assert error.fix is not None
        assert "check=True" in error.fix


def test_a_kernel_of_the_cpu_beside_a_gpu_is_guarded() -> None:
    with driver.simulated():
        gpu = DeviceRef.GPU()
        with Graph("mixed", input_types=[VECTOR], custom_extensions=KERNELS) as graph:
            (y,) = ops.custom("past_end", CPU, [graph.inputs[0]], [VECTOR])
            graph.output(ops.transfer_to(y, gpu))
        here = engine.InferenceSession(devices=[driver.Accelerator()])
        assert fails(lambda: here.load(graph, guard=True)(X)).code == "ML772"


@pytest.mark.parametrize(
    ("given", "kind"),
    [("yes", ArgumentTypeError), (3, ArgumentTypeError)],
)
def test_a_wrong_guard_is_refused(given: Any, kind: type[MaxlabError]) -> None:
    error = fails(lambda: session().load(one("fine"), guard=given))
    assert isinstance(error, kind)
    assert error.code == "ML775"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "1", True, None])
def test_a_wrong_time_limit_is_refused(seconds: Any) -> None:
    error = fails(lambda: engine.Guard(seconds=seconds))
    assert isinstance(error, ArgumentError | ArgumentTypeError)
    assert error.code == "ML775"


def test_endless_recursion_ends_where_the_stack_has_no_limit() -> None:
    """What the user's shell allows is not what a kernel may take."""
    command = "ulimit -s unlimited && exec "
    command += f"{shlex.quote(sys.executable)} -m tests.hostile custom_kernels:14:15"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
