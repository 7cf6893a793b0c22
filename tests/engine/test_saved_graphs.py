"""Graphs that are saved and loaded, by this process and by another, and what is no graph."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maxlab import driver, engine
from maxlab.dtype import DType
from maxlab.errors import InvalidPathError, MaxlabError
from maxlab.graph import BufferType, DeviceRef, Graph, KernelLibrary, TensorType, Weight, ops
from maxlab.ir.printer import generic

Array = np.ndarray[Any, Any]
CPU, GPU = DeviceRef.CPU(), DeviceRef.GPU()
F32 = DType.float32
KERNELS = """
// @op scaled(x: float32[*shape]) -> (y: float32[*shape])
// @params BY: int = 2
// @both
store(y, i, BY * load(x, i));

// @op count(inout n: int64[], x: float32[m]) -> (y: float32[m])
// @both serial
n[0] += 1;
y[i] = x[i] + n[0];
"""


def rich(place: DeviceRef, libraries: Any) -> Graph:
    """A graph with weights, a constant, a buffer, a subgraph called twice, a computed dim, custom
    ops and a message."""
    types: list[Any] = [TensorType(F32, ["n", 4], place), BufferType(DType.int64, [], place)]
    graph = Graph("rich", input_types=types, custom_extensions=libraries)
    with graph:
        x, counter = graph.inputs[0].tensor, graph.inputs[1].buffer
        w = Weight("layer.w", F32, [4, 3], place)
        b = Weight("layer.b", F32, [3], place)

        def double(v: Any) -> Any:
            own = Weight("own", F32, [3], place, _placeholder=True)
            return ops.custom("scaled", place, [v.tensor * own], [v.type], {"BY": 3})[0]

        sub = graph.add_subgraph("double", double, [TensorType(F32, ["n", 3], place)])
        y: Any = x @ w + b + ops.constant([0.5, 0.25, -1.0], F32, place)
        (y,) = ops.call(sub, y, prefix="first.")
        (y,) = ops.call(sub, y, prefix="second.")
        row: Any = ops.max(y, 0)[0]
        (row,) = ops.inplace_custom("count", place, [counter, row], [row.type])
        ops.print("ran")
        graph.output(y, row, ops.nonzero(x > 2, "k"), ops.softmax(y))
    return graph


def arrays() -> tuple[list[Array], dict[str, Array]]:
    rng = np.random.default_rng(4)
    weights = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in (
            ("layer.w", (4, 3)),
            ("layer.b", (3,)),
            ("first.own", (3,)),
            ("second.own", (3,)),
        )
    }
    return [rng.uniform(0, 4, (5, 4)).astype(np.float32), np.array(6, np.int64)], weights


def run(model: engine.Model, place: DeviceRef) -> list[Array]:
    given = [driver.Tensor.from_numpy(x) for x in arrays()[0]]
    if place.is_gpu():
        given = [x.to(driver.Accelerator()) for x in given]
    made = [np.array(y.to(driver.CPU()).to_numpy()) for y in model(*given)]
    return [*made, np.array(given[1].to(driver.CPU()).to_numpy())]


PROGRAM = """
import sys

import numpy as np

from maxlab import driver, engine

graph, library, inputs, outputs, gpu = sys.argv[1:]
devices = None
if gpu == "gpu":
    driver.use_simulator()
    devices = [driver.Accelerator()]
with np.load(inputs) as file:
    data = dict(file)
given = [driver.Tensor.from_numpy(data.pop(name)) for name in ("x", "counter")]
if devices:
    given = [x.to(devices[0]) for x in given]
