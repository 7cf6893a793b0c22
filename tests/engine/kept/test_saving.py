"""Models that were saved compute the same bits, however they are loaded."""

from __future__ import annotations

import platform
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import engine, trace
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.engine.kept import opening
from maxlab.engine.kept.contents import contents, graph_text
from maxlab.errors import ArgumentError, DeviceError, ExecutionError, GraphError
from maxlab.graph import Graph, TensorType, ops
from maxlab.graph.weights.safetensors import SafetensorsFile
from maxlab.toolchain import library, units
from tests.engine.kept.made import (
    CPU,
    F32,
    X,
    dequantised,
    from_file,
    numbers,
    outputs,
    scores,
    scores_graph,
    scores_weights,
)

ROOT = Path(__file__).resolve().parents[3]


def load(path: Path, trusted: bool | str = True, **more: Any) -> Model:
    """The model at ``path``, of a new session."""
    return engine.InferenceSession().load(path, trusted=trusted, **more)


def is_taken(model: Model) -> bool:
    """Whether plan and machine code are those of the file."""
    return "plan and machine code are those" in model.compiled.cached


@pytest.mark.parametrize("made", [scores, dequantised])
@pytest.mark.parametrize("trusted", [False, True])
def test_it_computes_the_same(made: Callable[[], Model], trusted: bool, tmp_path: Path) -> None:
    model = made()
    digest = model.save(tmp_path / "a.mlmodel")
    again = load(tmp_path / "a.mlmodel", trusted)
    assert is_taken(again) is trusted
    assert outputs(again) == outputs(model)
    assert outputs(load(tmp_path / "a.mlmodel", digest)) == outputs(model)
    assert again.plan == model.plan


def test_what_it_computes_of_weights_can_be_computed_again(tmp_path: Path) -> None:
    model = dequantised()
    model.save(tmp_path / "a.mlmodel")
    again = load(tmp_path / "a.mlmodel")
    assert is_taken(again)
    assert again.prepared.again is not None
    first, second = model.prepared.again, again.prepared.again
    assert first is not None
    wanted, found = first(), second()
    assert wanted.keys() == found.keys()
    assert all((wanted[n].to_numpy() == found[n].to_numpy()).all() for n in wanted)


def test_other_weights_are_packed_and_computed_anew(tmp_path: Path) -> None:
    scores().save(tmp_path / "a.mlmodel")
    other = {"w": numbers(64, 32, seed=9)}
    wanted = engine.InferenceSession().load(scores_graph(), weights_registry=other)
    assert outputs(load(tmp_path / "a.mlmodel", weights_registry=other)) == outputs(wanted)
    model = dequantised()
    model.save(tmp_path / "b.mlmodel")
    given = {"scale": numbers(64, 1, seed=8)}
    wanted = engine.InferenceSession().load(
        model.graph,
        weights_registry={**{n: w.to_numpy() for n, w in model.weights.items()}, **given},
    )
    assert outputs(load(tmp_path / "b.mlmodel", weights_registry=given)) == outputs(wanted)


