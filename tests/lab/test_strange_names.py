"""Names are the user's, of any characters: what is drawn, saved and run of them stays whole."""

from __future__ import annotations

import itertools
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.analysis.check.alone import Alone
from maxlab.analysis.check.repro import write_repro
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, Module, TensorType, TensorValue, Weight, ops
from maxlab.lab.folding import fold
from maxlab.lab.protocol import GRAPH_MIME
from maxlab.lab.snapshot import take, unpack
from maxlab.lab.text import listing

ROW = TensorType(DType.float32, ["n", 8])
NAMES = {
    "dots": "..",
    "a dot": ".",
    "a slash": "/",
    "a path": "../../a/b",
    "nothing": "",
    "a NUL": "a\0b",
    "a line": "a\nb",
    "no character": "\ufffe",
    "an escape": "\x1b[31m",
    "markup": "</script><b>&amp;",
    "a comment's end": "*/ //",
    "a text's end": "\"\"\"'''\\",
    "much": "é" * 300,
}
FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML 1.0 has no way to say, and no page should have."""


def built(name: str) -> Graph:
    """A graph whose subgraph, weight and itself have the name."""
    with Graph(name, input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        inner = graph.add_subgraph(name, lambda x: ops.gelu(x) * 2, [ROW])
        for _ in range(2):
            (x,) = (value.tensor for value in ops.call(inner, x))
        graph.output(x + Weight(name or "w", DType.float32, [8], DeviceRef.CPU()))
    return graph


def whole(text: str) -> None:
    assert not FORBIDDEN.findall(text)
    text.encode()


@pytest.mark.parametrize("what", NAMES)
def test_a_graph_is_shown(what: str, tmp_path: Path) -> None:
    graph = built(NAMES[what])
    bundle = graph._repr_mimebundle_(
        include={"text/plain", "text/html", "image/svg+xml", GRAPH_MIME}
    )
    whole(bundle["text/plain"])
    assert unpack(bundle[GRAPH_MIME])["name"] == NAMES[what]
    whole(graph.to_html(tmp_path / "page.html").read_text("utf-8"))
    whole(graph.to_html())
    whole(bundle.get("text/html", ""))
    if "image/svg+xml" in bundle:
        whole(bundle["image/svg+xml"])
        ET.fromstring(bundle["image/svg+xml"])
    else:
        assert shutil.which("dot") is None


@pytest.mark.parametrize("what", NAMES)
def test_a_graph_is_saved_and_read(what: str, tmp_path: Path) -> None:
    graph = built(NAMES[what])
    graph.save(tmp_path / "graph.mlir")
    read = Graph(path=tmp_path / "graph.mlir")
    assert read.name == NAMES[what]
    assert str(read) == str(graph)
    module = Module()
    Graph(NAMES[what], lambda x: x * 2, [ROW], module=module)
    module.save(tmp_path / "module.mlir")
    assert list(Module(tmp_path / "module.mlir")) == [NAMES[what]]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("what", NAMES)
def test_a_model_is_run_and_its_run_kept(what: str, tmp_path: Path) -> None:
    registry = {NAMES[what] or "w": np.ones(8, np.float32)}
    session = engine.InferenceSession(num_threads=1)
    model = session.load(built(NAMES[what]), weights_registry=registry)
    profile = model.profile(np.ones((3, 8), np.float32), runs=2, warmup=0)
    run = maxlab.load_run(profile.save(tmp_path / "run.mlprof"))
    assert run.name == NAMES[what]
    whole(run._repr_mimebundle_(include={"text/plain"})["text/plain"])
    whole(run.to_html(tmp_path / "run.html").read_text("utf-8"))
    profile.timeline.to_chrome(tmp_path / "trace.json").read_text("utf-8")
    assert maxlab.diff(run, run).table()
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("what", NAMES)
def test_scripts_run_and_do_nothing_else(what: str, tmp_path: Path) -> None:
    """A name stands in the script's docstring: it must not end it."""
    trap = f'{NAMES[what]}\n"""\nraise SystemExit("a name was run")\n"""'
    memory = [np.zeros(64, np.uint8)]
    alone = Alone("f", "void f() {}", memory, [False], ["float32"], {})
    graph = Graph("g", lambda x: x * 2, [ROW])
    step = engine.InferenceSession(num_threads=1).load(graph).compiled.plan.steps[0]
    path = write_repro(tmp_path / "repro.py", trap, step, "", alone, [])
    scripts = [path]
    with driver.simulated():
        row = TensorType(DType.float32, ["n"], DeviceRef.GPU())
        on_gpu = Graph(trap, lambda x: x * 2, [row])
        gpu = driver.Accelerator()
        kernel = engine.InferenceSession(devices=[gpu]).load(on_gpu).kernels["k0"]
        given = driver.Tensor.from_numpy(np.ones(9, np.float32)).to(gpu)
        scripts.append(kernel.to_pycuda(tmp_path / 'cuda".py', given))
    for script in scripts:
        code = compile(script.read_bytes(), str(script), "exec")
        assert not any("a name was run" in str(one) for one in code.co_consts[1:])
        assert isinstance(code.co_consts[0], str)
        assert "a name was run" in code.co_consts[0]


def test_scopes_of_any_dots_and_digits_are_shown() -> None:
    """Paths of scopes have dots between their names, and numbers behind repeated ones."""
    names = {"".join(parts) for n in range(5) for parts in itertools.product(".01a", repeat=n)}
    for name in sorted(names):
        with Graph("g", input_types=[ROW]) as graph:
            x: TensorValue = graph.inputs[0].tensor
            inner = graph.add_subgraph(name, lambda x: x * 2, [ROW])
            for _ in range(2):
                x = ops.call(inner, x)[0].tensor
            graph.output(x)
        document = take(graph).document
        picture: Any = fold(document)
        assert sum(len(box.nodes) for box in picture.boxes) == 2, name
        assert all(scope["path"] for scope in document["scopes"]), name
        assert listing(document)
