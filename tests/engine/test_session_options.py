"""The settings of a session: each changes what is generated, or the run, on both targets."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine, trace
from maxlab.compiler import Options
from maxlab.compiler.passes.split import parts_of
from maxlab.dtype import DType
from maxlab.engine import AssertLevel, GPUProfilingMode, LogLevel, SplitKReductionPrecision
from maxlab.engine.kernel_log import ROOM, logger
from maxlab.errors import ExecutionError, MaxlabError
from maxlab.graph import DeviceRef, Graph, KernelLibrary, TensorType, ops
from maxlab.toolchain import nvtx
from tests.cpu_and_gpu import session

Array = np.ndarray[Any, Any]
CPU, GPU = DeviceRef.CPU(), DeviceRef.GPU()
F32 = DType.float32
TALK = """
// @op talk(x: float32[n]) -> (y: float32[n])
// @both
MX_LOG(TRACE, "at %d", i);
MX_LOG(DEBUG, "%d of %d: %.2f, 100%%", (int)i, n,
       load(x, i));
MX_LOG(INFO, "twice " "%g and %x", 2 * load(x, i), 255u);
MX_LOG(WARNING, "careful");
MX_LOG(ERROR, "wrong %5.1f|", load(x, i));
MX_LOG(CRITICAL, "over, \\"all\\" of it");
MX_ASSERT(load(x, i) < 90, "more than 90% is too much");
store(y, i, load(x, i) + 1);
"""
SAID = {
    "TRACE": "talk: at {i}",
    "DEBUG": "talk: {i} of 2: {x:.2f}, 100%",
    "INFO": "talk: twice {x2:g} and ff",
    "WARNING": "talk: careful",
    "ERROR": "talk: wrong {x:5.1f}|",
    "CRITICAL": 'talk: over, "all" of it',
}


def run(model: engine.Model, place: DeviceRef, *arrays: Array) -> list[Array]:
    given = [driver.Tensor.from_numpy(x) for x in arrays]
    if place.is_gpu():
        given = [x.to(driver.Accelerator()) for x in given]
    made = [np.array(y.to(driver.CPU()).to_ml_numpy()) for y in model(*given)]
    if place.is_gpu():
        driver.Accelerator().synchronize()
    return made


def floats(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def graph_of(types: list[TensorType], write: Callable[..., Any], libraries: Any = ()) -> Graph:
    with Graph("g", input_types=types, custom_extensions=libraries) as graph:
        made = write(*(v.tensor for v in graph.inputs))
        graph.output(*(made if isinstance(made, (list, tuple)) else [made]))
    return graph


def talking(place: DeviceRef, text: str = TALK, name: str = "talk") -> Graph:
    vector = TensorType(F32, ["n"], place)
    return graph_of([vector], lambda x: ops.custom(name, place, [x], [vector]), [text])


def sources(model: engine.Model) -> str:
    return "\n".join(kernel.source for kernel in model.kernels.values())


# ---------------------------------------------------------------- messages
@pytest.mark.parametrize("level", list(LogLevel), ids=lambda level: level.value)
def test_messages_from_a_level_on(
    place: DeviceRef, level: LogLevel, caplog: pytest.LogCaptureFixture
) -> None:
    from_here = session(place)
    from_here.set_mojo_log_level(level)
    model = from_here.load(talking(place))
    np.testing.assert_array_equal(run(model, place, floats(3, 4.5))[0], [4, 5.5])
    levels = list(SAID)
    kept = levels[levels.index(level.name) :] if level is not LogLevel.NOTSET else []
    wanted = [
        (name, SAID[name].format(i=i, x=x, x2=2 * x))
        for i, x in enumerate((3.0, 4.5))
        for name in kept
    ]
    if level is LogLevel.TRACE:
        wanted.insert(0, ("TRACE", "k0 talk: items 0 to 2"))
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == wanted
    assert {r.name for r in caplog.records} <= {"maxlab.kernels"}
    assert sources(model).count("mx_log(") == len(kept) + (level is LogLevel.TRACE)
    assert caplog.records == [] or model.options.log_level == level.value


def test_levels_are_in_the_code_that_is_cached(place: DeviceRef) -> None:
    found = {}
    for level in ("notset", "warning", "error", "info"):
        from_here = session(place)
        from_here.set_mojo_log_level(level.upper())
        found[level] = from_here.load(talking(place)).kernels["k0"].symbol
    assert len(set(found.values())) == 4
    quiet = TALK[: TALK.index("MX_LOG")] + "store(y, i, load(x, i) + 1);\n"
    symbols = set()
    for level in ("notset", "info"):  # what has no messages is compiled once
        from_here = session(place)
        from_here.set_mojo_log_level(level)
        symbols.add(from_here.load(talking(place, quiet)).kernels["k0"].symbol)
    assert len(symbols) == 1


def test_generated_kernels_say_when_they_begin(
    place: DeviceRef, caplog: pytest.LogCaptureFixture
) -> None:
    types = [TensorType(F32, ["n", 64], place), TensorType(F32, [64, 32], place)]
    graph = graph_of(types, lambda x, w: [ops.softmax(x @ w), ops.sum(x, 0), ops.max(x)])
    from_here = session(place, threads=1)
    from_here.set_mojo_log_level("trace")
    model = from_here.load(graph)
    run(model, place, np.ones((3, 64), np.float32), np.ones((64, 32), np.float32))
    ids = [record.getMessage().split()[0] for record in caplog.records]
    assert ids == [step.id for step in model.plan.steps if step.printed is not None]


WORK = """
// @op some(x: int32[n]) -> (y: int32[n])
// @work 5000
// @both
y[i] = x[i];
if (i % 37 == 5) MX_LOG(INFO, "item %d", i);
if (i % 74 == 5) MX_LOG(INFO, "again %d", -i);
"""


def test_messages_are_in_the_order_of_items(
    place: DeviceRef, caplog: pytest.LogCaptureFixture
) -> None:
    vector = TensorType(DType.int32, ["n"], place)

    def write(x: Any) -> Any:
        (y,) = ops.custom("some", place, [x], [vector])
        return ops.custom("some", place, [y], [vector])

    from_here = session(place, threads=4)
    from_here.set_mojo_log_level("info")
    model = from_here.load(graph_of([vector], write, [WORK]))
    once = []
    for i in range(5, 2000, 37):
        once.append(f"some: item {i}")
        once += [f"some: again {-i}"] * (i % 74 == 5)
    for _ in range(3):
        caplog.clear()
        run(model, place, np.zeros(2000, np.int32))
        assert [r.getMessage() for r in caplog.records] == [*once, *once]


def test_what_has_no_room_is_counted(place: DeviceRef, caplog: pytest.LogCaptureFixture) -> None:
    text = "// @op many(x: float32[n]) -> (y: float32[n])\n// @both\n"
    text += 'y[i] = x[i];\nMX_LOG(INFO, "%d", i);\n'
    from_here = session(place)
    from_here.set_mojo_log_level("info")
    model = from_here.load(talking(place, text, "many"))
    for _ in range(2):
        caplog.clear()
        run(model, place, np.zeros(ROOM + 77, np.float32))
        assert len(caplog.records) == ROOM + 1
        assert caplog.records[-1].getMessage() == "many: 77 more messages were lost"


def test_messages_stand_before_what_is_printed_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    order: list[str] = []

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            order.append(record.getMessage())

    class Out:
        def write(self, text: str) -> None:
            order.append(text.strip())

    vector = TensorType(F32, ["n"])

    def write(x: Any) -> Any:
        (y,) = ops.custom("talk", CPU, [x], [vector])
        ops.print(y.tensor, "y")
        (z,) = ops.custom("talk", CPU, [y], [vector])
        return z

    from_here = session(CPU)
    from_here.set_mojo_log_level("critical")
    model = from_here.load(graph_of([vector], write, [TALK]))
    heard = Heard()
    logger().addHandler(heard)
    monkeypatch.setattr(sys, "stdout", Out())
    try:
        model(floats(1))
    finally:
        logger().removeHandler(heard)
    over = 'talk: over, "all" of it'
    assert order == [over, "y = tensor([2.], dtype=float32, shape=[1])", over]


def test_threads_do_not_mix_their_messages(caplog: pytest.LogCaptureFixture) -> None:
    text = "// @op tell(x: float32[n]) -> (y: float32[n])\n// @both\n"
    text += 'MX_LOG(INFO, "%g", load(x, i)); y[i] = x[i];\n'
    from_here = session(CPU)
    from_here.set_mojo_log_level("info")
    model = from_here.load(talking(CPU, text, "tell"))

    def work(number: int) -> None:
        for _ in range(20):
            model(np.full(50, number, np.float32))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3 * 20 * 50
    assert all(len(set(said[n : n + 50])) == 1 for n in range(0, len(said), 50))


def test_without_logging_messages_go_to_stderr(tmp_path: Path) -> None:
    program = f"""
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