def test_no_pass_and_no_compiler_runs(tmp_path: Path) -> None:
    """In a process that has no compiler, an empty cache, and no module that builds graphs."""
    model = scores()
    model.save(tmp_path / "a.mlmodel")
    np.save(tmp_path / "x.npy", X)
    program = """
import os, sys
os.environ.update(MAXLAB_CACHE_DIR=sys.argv[1] + "/cache", MAXLAB_CC="/no/such/compiler")
from maxlab.__main__ import main
status = main(["run", sys.argv[1] + "/a.mlmodel", "--input", sys.argv[1] + "/x.npy",
    "--output", sys.argv[1] + "/y.npy", "--trusted"])
known = [name for name in sys.modules if name.startswith("maxlab.")]
assert "maxlab.engine.model" in known
heavy = [name for name in known if name.startswith(("maxlab.graph", "maxlab.compiler.passes"))]
assert not heavy and "maxlab.opset.core" not in known, heavy
sys.exit(status)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "y.npy").tobytes() == outputs(model)[0]


def test_loading_it_compiles_nothing(tmp_path: Path) -> None:
    scores().save(tmp_path / "a.mlmodel")
    units.forget()
    heard: list[str] = []
    listener = lambda event: heard.append(event.kind)  # noqa: E731
    trace.recorder().listen(listener)
    try:
        outputs(load(tmp_path / "a.mlmodel"))
    finally:
        trace.recorder().unlisten(listener)
    assert "load" in heard
    assert "compile" not in heard
    assert "pass" not in heard


def test_another_cpu_compiles_the_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = scores()
    model.save(tmp_path / "a.mlmodel")
    monkeypatch.setattr(opening, "cpu_features", lambda: frozenset({"sse2"}))
    again = load(tmp_path / "a.mlmodel")
    assert "the plan is that of" in again.compiled.cached
    assert "this CPU lacks" in again.compiled.cached
    assert outputs(again) == outputs(model)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert "it was compiled for x86_64" in load(tmp_path / "a.mlmodel").compiled.cached


@pytest.mark.parametrize("name", ["VERSION", "HEAD"])
def test_another_version_compiles_the_graph(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = scores()
    model.save(tmp_path / "a.mlmodel")
    monkeypatch.setattr(opening, name, "another")
    again = load(tmp_path / "a.mlmodel")
    assert "those of" not in again.compiled.cached
    assert "is that of" not in again.compiled.cached
    assert outputs(again) == outputs(model)


def test_another_runtime_compiles_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = scores()
    model.save(tmp_path / "a.mlmodel")
    monkeypatch.setattr(opening, "sources_digest", lambda: "another")
    assert not is_taken(load(tmp_path / "a.mlmodel"))
    assert library.sources_digest() != "another"


def test_weights_stay_in_their_files(tmp_path: Path) -> None:
    model = from_file(tmp_path)
    model.save(tmp_path / "inside.mlmodel")
    model.save(tmp_path / "files.mlmodel", weights="files")
    found = contents(tmp_path / "files.mlmodel")
    assert [file.path for file in found.manifest.files] == ["weights.safetensors"]
    assert "weights" not in found.sizes
    for trusted in (False, True):
        assert outputs(load(tmp_path / "files.mlmodel", trusted)) == outputs(model)
        assert outputs(load(tmp_path / "inside.mlmodel", trusted)) == outputs(model)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("files.mlmodel", "weights.safetensors"):
        (tmp_path / name).rename(moved / name)
    assert outputs(load(moved / "files.mlmodel", trusted=False)) == outputs(model)


def test_weights_that_are_in_no_file_are_kept_inside(tmp_path: Path) -> None:
    model = scores()
    model.save(tmp_path / "a.mlmodel", weights="files")
    assert contents(tmp_path / "a.mlmodel").sizes["weights"] > 8192
    assert outputs(load(tmp_path / "a.mlmodel")) == outputs(model)


def test_options_are_kept(tmp_path: Path) -> None:
    graph = scores_graph()
    options = Options(fuse=False, accuracy="fast")
    model = engine.InferenceSession().load(
        graph, weights_registry=scores_weights(), options=options
    )
    model.save(tmp_path / "a.mlmodel")
    for trusted in (False, True):
        again = load(tmp_path / "a.mlmodel", trusted)
        assert again.options == model.options
        assert again.plan == model.plan
        assert outputs(again) == outputs(model)
    other = load(tmp_path / "a.mlmodel", options=Options())
    assert other.options == Options()
    assert not is_taken(other)


def test_options_of_a_session_count(tmp_path: Path) -> None:
    scores().save(tmp_path / "a.mlmodel")
    session = engine.InferenceSession()
    session.set_mojo_assert_level("all")
    again = session.load(tmp_path / "a.mlmodel", trusted=True)
    assert again.options.assert_level == "all"
    assert not is_taken(again)


def test_it_can_be_looked_into(tmp_path: Path) -> None:
    model = scores()
    model.save(tmp_path / "a.mlmodel")
    again = load(tmp_path / "a.mlmodel")
    assert str(again.graph) == str(model.graph)
    assert again.graph_revision == again.graph.log.revision
    assert again.passes.keys() == model.passes.keys()
    assert again.kernels["k0"].source == model.kernels["k0"].source
    assert again.profile(X, runs=2, warmup=1).kernels
    assert maxlab.compare(again, X).ok
    assert outputs(again.reload(options=Options(fuse=False)))[1:] == outputs(model)[1:]
    again.save(tmp_path / "b.mlmodel")
    assert contents(tmp_path / "a.mlmodel").digest == contents(tmp_path / "b.mlmodel").digest


def test_equal_models_are_equal_files(tmp_path: Path) -> None:
    model = scores()
    assert model.save(tmp_path / "a.mlmodel") == model.save(tmp_path / "b.mlmodel")
    assert (tmp_path / "a.mlmodel").read_bytes() == (tmp_path / "b.mlmodel").read_bytes()


def test_the_graph_is_that_of_the_model(tmp_path: Path) -> None:
    """A graph that was changed after it was loaded is kept as the model has it."""
    model = scores()
    wanted = str(model.graph)
    with model.graph as graph:
        ops.tanh(graph.inputs[0].tensor)
    model.save(tmp_path / "a.mlmodel")
    assert str(load(tmp_path / "a.mlmodel").graph) == wanted
    assert outputs(load(tmp_path / "a.mlmodel", trusted=False)) == outputs(model)


def test_errors_name_the_line_of_the_user(tmp_path: Path) -> None:
    with Graph("pick", input_types=[TensorType(F32, [4]), TensorType(DType.int64, [1])]) as graph:
        graph.output(ops.gather(graph.inputs[0].tensor, graph.inputs[1].tensor, 0))
    engine.InferenceSession().load(graph).save(tmp_path / "a.mlmodel")
    again = load(tmp_path / "a.mlmodel")
    with pytest.raises(ExecutionError, match="out of range") as raised:
        again(numbers(4), np.array([9]))
    assert raised.value.at is not None
    assert Path(raised.value.at.file).name == Path(__file__).name


def test_other_tools_read_it(tmp_path: Path) -> None:
    model = scores()
    model.save(tmp_path / "a.mlmodel")
    with zipfile.ZipFile(tmp_path / "a.mlmodel") as archive:
        assert archive.testzip() is None
        for info in archive.infolist():
            assert info.compress_type == zipfile.ZIP_STORED
        archive.extractall(tmp_path / "out")
    for member in contents(tmp_path / "a.mlmodel").members:
        assert member.offset % 64 == 0
    found = SafetensorsFile(tmp_path / "out" / "weights.safetensors").read("w")
    assert (found == scores_weights()["w"]).all()
    graph = Graph(path=tmp_path / "out" / "graph.mlgraph")
    assert str(graph) == str(model.graph)
    assert graph_text(tmp_path / "a.mlmodel") == (tmp_path / "out" / "graph.mlgraph").read_text()


def test_sizes_add_up(tmp_path: Path) -> None:
    scores().save(tmp_path / "a.mlmodel")
    found = contents(tmp_path / "a.mlmodel")
    assert sum(found.sizes.values()) == found.nbytes == (tmp_path / "a.mlmodel").stat().st_size
    assert [one.name for one in found.manifest.inputs] == ["input0"]
    assert {one.symbol for one in found.manifest.kernels} == {
        step.printed.symbol for step in load(tmp_path / "a.mlmodel").plan.steps if step.printed
    }


def test_a_function_of_python_is_refused(tmp_path: Path) -> None:
    with Graph("speaks", input_types=[TensorType(F32, [2])]) as graph:
        ops.print("hello")
        graph.output(graph.inputs[0].tensor * 2)
    model = engine.InferenceSession().load(graph)
    with pytest.raises(GraphError, match="ML450"):
        model.save(tmp_path / "a.mlmodel")
    assert not (tmp_path / "a.mlmodel").exists()


def test_where_weights_are_is_one_of_two_words(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="ML451"):
        scores().save(tmp_path / "a.mlmodel", weights="beside")  # type: ignore[arg-type]


def test_a_model_of_a_simulated_gpu(tmp_path: Path) -> None:
    from maxlab import driver
    from maxlab.graph import DeviceRef

    with driver.simulated():
        gpu = DeviceRef.GPU()
        with Graph("gpu", input_types=[TensorType(F32, ["n"], gpu)]) as graph:
            graph.output(graph.inputs[0].tensor * 2 + 1)
        session = engine.InferenceSession([driver.Accelerator()])
        model = session.load(graph)
        model.save(tmp_path / "a.mlmodel")
        x = driver.Tensor.from_numpy(numbers(5)).to(driver.Accelerator())
        wanted = model(x)[0].to(driver.CPU()).to_numpy()
        for trusted in (False, True):
            again = session.load(tmp_path / "a.mlmodel", trusted=trusted)
            assert (again(x)[0].to(driver.CPU()).to_numpy() == wanted).all()
        with pytest.raises(DeviceError, match="ML617"):
            load(tmp_path / "a.mlmodel")
    assert CPU is not None