session = engine.InferenceSession(devices, custom_extensions=library)
made = session.load(graph, weights_registry=data)(*given)
np.savez(outputs, *(y.to(driver.CPU()).to_numpy() for y in [*made, given[1]]))
"""


@pytest.mark.parametrize("place", [CPU, GPU], ids=["cpu", "gpu"])
def test_another_process_gets_the_same(place: DeviceRef, tmp_path: Path) -> None:
    library = KernelLibrary()
    library.add_source(KERNELS)
    packed = library.package(tmp_path / "kernels.mxpkg")
    graph = rich(place, [packed])
    path, given, made = tmp_path / "g.mlir", tmp_path / "given.npz", tmp_path / "made.npz"
    graph.save(path)
    (x, counter), weights = arrays()
    np.savez(given, x=x, counter=counter, **weights)  # type: ignore[arg-type]
    with driver.simulated():
        devices: list[Any] = [driver.Accelerator()] if place.is_gpu() else []
        session = engine.InferenceSession(devices)
        want = run(session.load(graph, weights_registry=weights), place)
        again = session.load(path, custom_extensions=packed, weights_registry=weights)
        assert again.name == "rich"
        for found, wanted in zip(run(again, place), want, strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert want[-1] == 9  # the counter of the caller
    arguments = [str(a) for a in (path, packed, given, made, "gpu" if place.is_gpu() else "cpu")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout == "ran\n"
    with np.load(made) as file:
        for name, wanted in zip(file.files, want, strict=True):
            np.testing.assert_array_equal(file[name], wanted)


def test_a_saved_graph_goes_on(tmp_path: Path) -> None:
    rich(CPU, [KERNELS]).save(tmp_path / "g.mlir")
    graph = Graph("more", path=tmp_path / "g.mlir", custom_extensions=[KERNELS])
    assert (graph.name, graph.function.name) == ("more", "more")
    assert Graph(path=tmp_path / "g.mlir").name == "rich"
    graph.save(tmp_path / "h.mlir")
    assert "@more" in str(Graph(path=tmp_path / "h.mlir"))
    types = [t for t in graph.output_types if isinstance(t, TensorType)]
    assert [t.rank for t in types] == [2, 1, 2, 2]
    outer = Graph("outer", input_types=[v.type for v in graph.inputs], custom_extensions=[KERNELS])
    with outer:
        sub = outer.add_subgraph("inner", path=tmp_path / "g.mlir")
        assert sub.name == "inner"
        made = ops.call(sub, *outer.inputs)
        outer.output(made[0])
    given, weights = arrays()
    session = engine.InferenceSession()
    (y,) = session.load(outer, weights_registry=weights)(*given)
    want = session.load(graph, weights_registry=weights)(*arrays()[0])
    np.testing.assert_array_equal(y.to_numpy(), want[0].to_numpy())


def test_weights_are_asked_for(tmp_path: Path) -> None:
    rich(CPU, [KERNELS]).save(tmp_path / "g.mlir")
    _, weights = arrays()
    del weights["second.own"]
    session = engine.InferenceSession(custom_extensions=KERNELS)
    with pytest.raises(ValueError, match=r"second\.own"):
        session.load(tmp_path / "g.mlir", weights_registry=weights)


BAD: list[tuple[str, str]] = [
    ("missing", "ML793"),
    ("folder", "ML793"),
    ("nul", "ML793"),
    ("bytes", "ML350"),
    ("empty", "ML350"),
    ("words", "ML350"),
    ("unknown op", "ML301"),
    ("ill typed", "ML358"),
    ("one operand", "ML358"),
    ("attributes of another", "ML358"),
    ("attributes of a third", "ML358"),
]


@pytest.mark.parametrize(("kind", "code"), BAD)
def test_paths_without_a_graph(kind: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    text = generic(rich(CPU, [KERNELS]).function)
    if kind == "folder":
        path.mkdir()
    elif kind == "nul":
        path = Path(f"{path}\0")
    elif kind == "bytes":
        path.write_bytes(b"\xff\xfe\x00graph")
    elif kind != "missing":
        texts = {
            "empty": "",
            "words": "a model",
            "unknown op": text.replace('"mo.matmul"', '"mo.matmuls"'),
            "ill typed": text.replace('"mo.softmax"', '"mo.argmax"'),
            "one operand": text.replace('"mo.softmax"', '"mo.mul"'),
            "attributes of another": text.replace('"mo.squeeze"', '"mo.slice"'),
            "attributes of a third": text.replace('"mo.slice"', '"mo.tile"'),
        }
        path.write_text(texts[kind])
    for name in (path, str(path)):
        with pytest.raises(InvalidPathError) as caught:
            engine.InferenceSession().load(name)
        assert isinstance(caught.value, RuntimeError)
        assert isinstance(caught.value, ValueError)
        assert caught.value.code == code
    with pytest.raises(MaxlabError) as plain:
        Graph(path=path)
    assert plain.value.code == code
    assert isinstance(plain.value, ValueError)


TEXT = generic(rich(CPU, [KERNELS]).function)
WORDS = sorted(set(TEXT.replace('"', " ").replace(",", " ").split()), key=str)


@settings(deadline=None, max_examples=120, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_hurt_files_are_loaded_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Text that is cut off, or has words of it exchanged, doubled or left out: never a crash."""
    text = TEXT
    for _ in range(data.draw(st.integers(1, 3))):
        how = data.draw(st.sampled_from(["cut", "exchange", "drop", "line", "digit"]))
        place = data.draw(st.integers(0, len(text)))
        if how == "cut":
            text = text[:place]
        elif how == "exchange":
            old, new = data.draw(st.sampled_from(WORDS)), data.draw(st.sampled_from(WORDS))
            text = text[:place] + text[place:].replace(old, new, 1)
        elif how == "drop":
            text = text[:place] + text[place + data.draw(st.integers(1, 40)) :]
        elif how == "line":
            lines = text.splitlines()
            if lines:
                lines.insert(place % len(lines), lines[data.draw(st.integers(0, len(lines) - 1))])
            text = "\n".join(lines)
        else:
            digit = data.draw(st.sampled_from("0123456789-"))
            text = text[:place] + digit + text[place + 1 :]
    path = tmp_path_factory.mktemp("hurt") / "g.mlir"
    path.write_text(text)
    made = read(path)
    if isinstance(made, MaxlabError):
        assert isinstance(made, ValueError)
        with pytest.raises(InvalidPathError) as caught:
            engine.InferenceSession().load(path)
        assert caught.value.code == made.code
    elif made.function.output is not None:
        made.save(path)
        assert Graph(path=path).output_types == made.output_types


