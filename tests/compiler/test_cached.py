"""Plans from the cache: what is found is what would be made, and what is damaged is made again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine, trace
from maxlab.analysis.check import compare
from maxlab.analysis.compile_report import compile_report
from maxlab.compiler import Options, cached, fingerprint, plan_file
from maxlab.compiler.compiling import debugged
from maxlab.compiler.planner import Planner
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.errors import ExecutionError, MissingWeightError
from maxlab.graph import Graph, TensorType, TensorValue, Weight, ops
from maxlab.toolchain import artefacts, cache, eviction
from tests.toolchain.small import settings

ROOT = Path(__file__).resolve().parents[2]
F32 = DType.float32
NEW = "a graph that the cache does not have"
ON_DISK = "the plan is from the cache on disk"
IN_MEMORY = "the plan is one that this process has made or read before"
DAMAGED = "what the cache had was damaged"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[Path]:
    """A cache of the test's own."""
    cached.forget()
    with settings(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"
        cached.forget()


def graph_of(build: Callable[[TensorValue], Any], name: str = "f") -> Graph:
    with Graph(name, input_types=[TensorType(F32, ["n", 8])]) as graph:
        found = build(graph.inputs[0].tensor)
        graph.output(*(found if isinstance(found, list) else [found]))
    return graph


def scaled(factor: float = 2.0) -> Graph:
    return graph_of(lambda x: ops.softmax(x * factor))


def load(graph: Graph, **options: Any) -> Model:
    return engine.InferenceSession().load(graph, options=Options(**options))


def again(graph: Graph, **options: Any) -> Model:
    """``graph`` loaded as a new process would."""
    cached.forget()
    return load(graph, **options)


def entries(folder: Path) -> list[Path]:
    cached.settle()
    return sorted(folder.glob("kernels/*/*.plan"))


def forbidden(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("this was to be found in the cache")


def output(model: Model) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(3).standard_normal((5, 8)).astype(np.float32)
    return model.execute(x)[0].to_numpy()


# ---------------------------------------------------------------- what is found
def test_an_equal_graph_takes_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = scaled()
    first = load(graph)
    assert compile_report(first).plan == NEW
    cached.settle()
    monkeypatch.setattr(Planner, "build", forbidden)
    second, third, fourth = load(graph), load(scaled()), again(scaled())
    assert [compile_report(m).plan for m in (second, third)] == [IN_MEMORY] * 2
    report = compile_report(fourth)
    assert report.plan == ON_DISK
    assert ON_DISK in report.table()
    assert list(report.phases) == ["cached", "kernels", "weights"]
    for model in (second, third, fourth):
        assert model.plan == first.plan
        np.testing.assert_array_equal(output(model), output(first))


def test_a_new_process_finds_what_another_has_made(own_cache: Path) -> None:
    code = (
        "from tests.compiler.test_cached import *\n"
        "model = load(scaled())\n"
        "print(model.compiled.cached, '|', output(model).sum().item().hex())\n"
    )
    said = [run(code, own_cache).split(" | ") for _ in range(2)]
    assert [row[0] for row in said] == [NEW, ON_DISK]
    assert said[0][1] == said[1][1]
    assert len(entries(own_cache)) == 1


def test_settling_waits_for_a_plan_that_is_being_written(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    write = cached._write

    def slowly(key: Any, known: Any) -> None:
        begun.set()
        assert go_on.wait(60)
        write(key, known)

    monkeypatch.setattr(cached, "_write", slowly)
    load(scaled())
    other = threading.Thread(target=cached.settle)
    other.start()
    assert begun.wait(60)
    threading.Timer(0.2, go_on.set).start()
    cached.settle()
    assert len(list(own_cache.glob("kernels/*/*.plan"))) == 1
    other.join()


def run(code: str, place: Path) -> str:
    """What ``code`` prints in a process of its own with the cache ``place``."""
    env = {**os.environ, "MAXLAB_CACHE_DIR": str(place), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_running_imports_no_compiler(own_cache: Path) -> None:
    code = (
        "import sys\n"
        "from maxlab import engine\n"
        "from maxlab.dtype import DType\n"
        "from maxlab.graph import Graph, TensorType, ops\n"
        "import numpy as np\n"
        "graph = Graph('f', ops.softmax, [TensorType(DType.float32, ['n', 8])])\n"
        "model = engine.InferenceSession().load(graph)\n"
        "model.execute(np.ones((3, 8), np.float32))\n"
        "print(model.compiled.cached, '|', *sys.modules)\n"
    )
    run(code, own_cache)
    why, _, modules = run(code, own_cache).partition(" | ")
    assert why == ON_DISK
    parts = "passes", "codegen", "schedule", "planner", "lower", "compiling", "steps_host"
    heavy = {f"maxlab.compiler.{part}" for part in parts}
    assert "maxlab.compiler.plan" in modules.split()
    assert not heavy & set(modules.split())


GRAPHS: dict[str, Callable[[], Graph]] = {
    "rows": scaled,
    "products": lambda: graph_of(
        lambda x: ops.gelu(x @ ops.constant(np.eye(8, dtype=np.float32), F32))
    ),
    "many": lambda: graph_of(lambda x: [ops.sum(x, 0), ops.concat([x, x + 1]), ops.argmax(x)]),
    "sizes": lambda: graph_of(lambda x: [ops.nonzero(x, "hits") * 2, x[1:], ops.reshape(x, [-1])]),
    "loop": lambda: graph_of(
        lambda x: ops.while_loop([x], lambda y: y[0, 0] < 10.0, lambda y: [y + 1.0])[0]
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_found_is_what_would_be_made(name: str) -> None:
    graph = GRAPHS[name]()
    first = load(graph)
    found = again(graph)
    assert found.compiled.cached == ON_DISK
    debug = debugged(graph.function, found.options)
    assert found.plan == debug.plan == first.plan
    x = np.random.default_rng(3).standard_normal((5, 8)).astype(np.float32)
    for mine, other in zip(found.execute(x), first.execute(x), strict=True):
        np.testing.assert_array_equal(mine.to_numpy(), other.to_numpy())


def test_debuggers_get_what_they_ask_for() -> None:
    first, found = load(scaled()), again(scaled())
    assert found.compiled.cached == ON_DISK
    assert list(found.passes) == list(first.passes)
    assert found.compiled.function.ops
    assert [g.kind for g in found.compiled.schedule.groups] == [
        g.kind for g in first.compiled.schedule.groups
    ]
    assert found.kernels["k0"].source == first.kernels["k0"].source
    assert found.kernels["k0"].cuda == first.kernels["k0"].cuda
    step = found.plan.steps[0]
    assert step.loops is None
    assert found.compiled.loops_of(step) is not None
    assert compare(found, np.ones((3, 8), np.float32)).ok


def test_a_graph_that_was_changed_is_debugged_as_it_was_loaded() -> None:
    load(scaled())
    graph = scaled()
    found = again(graph)
    x, output = graph.function.inputs[0], graph.function.output
    assert output is not None
    output.operands[0].replace_at([(output, 0)], x)
    assert found.compiled.source is graph.function
    assert found.compiled.debug.plan == found.plan


def test_lines_are_those_of_the_graph_at_hand() -> None:
    def build(first: bool) -> Graph:
        def rows(x: TensorValue) -> TensorValue:
            if first:
                return ops.gather(x, ops.cast(ops.sum(x, 1), DType.int64), axis=0)
            return ops.gather(x, ops.cast(ops.sum(x, 1), DType.int64), axis=0)

        return graph_of(rows)

    load(build(True))
    for graph in (build(False), build(True)):
        for model in (load(graph), again(graph)):
            assert model.compiled.cached in (ON_DISK, IN_MEMORY)
            (gather,) = [op for op in graph.function.ops if "gather" in op.name]
            with pytest.raises(ExecutionError) as error:
                model.execute(np.full((3, 8), 100, np.float32))
            assert error.value.at == gather.loc


def test_what_is_computed_at_load_comes_from_the_cache_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build() -> Graph:
        def call(x: TensorValue) -> TensorValue:
            w = Weight("w", F32, [8, 8])
            return x @ ops.transpose(ops.exp(w) + 1.0, 0, 1)

        return graph_of(call)

    weights = {"w": np.random.default_rng(5).standard_normal((8, 8)).astype(np.float32)}
    session = engine.InferenceSession()
    first = session.load(build(), weights_registry=weights)
    assert first.plan.facts.ahead is not None
    cached.forget()
    monkeypatch.setattr(Planner, "build", forbidden)
    found = session.load(build(), weights_registry=weights)
    np.testing.assert_array_equal(output(found), output(first))
    with pytest.raises(MissingWeightError) as error:
        session.load(build(), weights_registry={})
    assert error.value.at is not None
    assert __file__.endswith(error.value.at.file)


# ---------------------------------------------------------------- what tells graphs apart
def test_graphs_that_differ_in_one_thing_do_not_share_a_plan() -> None:
    array = np.arange(100, dtype=np.float32)

    def table(array: np.ndarray[Any, Any]) -> Graph:
        return graph_of(lambda x: x + ops.constant(array, F32)[:8])

    graphs = [scaled(), scaled(3.0), table(array), table(array + 1), graph_of(ops.tanh, "g")]
    graphs += [graph_of(ops.tanh), graph_of(lambda x: ops.tanh(ops.tanh(x)))]
    models = [load(graph) for graph in graphs]
    assert [model.compiled.cached for model in models] == [NEW] * len(graphs)
    found = [again(graph) for graph in graphs]
    for one, other in zip(models, found, strict=True):
        assert other.compiled.cached == ON_DISK
        np.testing.assert_array_equal(output(one), output(other))


def test_options_that_differ_do_not_share_a_plan() -> None:
    told: list[dict[str, Any]] = [
        {},
        {"fuse": False},
        {"accuracy": "fast"},
        {"keep": {"n0"}},
        {"assert_level": "all"},
    ]
    why = [load(scaled(), **options).compiled.cached for options in told]
    assert why[0] == NEW
    cached.settle()
    found = [again(scaled(), **options).compiled.cached for options in told]
    assert found == [ON_DISK] * len(told)
    assert (
        again(scaled(), split_k="output").compiled.cached == "the cache has it with other options"
    )


def test_another_version_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    load(scaled())
    cached.settle()
    monkeypatch.setattr(fingerprint, "version", lambda: "0" * 32)
    assert again(scaled()).compiled.cached == "the cache has it of another version of the compiler"


def test_an_edited_kernel_of_an_op_is_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = tmp_path / "ops" / "scan.c"
    kernel.parent.mkdir()
    kernel.write_text("// one")
    monkeypatch.setattr(fingerprint, "kernels_dir", lambda: tmp_path)
    before = fingerprint.version.__wrapped__()
    kernel.write_text("// another")
    assert fingerprint.version.__wrapped__() != before


# ---------------------------------------------------------------- what is not cached
def test_what_is_not_cached_says_why(own_cache: Path) -> None:
    model = load(scaled())
    kernel = model.kernels["k0"]
    replaced = {kernel.symbol: kernel.source + " "}
    assert load(scaled(), replaced=replaced).compiled.cached == (
        "not cached: the text of a kernel is replaced"
    )
    with settings(plan_cache=False):
        assert load(scaled()).compiled.cached == "not cached: MAXLAB_PLAN_CACHE is 0"

    def printed(x: TensorValue) -> TensorValue:
        x.print()
        return x * 5

    graph = graph_of(printed)
    said = [load(graph).compiled.cached for _ in range(2)]
    assert said == ["not cached: a step calls print, a function of this process"] * 2
    assert len(entries(own_cache)) == 1


# ---------------------------------------------------------------- bad entries
@pytest.mark.parametrize("how", ["cut", "altered"])
def test_a_damaged_entry_is_made_again(own_cache: Path, how: str) -> None:
    graph = scaled()
    want = output(load(graph))
    (path,) = entries(own_cache)
    whole = path.read_bytes()
    for percent in range(100):
        at = len(whole) * percent // 100
        bad = whole[:at] if how == "cut" else whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        path.write_bytes(bad)
        model = again(graph)
        assert compile_report(model).plan == DAMAGED, percent
        np.testing.assert_array_equal(output(model), want)
        cached.settle()
        assert path.read_bytes() == whole


def test_a_sealed_entry_that_is_no_plan_is_made_again(own_cache: Path) -> None:
    """Whoever can write the cache can seal what he likes; it is parsed, never run."""
    graph = scaled()
    load(graph)
    found = fingerprint.fingerprint(graph.function, Options())
    key = artefacts.PlanKey(found.graph, found.version, found.options)

    def make(folder: Path) -> Path:
        (folder / "plan").write_bytes(b"\x05\0\0\0\0\0\0\0hello")
        return folder / "plan"

    cached.settle()
    cache().build([key], make)
    assert again(graph).compiled.cached == DAMAGED


@pytest.mark.parametrize("version", [plan_file.VERSION - 1, plan_file.VERSION + 1])
def test_an_entry_of_another_form_is_made_again(own_cache: Path, version: int) -> None:
    """As an older or newer maxlab whose files have the same digest would have written it."""
    graph = scaled()
    want = load(graph)
    cached.settle()
    found = fingerprint.fingerprint(graph.function, Options())
    key = artefacts.PlanKey(found.graph, found.version, found.options)
    text = want.plan.text().replace(plan_file.HEAD, f"maxlab plan {version}", 1).encode()

    def make(folder: Path) -> Path:
        (folder / "plan").write_bytes(len(text).to_bytes(8, "little") + text)
        return folder / "plan"

    for path in entries(own_cache):
        path.unlink()
    cache().build([key], make)
    made = again(graph)
    assert compile_report(made).plan == DAMAGED
    np.testing.assert_array_equal(output(made), output(want))
    assert again(graph).compiled.cached == ON_DISK


def test_an_entry_of_others_is_not_read(own_cache: Path) -> None:
    graph = scaled()
    load(graph)
    (path,) = entries(own_cache)
    path.chmod(0o666)
    assert again(graph).compiled.cached == DAMAGED


def test_two_processes_may_write_one_entry_at_once(own_cache: Path) -> None:
    code = (
        "from tests.compiler.test_cached import *\nprint(output(load(scaled())).sum().item().hex())"
    )
    env = {**os.environ, "MAXLAB_CACHE_DIR": str(own_cache), "PYTHONPATH": str(ROOT)}
    many = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=env, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    said = {process.communicate()[0] for process in many}
    assert all(process.returncode == 0 for process in many)
    assert len(said) == 1
    assert len(entries(own_cache)) == 1
    assert again(scaled()).compiled.cached == ON_DISK


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("no folder")
    with settings(cache_dir=place / "cache"):
        want = output(load(scaled()))
        cached.settle()
        model = again(scaled())
        assert model.compiled.cached == ON_DISK  # in the private spare folder
        np.testing.assert_array_equal(output(model), want)


def test_a_cache_that_is_lost_before_a_plan_is_written(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, the model runs, and the plan is written when there is a place again."""
    graph = scaled()

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    with settings(plan_cache=False):
        load(graph)  # its kernels are there
    trace.recorder().clear()
    with monkeypatch.context() as lost:
        lost.setattr(type(cache()), "build", full)
        want = load(graph)
        cached.settle()
        output(want)
    (told,) = trace.recorder().events("warning")
    assert "No space left" in told.data["message"]
    assert not entries(own_cache)
    assert compile_report(again(graph)).plan == NEW
    cached.settle()
    found = again(graph)
    assert found.compiled.cached == ON_DISK
    np.testing.assert_array_equal(output(found), output(want))


def test_plans_are_evicted_as_kernels_are(own_cache: Path) -> None:
    load(scaled())
    (path,) = entries(own_cache)
    before = cache().info()
    os.utime(path, (1, 1))
    eviction.shrink(own_cache / "kernels", before.bytes - 1)
    assert not path.exists()
    assert cache().info().libraries < before.libraries
    assert again(scaled()).compiled.cached == NEW