vector = TensorType(DType.float32, ["n"])
with Graph("g", input_types=[vector], custom_extensions=[{TALK!r}]) as graph:
    graph.output(*ops.custom("talk", DeviceRef.CPU(), [graph.inputs[0]], [vector]))
session = engine.InferenceSession()
session.set_mojo_log_level("warning")
session.load(graph)(np.ones(1, np.float32))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    wanted = ["WARNING talk: careful", "ERROR talk: wrong   1.0|"]
    assert done.stderr.splitlines() == [*wanted, 'CRITICAL talk: over, "all" of it']


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('MX_LOG(LOUD, "x");', "takes a level"),
        ("MX_LOG(INFO);", "takes a level"),
        ("MX_LOG(INFO, x);", "takes a level"),
        ('MX_LOG(INFO, "%d");', "1 values, and 0 are given"),
        ('MX_LOG(INFO, "x", i);', "0 values, and 1 are given"),
        ('MX_LOG(INFO, "%s", i);', "that is no number"),
        ('MX_LOG(INFO, "%d%d%d%d%d%d%d", i, i, i, i, i, i, i);', "at most 6"),
        ('MX_LOG(INFO, "100%");', "that is no number"),
        ("MX_LOG", "has no \\("),
        ("MX_ASSERT(i > 0);", "takes a condition"),
        ("MX_ASSERT(i > 0, i);", "takes a condition"),
        ('MX_ASSERT(, "x");', "takes a condition"),
    ],
)
def test_notes_that_cannot_be_read(line: str, match: str) -> None:
    text = f"// @op f(x: float32[n]) -> (y: float32[n])\n// @both\ny[i] = 0;\n  {line}\n"
    with pytest.raises(ValueError, match=match) as caught:
        KernelLibrary().add_source(text, "lib.c", 10)
    assert isinstance(caught.value, MaxlabError)
    assert caught.value.code == "ML761"
    assert caught.value.at is not None
    assert (caught.value.at.file, caught.value.at.line) == ("lib.c", 13)