def read(path: Path) -> Graph | MaxlabError:
    """The graph of a file, or why there is none."""
    try:
        return Graph(path=path)
    except MaxlabError as error:
        return error


# ---------------------------------------------------------------- arguments of a session
def test_devices_of_a_session() -> None:
    with driver.simulated():
        gpu, cpu = driver.Accelerator(), driver.CPU()
        for given, wanted in (
            (None, [cpu]),
            ([], [cpu]),
            ([gpu], [gpu, cpu]),
            ([cpu, gpu, cpu, gpu], [cpu, gpu]),
            ((d for d in (gpu,)), [gpu, cpu]),
        ):
            session = engine.InferenceSession(given)
            assert session.devices == wanted
            session.devices.clear()  # a list of the caller's own
            assert session.devices == wanted


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"devices": 3}, "ML618"),
        ({"devices": [None]}, "ML618"),
        ({"devices": ["tpu"]}, "ML421"),
        ({"num_threads": 0}, "ML616"),
        ({"num_threads": True}, "ML616"),
        ({"num_threads": 1.5}, "ML616"),
        ({"num_threads": "2"}, "ML616"),
        ({"custom_extensions": 3}, "ML768"),
        ({"custom_extensions": "nowhere.mxpkg"}, "ML763"),
    ],
)
def test_what_a_session_does_not_take(wrong: Any, code: str) -> None:
    with pytest.raises(MaxlabError) as caught:
        engine.InferenceSession(**wrong)
    assert caught.value.code == code


@pytest.mark.parametrize("threads", [1, 3, np.int64(2)])
def test_threads_of_a_session(threads: Any) -> None:
    graph = Graph("g", ops.exp, [TensorType(F32, ["n"])])
    model = engine.InferenceSession(num_threads=threads).load(graph)
    assert model.num_threads == threads
    assert type(model.num_threads) is int
    team = model.bind(((1 << 20,),)).executable.executor.team
    assert model.runtime.lib.mx_team_size(team) == threads
    profile = model.profile(np.ones(1 << 20, np.float32), runs=3, warmup=1)
    assert profile.stamps.threads.shape[1] == threads


@pytest.mark.parametrize("where", ["session", "load", "path", "list", "library"])
def test_extensions_of_every_kind(where: str, tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text(KERNELS.replace("BY * load", "10 * BY * load"))
    vector = TensorType(F32, ["n"])
    with Graph("g", input_types=[vector], custom_extensions=[KERNELS]) as graph:
        graph.output(*ops.custom("scaled", CPU, [graph.inputs[0]], [vector]))
    made: dict[str, Any] = {
        "session": lambda: engine.InferenceSession(custom_extensions=path).load(graph),
        "load": lambda: engine.InferenceSession().load(graph, custom_extensions=str(path)),
        "path": lambda: engine.InferenceSession().load(graph, custom_ops_path=str(path)),
        "list": lambda: engine.InferenceSession(custom_extensions=[path]).load(graph),
        "library": lambda: engine.InferenceSession(
            custom_extensions=[KernelLibrary(None, [path])]
        ).load(graph),
    }
    (y,) = made[where]()(np.ones(2, np.float32))
    np.testing.assert_array_equal(y.to_numpy(), [20, 20])