def test_a_note_in_a_comment_is_none() -> None:
    text = "// @op f(x: float32[n]) -> (y: float32[n])\n// @both\ny[i] = 0;  // no MX_LOG here\n"
    (made,) = KernelLibrary().add_source(text)
    assert made.name == "f"


# ---------------------------------------------------------------- assertions
@pytest.mark.parametrize("level", list(AssertLevel), ids=lambda level: level.value)
def test_assertions_of_users(
    place: DeviceRef, level: AssertLevel, caplog: pytest.LogCaptureFixture
) -> None:
    from_here = session(place)
    from_here.set_mojo_assert_level(level)
    model = from_here.load(talking(place))
    run(model, place, floats(1, 2, 3))
    assert caplog.records == []
    words = "the assertion of <kernels>:11 does not hold for the item 1: more than 90% is too much"
    if level is AssertLevel.ALL:
        with pytest.raises(ExecutionError, match=re.escape(words)) as caught:
            run(model, place, floats(1, 91, 3))
        assert caught.value.code == "ML791"
        assert caught.value.at is not None
        run(model, place, floats(1, 2))  # the next run is a new one
    else:
        np.testing.assert_array_equal(run(model, place, floats(1, 91, 3))[0], [2, 92, 4])
    said = [(r.levelname, r.getMessage()) for r in caplog.records]
    assert said == ([("WARNING", f"talk: {words}")] if level is AssertLevel.WARN else [])
    has = "<kernels>:11" if level in (AssertLevel.NONE, AssertLevel.SAFE) else None
    assert has is None or ("mx_assert" not in sources(model) and "mx_log" not in sources(model))


def rows(place: DeviceRef) -> Graph:
    types = [TensorType(F32, ["m", 2], place), TensorType(DType.int64, ["n"], place)]
    return graph_of(types, lambda x, i: ops.gather(x, i, 0) * 2)


def scattered(place: DeviceRef) -> Graph:
    types = [TensorType(F32, ["m"], place), TensorType(DType.int64, ["n"], place)]
    return graph_of(types, lambda x, i: ops.scatter(x, ops.cast(i, F32), i, 0))


@pytest.mark.parametrize("make", [rows, scattered], ids=["generated", "own"])
@pytest.mark.parametrize("level", list(AssertLevel), ids=lambda level: level.value)
def test_indices(
    place: DeviceRef,
    make: Callable[[DeviceRef], Graph],
    level: AssertLevel,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from_here = session(place)
    from_here.set_mojo_assert_level(level.value)
    model = from_here.load(make(place))
    shape = (4, 2) if make is rows else (4,)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    good, bad = np.array([1, -1]), np.array([2, 4])

    def wanted(index: Array) -> Array:
        if make is rows:
            return x[index] * 2
        made = x.copy()
        made[index] = index
        return made

    np.testing.assert_array_equal(run(model, place, x, good)[0], wanted(good))
    assert caplog.records == []
    text = sources(model)
    if level is AssertLevel.NONE:  # nothing is tested, so nothing is tried
        assert "mx_fault" not in text
        assert "return 1;" not in text
        assert "mx_log" not in text
        return
    if level is AssertLevel.WARN:
        (y,) = run(model, place, x, bad)
        expected = wanted(np.array([2, 0]))
        if make is scattered:
            expected = x.copy()
            expected[[2, 0]] = [2, 4]
        np.testing.assert_array_equal(y, expected)
        assert caplog.records
        assert {r.levelname for r in caplog.records} == {"WARNING"}
        assert "the index 4 is out of range for a dim of size 4" in caplog.records[0].getMessage()
        return
    with pytest.raises(ExecutionError, match="the index 4 is out of range") as caught:
        run(model, place, x, bad)
    assert caught.value.code == "ML652"


def test_none_reads_where_the_index_points() -> None:
    """Without a test, an index beyond the end is one into the memory behind it."""
    from_here = session(CPU)
    from_here.set_mojo_assert_level(AssertLevel.NONE)
    memory = np.arange(40, dtype=np.float32).reshape(20, 2)
    model = from_here.load(rows(CPU))
    np.testing.assert_array_equal(run(model, CPU, memory[4:8], np.array([5]))[0], [memory[9] * 2])


NANS: list[tuple[str, Callable[[Any], Any]]] = [
    ("map", lambda x: ops.log(x - 2) * 2),
    ("row", lambda x: ops.softmax(ops.log(x - 2))),
    ("row result", lambda x: ops.sum(ops.log(x - 2), 1)),
    ("column", lambda x: ops.sum(ops.log(x - 2), 0)),
    ("product", lambda x: ops.log((x @ ops.transpose(x, 0, 1)) - 31) + 1),
    ("batched", lambda x: ops.log(ops.unsqueeze(x, 0) @ ops.unsqueeze(x, 0) - 31) + 1),
    ("plain", lambda x: ops.exp(-x) @ ops.relu(x - 100)),
    ("plain batched", lambda x: ops.unsqueeze(ops.exp(-x), 0) @ ops.unsqueeze(ops.relu(x - 9), 0)),
    ("concat", lambda x: ops.concat([x, ops.log(x - 2)])),
]


@pytest.mark.parametrize(("name", "write"), NANS)
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("level", list(AssertLevel), ids=lambda level: level.value)
def test_results_that_are_nan(
    place: DeviceRef,
    level: AssertLevel,
    name: str,
    write: Any,
    kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    dtype = DType[kind]
    from_here = session(place)
    from_here.set_mojo_assert_level(level)
    model = from_here.load(graph_of([TensorType(dtype, [8, 8], place)], write))
    x = np.full((8, 8), 4, dtype.ml_numpy)
    (y,) = run_bits(model, place, x)
    assert not np.isnan(y.astype(np.float32)).any()
    assert caplog.records == []
    x[1, 1] = -300
    if level is AssertLevel.ALL:
        with pytest.raises(ExecutionError, match="is NaN") as caught:
            run_bits(model, place, x)
        assert caught.value.code == "ML792"
        assert caught.value.at is not None
        return
    (y,) = run_bits(model, place, x)
    assert np.isnan(y.astype(np.float32)).any()
    said = [record.getMessage() for record in caplog.records]
    assert bool(said) == (level is AssertLevel.WARN)
    assert all("is NaN" in line for line in said)


def run_bits(model: engine.Model, place: DeviceRef, x: Array) -> list[Array]:
    """The outputs for an array of any type."""
    if x.dtype == np.float32:
        return run(model, place, x)
    given = driver.Tensor.from_numpy(x.view(np.uint16)).view(DType.bfloat16)
    if place.is_gpu():
        given = given.to(driver.Accelerator())
    made = [np.array(y.to(driver.CPU()).to_ml_numpy()) for y in model(given)]
    if place.is_gpu():
        driver.Accelerator().synchronize()
    return made


def test_reload_keeps_the_settings_of_the_session() -> None:
    from_here = session(CPU)
    from_here.set_mojo_log_level("error")
    from_here.set_mojo_assert_level("all")
    model = from_here.load(talking(CPU))
    assert str(model.options) == "log_level=error, assert_level=all"
    assert model.reload().options == model.options
    other = model.reload(options=Options(fuse=False))
    assert str(other.options) == "fuse=False, log_level=error, assert_level=all"
    own = from_here.load(talking(CPU), options=Options(log_level="info"))
    assert own.options.log_level == "info"  # what is said of one model stands before


# ---------------------------------------------------------------- products in parts
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 4096), (4096, 5)),
    ((2, 3, 2048), (2048, 4)),
    ((2, 2, 3072), (2, 3072, 4)),
]


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_partial_sums_are_rounded(
    place: DeviceRef, kind: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    dtype = DType[kind]
    rng = np.random.default_rng(5)
    # Numbers whose products and sums are exact in float32, so that only the rounding is left.
    x = rng.integers(-8, 9, left).astype(dtype.ml_numpy)
    y = rng.integers(-8, 9, right).astype(dtype.ml_numpy)
    types = [TensorType(dtype, ["n", *left[1:]], place), TensorType(dtype, right, place)]
    if len(right) == 3:
        types[0] = TensorType(dtype, left, place)
    graph = graph_of(types, lambda a, b: a @ b)
    found, texts = {}, {}
    for precision in SplitKReductionPrecision:
        from_here = session(place)
        from_here.set_split_k_reduction_precision(precision.value.lower())
        model = from_here.load(graph)
        given = [driver.Tensor.from_numpy(a.view(np.uint16)).view(dtype) for a in (x, y)]
        if place.is_gpu():
            given = [t.to(driver.Accelerator()) for t in given]
        found[precision] = np.array(model(*given)[0].to(driver.CPU()).to_ml_numpy())
        texts[precision] = sources(model)
    wide_x, wide_y = x.astype(np.float32), y.astype(np.float32)
    exact = wide_x @ wide_y
    parts = parts_of(left[-1])
    step = left[-1] // parts
    rounded = np.zeros_like(exact)
    for n in range(parts):
        cut = slice(n * step, (n + 1) * step)
        partial = wide_x[..., cut] @ wide_y[..., cut, :]
        rounded += partial.astype(dtype.ml_numpy).astype(np.float32)
    accum, output = SplitKReductionPrecision.ACCUM, SplitKReductionPrecision.OUTPUT
    np.testing.assert_array_equal(found[accum], exact.astype(dtype.ml_numpy))
    np.testing.assert_array_equal(found[output], rounded.astype(dtype.ml_numpy))
    assert texts[accum] != texts[output]
    assert kind == "float16" or (found[accum] != found[output]).any()


@pytest.mark.parametrize(
    ("dtype", "depth"), [(F32, 4096), (DType.float16, 1024), (DType.float16, "k")]
)
def test_other_products_stay_whole(dtype: DType, depth: Any) -> None:
    types = [TensorType(dtype, ["n", depth]), TensorType(dtype, [depth, 4])]
    graph = graph_of(types, lambda a, b: a @ b)
    texts = []
    for precision in ("accum", "output"):
        from_here = session(CPU)
        from_here.set_split_k_reduction_precision(precision)
        texts.append(sources(from_here.load(graph)))
    assert texts[0] == texts[1]


# ---------------------------------------------------------------- top_k
@pytest.mark.parametrize("kind", ["float32", "float16", "int64", "uint8"])
@pytest.mark.parametrize(("shape", "k"), [((3, 70), 9), ((2, 700), 200), ((4, 1), 1), ((2, 5), 0)])
def test_both_top_k_kernels(place: DeviceRef, kind: str, shape: tuple[int, int], k: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 40, shape).astype(kind)
    if kind.startswith("float"):
        x[0, 0] = np.nan
        x[-1, -1] = -np.inf
    graph = graph_of([TensorType(DType[kind], ["n", "m"], place)], lambda v: ops.top_k(v, k))
    made, texts = [], []
    for mode in ("OFF", "on"):
        from_here = session(place)
        from_here.use_old_top_k_kernel(mode)
        model = from_here.load(graph)
        made.append(run(model, place, x))
        texts.append(sources(model))
    for new, old in zip(*made, strict=True):
        np.testing.assert_array_equal(new, old)
    wide = np.where(np.isnan(x.astype(np.float64)), np.inf, x.astype(np.float64))
    order = np.argsort(-wide, axis=-1, kind="stable")[:, :k]
    np.testing.assert_array_equal(made[1][1], order)
    assert (texts[0] != texts[1]) == bool(k)


@pytest.mark.parametrize(
    ("mode", "old"),
    [("false", False), ("Off", False), ("no", False), ("0", False), ("true", True), ("", True)],
)
def test_words_for_the_old_top_k_kernel(mode: str, old: bool) -> None:
    from_here = session(CPU)
    from_here.use_old_top_k_kernel("yes")
    from_here.use_old_top_k_kernel(mode)
    model = from_here.load(graph_of([TensorType(F32, [4])], lambda x: ops.top_k(x, 2)))
    assert model.options.old_top_k is old


# ---------------------------------------------------------------- profiling of GPUs
FAKE_NVTX = """
#include <stdio.h>
static FILE *out(void) { static FILE *f; if (!f) f = fopen(PATH, "w"); return f; }
int nvtxRangePushA(const char *s) { fprintf(out(), "+%s\\n", s); fflush(out()); return 0; }
int nvtxRangePop(void) { fprintf(out(), "-\\n"); fflush(out()); return 0; }
"""


@pytest.fixture
def ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a library that takes the place of NVIDIA's writes down ranges."""
    source, written = tmp_path / "nvtx.c", tmp_path / "ranges.txt"
    source.write_text(FAKE_NVTX)
    library = tmp_path / "libnvToolsExt.so.1"
    define = f'-DPATH="{written}"'
    subprocess.run(["cc", "-shared", "-fPIC", define, source, "-o", library], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    nvtx.library.cache_clear()
    yield written
    nvtx.library.cache_clear()


@pytest.mark.parametrize("mode", list(GPUProfilingMode), ids=lambda mode: mode.value)
def test_gpu_profiling(mode: GPUProfilingMode, ranges: Path) -> None:
    matrix = TensorType(F32, ["n", 64], GPU)
    graph = graph_of([matrix], lambda x: ops.softmax(x @ ops.transpose(x, 0, 1)) + 1)
    with driver.simulated():
        from_here = session(GPU)
        from_here.gpu_profiling(mode)
        model: Any = from_here.load(graph)
        trace.recorder().clear()
        for _ in range(3):
            run(model, GPU, np.ones((5, 64), np.float32))
        assert model.gpu_profiling == mode.value
        assert model.reload().gpu_profiling == mode.value
    runs, events = model.gpu_runs, trace.recorder().events("gpu")
    said = ranges.read_text().splitlines() if ranges.exists() else []
    if mode is GPUProfilingMode.OFF:
        assert (runs, events, said) == ([], [], [])
        return
    assert [r.model for r in runs] == ["g"] * 3
    assert all(r.dur_ns > 0 and list(r.device_ns) == ["gpu:0"] for r in runs)
    ids = [step.id for step in model.plan.steps]
    if mode is GPUProfilingMode.ON:
        assert all(r.steps == () for r in runs)
        assert len(events) == 3
        assert said == ["+g", "-"] * 3
        return
    for one in runs:
        assert [s.id for s in one.steps] == ids
        assert all(s.device == "gpu:0" and s.dur_ns >= 0 for s in one.steps)
        assert sum(s.dur_ns for s in one.steps) <= one.device_ns["gpu:0"] + 1000
    assert len(events) == 3 * (1 + len(ids))
    names = [f"+{step.id} {step.name}" for step in model.plan.steps]
    assert said == ["+g", *(line for name in names for line in (name, "-")), "-"] * 3


def test_ranges_end_where_a_launch_does_not(ranges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each range that a run began has ended, and the next run is recorded as ever."""
    graph = graph_of([TensorType(F32, ["n"], GPU)], lambda x: ops.cumsum(ops.softmax(x)))
    with driver.simulated():
        from_here = session(GPU)
        from_here.gpu_profiling(GPUProfilingMode.DETAILED)
        model: Any = from_here.load(graph)
        context = driver.Accelerator().context

        def ended(*args: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(type(context), "launch", ended)
        with pytest.raises(KeyboardInterrupt):
            run(model, GPU, np.ones(5, np.float32))
        monkeypatch.undo()
        assert model.gpu_runs == []
        signs = [line[0] for line in ranges.read_text().splitlines()]
        assert signs.count("+") == signs.count("-") >= 2
        run(model, GPU, np.ones(5, np.float32))
    (one,) = model.gpu_runs
    assert [s.id for s in one.steps] == [step.id for step in model.plan.steps]


def test_models_of_the_cpu_have_no_gpu_to_record() -> None:
    from_here = session(CPU)
    from_here.gpu_profiling(GPUProfilingMode.DETAILED)
    model = from_here.load(talking(CPU))
    model(floats(1))
    assert model.gpu_profiling == "off"


# ---------------------------------------------------------------- arguments
@pytest.mark.parametrize(
    "wrong",
    [
        lambda s: s.set_mojo_log_level("loud"),
        lambda s: s.set_mojo_log_level(10),
        lambda s: s.set_mojo_assert_level("most"),
        lambda s: s.set_mojo_assert_level(None),
        lambda s: s.set_split_k_reduction_precision("FLOAT"),
        lambda s: s.set_split_k_reduction_precision(DType.float32),
        lambda s: s.use_old_top_k_kernel(True),
        lambda s: s.gpu_profiling("very"),
        lambda s: s.gpu_profiling(LogLevel.INFO),
    ],
)
def test_what_is_no_setting(wrong: Any) -> None:
    from_here = session(CPU)
    with pytest.raises(TypeError) as caught:
        wrong(from_here)
    assert isinstance(caught.value, MaxlabError)
    assert caught.value.code == "ML622"
    assert from_here.load(talking(CPU)).options.is_default


@pytest.mark.parametrize("field", ["log_level", "assert_level", "split_k", "old_top_k"])
def test_options_of_other_types(field: str) -> None:
    wrong: Any = {field: "maybe"}
    with pytest.raises(TypeError, match=field):
        Options(**wrong)
