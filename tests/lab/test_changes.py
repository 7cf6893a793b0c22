"""The questions of editing: what is offered fits, a change is whole or none, a run is right."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ExecutionError, MaxlabError
from maxlab.graph import BufferType, DeviceRef, Editor, Graph, KernelLibrary, TensorType, ops
from maxlab.lab import fields, fits, palette
from maxlab.lab.models import model_for
from maxlab.lab.protocol import reader
from maxlab.lab.questions.answering import answer, handlers
from maxlab.lab.questions.run import failed_op
from maxlab.lab.snapshot import take
from maxlab.lab.widget import GraphView
from maxlab.opset.facts import Family

F32 = DType.float32


def shown() -> Graph:
    with Graph("g", input_types=[TensorType(F32, ["n", 8])]) as graph:
        graph.output(ops.exp(graph.inputs[0].tensor))
    return graph


def ask(graph: Any, what: str, **args: Any) -> Any:
    return answer(graph, what, args).data


def change(
    graph: Any, do: str, what: str = "", on: tuple[str, ...] = (), op: str = "", operand: int = 0,
    **fields: str,
) -> Any:  # fmt: skip
    args = {"name": what, "on": list(on), "op": op, "operand": operand, "fields": fields}
    return ask(graph, "change", do=do, **args)


def offered(graph: Any, way: str = "add", on: tuple[str, ...] = (), op: str = "") -> Any:
    return ask(graph, "offer", way=way, on=list(on), op=op, operand=0)["offers"]


def ids(graph: Graph) -> dict[str, str]:
    """The id of the last operation of each name."""
    return {op.name.removeprefix("mo."): op.id for op in graph.function.ops}


# ---------------------------------------------------------------- offers
def test_every_operation_has_a_family_and_a_sentence() -> None:
    for offer in palette.offers().values():
        assert offer.family in get_args(Family), offer.name
        assert offer.says
        assert len({p.name for p in offer.parameters}) == len(offer.parameters)


@pytest.mark.parametrize("dtype", [DType.float32, DType.int32, DType.bool, DType.bfloat16])
def test_what_is_offered_can_be_added_and_nothing_else(dtype: DType) -> None:
    with Graph("g", input_types=[TensorType(dtype, ["n", 8])]) as graph:
        graph.output(graph.inputs[0].tensor)
    editor = Editor(graph)
    found = {fit.offer.name: fit for fit in fits.fitting(editor, ["input0"])}
    assert len(found) > 60
    for name, offer in palette.offers().items():
        if palette.missing(offer, 1) != ():
            continue
        try:
            made = editor.add(name, *palette.bound(offer, [editor.value("input0")]))
        except MaxlabError:
            assert name not in found, name
            continue
        if made:
            assert found[name].result == ", ".join(fields.type_text(v._ir().type) for v in made)
    assert ("logical_not" in found) == (dtype == DType.bool)


def test_offers_change_nothing() -> None:
    graph = shown()
    editor = Editor(graph)
    editor.replace("n0", "tanh")
    assert editor.undo()
    before, revision, redo = str(graph), graph.log.revision, graph.log.undone
    for way in ("add", "insert", "replace"):
        found = offered(graph, way, ("n0",), "n0")
        assert len(found) > 60
    assert (str(graph), graph.log.revision, graph.log.undone) == (before, revision, redo)
    assert editor.redo()


def test_an_edge_is_offered_what_its_reader_takes() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 8]), TensorType(F32, [8, 4])]) as graph:
        x, w = graph.inputs
        graph.output(x.tensor @ w.tensor)
    names = [o["name"] for o in offered(graph, "insert", (), "n0") if not o["needs"]]
    assert {"relu", "softmax"} <= set(names)
    assert not {"glu", "is_nan", "sum"} & set(names)  # another width, or no float


def test_a_buffer_is_offered_loads() -> None:
    with Graph("g", input_types=[BufferType(F32, [4])]) as graph:
        graph.output(graph.inputs[0].buffer[...])
    names = [one["name"] for one in offered(graph, on=("input0",))]
    assert "buffer_load" in names
    assert "exp" not in names


# ---------------------------------------------------------------- building by hand
def test_a_network_is_built_run_and_undone() -> None:
    graph = shown()
    first = str(graph)
    rng = np.random.default_rng
    assert not change(graph, "look")["can_undo"]
    w = (rng(1).standard_normal((8, 16)) * 0.5).astype(np.float32)
    v = (rng(2).standard_normal((16, 4)) * 0.1).astype(np.float32)
    found = change(graph, "random", name="w", type="float32[8, 16]", seed="1", scale="0.5")
    assert found["said"] == "added the constant w"
    assert change(graph, "replace", "matmul", op="n0", rhs="nothing")["wrong"][0]["name"] == "rhs"
    made = change(graph, "replace", "matmul", op="n0", rhs="w")
    assert made["said"] == "replaced exp by matmul"
    (product,) = made["select"]
    (relu,) = change(graph, "add", "relu", on=(product,))["select"]
    (second,) = change(graph, "random", type="float32[16, 4]", seed="2")["select"]
    (scores,) = change(graph, "add", "matmul", on=(relu, second))["select"]
    (soft,) = change(graph, "add", "softmax", on=(scores,), axis="-1")["select"]
    assert change(graph, "outputs", on=(soft,))["said"].startswith("the graph gives softmax")
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
    (y,) = model_for(graph)(x)
    hidden = np.maximum(x @ w, 0) @ v
    want = np.exp(hidden - hidden.max(-1, keepdims=True))
    np.testing.assert_allclose(y.to_numpy(), want / want.sum(-1, keepdims=True), rtol=2e-5)
    text = str(graph)
    steps = 0
    while change(graph, "look")["can_undo"]:
        assert change(graph, "undo")["said"] == "undone"
        steps += 1
    assert str(graph) == first
    assert change(graph, "undo")["said"] == "there is nothing to undo"
    for _ in range(steps):
        change(graph, "redo")
    assert str(graph) == text
    assert not change(graph, "look")["can_redo"]


def test_what_was_refused_is_not_drawn_as_an_error_of_the_code() -> None:
    graph = shown()
    assert "refused" in change(graph, "set", op="a0", type="bool[n]")
    with pytest.raises(MaxlabError):
        Editor(graph).insert("matmul", "n0", 0, 3)
    change(graph, "input", type="float32[n]")
    assert take(graph).document["error"] is None


def test_steps_of_code_are_not_undone() -> None:
    graph = shown()
    change(graph, "look")
    change(graph, "duplicate", on=("n0",))
    change(graph, "undo")
    assert not change(graph, "look")["can_undo"]
    assert ids(graph).keys() == {"exp", "output"}


@pytest.mark.parametrize(
    ("typed", "wrong"),
    [
        ({"shape": ""}, "shape"),
        ({"shape": "n,,"}, ""),
        ({"shape": "4 +"}, "shape"),
        ({"shape": "n, 2, 4"}, ""),
    ],
)
def test_a_wrong_text_names_its_field(typed: dict[str, str], wrong: str) -> None:
    graph = shown()
    before = str(graph)
    try:
        found = change(graph, "add", "reshape", ("n0",), "", 0, **typed)["wrong"]
    except MaxlabError:
        assert wrong == ""
        assert str(graph) == before
        return
    assert [one["name"] for one in found] == ([wrong] if wrong else [])
    assert (str(graph) == before) == bool(wrong)


def test_fields_of_an_operation_are_changed_together_or_not_at_all() -> None:
    graph = shown()
    change(graph, "replace", "softmax", op="n0")
    node = graph.function.ops[0].id
    found = ask(graph, "details", item=node)
    assert found["title"] == f"softmax {node}"
    assert {f["name"]: f["text"] for f in found["fields"]} == {
        "name": "",
        "operand 0": "input0",
        "axis": "-1",
    }
    change(graph, "set", op=node, name="p", axis="0")
    assert graph.function.ops[0].results[0].name == "p"
    assert graph.function.ops[0].attrs["axis"] == 0
    before = str(graph)
    assert change(graph, "set", op=node, name="q", axis="one")["wrong"][0]["name"] == "axis"
    with pytest.raises(MaxlabError):
        change(graph, "set", op=node, name="q", axis="7")
    assert str(graph) == before


def test_an_input_gets_another_type_and_all_types_follow() -> None:
    graph = shown()
    found = ask(graph, "details", item="a0")
    assert [f["text"] for f in found["fields"]] == ["input0", "float32[n, 8]"]
    change(graph, "set", op="a0", name="x", type="bfloat16[batch, 3, 5]")
    (type,) = graph.output_types
    assert isinstance(type, TensorType)
    assert str(type.shape) == "[batch, 3, 5]"
    wrong = change(graph, "set", op="a0", type="float31[2]")["wrong"]
    assert wrong[0]["name"] == "type"
    assert "float32[batch, 8]" in wrong[0]["says"]


def test_a_word_is_the_one_of_its_parameter() -> None:
    for offer in palette.offers().values():
        for parameter in offer.parameters:
            for word in parameter.choices:
                made = fields.read(Editor(shown()), parameter, word)
                assert isinstance(made, parameter.words or ())
                assert str(made.value) == word


@pytest.mark.parametrize("text", ["float32[batch, 8]", "int64[]", "bool[n * 2 + 1]", "float16[3]"])
def test_types_are_typed_as_they_are_shown(text: str) -> None:
    assert fields.type_text(fields.read_type("type", text)) == text


def test_inputs_come_and_go() -> None:
    graph = shown()
    change(graph, "input", type="float32[4]")
    assert [v.name for v in graph.function.inputs] == ["input0", "input1"]
    assert change(graph, "remove", on=(graph.function.inputs[1].id,))["said"] == "removed 1 item"
    refused = change(graph, "remove", on=("a0",))["refused"]
    assert refused["says"].startswith("exp n0 reads input0")
    assert len(graph.function.inputs) == 1


def test_an_attribute_is_shown_as_it_is_typed() -> None:
    """Whatever an attribute holds, typing what is shown changes nothing."""
    with Graph("g", input_types=[TensorType(F32, ["n", 8])]) as graph:
        x = graph.inputs[0].tensor
        made = ops.reshape(ops.cast(x, DType.float64), ["n", 2, 4])
        graph.output(ops.transpose(made, 1, 2), ops.mean(x), ops.cumsum(x, -1))
    before = str(graph)
    for op in list(graph.function.ops):
        for field in ask(graph, "details", item=op.id)["fields"]:
            if field["text"]:
                change(graph, "set", "", (), op.id, 0, **{field["name"]: field["text"]})
    assert str(graph) == before


# ---------------------------------------------------------------- runs
def test_a_run_tells_its_numbers(tmp_path: Path) -> None:
    graph = shown()
    found = ask(graph, "run", inputs={})
    assert found["outputs"][0]["type"] == "float32[4, 8]"
    assert found["inputs"][0]["source"] == "random, seed 0"
    np.save(tmp_path / "x.npy", np.zeros((2, 8), np.float32))
    found = ask(graph, "run", inputs={"input0": str(tmp_path / "x.npy")})
    assert found["outputs"][0]["type"] == "float32[2, 8]"
    assert found["outputs"][0]["text"].count("1.") == 16
    change(graph, "replace", "tanh", op="n0")
    found = ask(graph, "run", inputs={"input0": str(tmp_path / "x.npy")})
    assert found["outputs"][0]["text"].count("0.") == 16


def test_a_run_that_fails_names_its_operation(tmp_path: Path) -> None:
    types = [TensorType(F32, ["n", 8]), TensorType(DType.int64, ["k"])]
    with Graph("g", input_types=types) as graph:
        x, at = (value.tensor for value in graph.inputs)
        graph.output(ops.exp(ops.gather(ops.relu(x), at, axis=0)), ops.gather(x, at, axis=0))
    np.save(tmp_path / "at.npy", np.array([0, 99]))
    found = ask(graph, "run", inputs={"input1": str(tmp_path / "at.npy")})
    assert found["outputs"] == []
    failed = found["failed"]
    assert "99" in failed["says"]
    assert failed["op"] in {op.id for op in graph.function.ops if op.name == "mo.gather"}


INVERT = """
// @op invert(x: float32[n]) -> (y: float32[n])
// @both
MX_ASSERT(load(x, i) != 0, "zero has no inverse");
store(y, i, 1 / load(x, i));
"""
STRAY = """
// @op stray(x: float32[n]) -> (y: float32[n])
// @both
y[i + 10000000] = load(x, i);
"""


@pytest.mark.parametrize(
    ("text", "device", "says"),
    [
        (INVERT, DeviceRef.CPU(), "zero has no inverse"),
        (STRAY, DeviceRef.GPU(0), "out-of-bounds in the kernel k1 (stray)"),
    ],
)
def test_a_kernel_that_fails_is_its_operation(
    request: pytest.FixtureRequest, text: str, device: DeviceRef, says: str
) -> None:
    library = KernelLibrary()
    name = "invert" if text is INVERT else "stray"
    library.add_source(text, file=name)
    vector = TensorType(F32, ["n"], device)
    with Graph("g", input_types=[vector], custom_extensions=library) as graph:
        (made,) = ops.custom(name, device, [ops.relu(graph.inputs[0].tensor)], [vector])
        graph.output(ops.exp(made))
    if device.is_gpu():
        driver.use_simulator(check=True)
        request.addfinalizer(lambda: driver.use_simulator(0))
    place = driver.Accelerator(0) if device.is_gpu() else driver.CPU()
    session = engine.InferenceSession([place])
    session.set_mojo_assert_level(engine.AssertLevel.ALL)
    model = session.load(graph)
    given = driver.Tensor.from_numpy(np.zeros(2, np.float32)).to(place)

    def run() -> None:
        model(given)
        model.wait()

    with pytest.raises(ExecutionError) as raised:
        run()
    found = failed_op(model, raised.value)
    assert found is not None
    assert says in found["says"]
    (op,) = (op for op in graph.function.ops if op.name == "mo.custom")
    assert found["op"] == op.id


@pytest.mark.parametrize("source", ["nobody", "gone.npy", "x.txt", "1 + 1"])
def test_an_input_that_is_not_there_is_told(source: str) -> None:
    with pytest.raises(MaxlabError):
        ask(shown(), "run", inputs={"input0": source})


def test_an_array_that_does_not_fit_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 9), np.float32))
    with pytest.raises((ExecutionError, MaxlabError), match="8"):
        ask(shown(), "run", inputs={"input0": str(tmp_path / "x.npy")})
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY no")
    with pytest.raises(ArgumentError, match="ML808"):
        ask(shown(), "run", inputs={"input0": str(tmp_path / "bad.npy")})


def test_a_model_runs_what_its_graph_was(tmp_path: Path) -> None:
    """Whoever changes the graph of a model gets a model of the changed graph."""
    graph = shown()
    model = engine.InferenceSession().load(graph)
    assert model_for(graph) is model
    change(model, "replace", "tanh", op="n0")
    other = model_for(graph)
    assert other is not model
    x = np.ones((2, 8), np.float32)
    np.testing.assert_allclose(model(x)[0].to_numpy(), np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(other(x)[0].to_numpy(), np.tanh(x), rtol=1e-6)


def test_views_show_a_change_before_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = shown()
    views = [GraphView(graph), GraphView(engine.InferenceSession().load(graph))]
    sent: list[Any] = []
    for view in views:
        monkeypatch.setattr(view, "send", lambda content, buffers=None: sent.append(content))
    args = {"do": "replace", "name": "tanh", "on": [], "op": "n0", "operand": 0, "fields": {}}
    for view in views:
        sent.clear()
        ask_it = {"type": "ask", "protocol": 2, "id": 1, "what": "change", "args": args}
        view._received(view, ask_it, [])
        kinds = [message["type"] for message in sent]
        assert kinds[-1] == "answer", kinds
        assert sent[-1]["ok"], sent[-1]
        assert set(kinds[:-1]) <= {"difference", "document", "progress"}
        assert len(kinds) > 1
        args["op"] = graph.function.ops[0].id
        args["name"] = "sin"
    assert "mo.sin" in str(graph)


def test_what_a_page_adds_is_of_no_line_of_code() -> None:
    """The page is answered on a thread of maxlab's, under which no line of the user's runs."""
    graph = shown()
    args = {"do": "add", "name": "tanh", "on": ["n0"], "op": "", "operand": 0, "fields": {}}
    worker = threading.Thread(target=answer, args=(graph, "change", args))
    worker.start()
    worker.join()
    assert [op.loc is None for op in graph.function.ops] == [False, True, False]
    assert graph.function.ops[1].scope == ""


def test_a_graph_is_saved_and_opened(tmp_path: Path) -> None:
    graph = shown()
    assert change(graph, "save")["wrong"][0]["name"] == "path"
    path = tmp_path / "net.mlgraph"
    assert change(graph, "save", path=str(path))["said"] == f"saved {path}"
    assert str(maxlab.open(path)) == str(graph)
    with pytest.raises(MaxlabError):
        change(graph, "save", path=str(tmp_path / "no" / "net.mlgraph"))


def test_hostile_arguments_are_refused() -> None:
    graph = shown()
    before = str(graph)
    asked = handlers()["change"][0]
    for args in ({}, {"do": "eval"}, {"do": "add", "name": 3}):
        with pytest.raises(MaxlabError):
            reader.arguments(asked, args)
    for text in ("__import__('os').system('true')", "(" * 4000, "9" * 5000, "[1, 2", "{}", "\0"):
        try:
            change(graph, "add", "add", on=("n0",), rhs=text)
        except MaxlabError:
            pass
        assert str(graph) == before


def test_a_graph_is_built_from_nothing() -> None:
    graph = Graph("net")
    view = GraphView(graph)
    assert view.document["nodes"] == []
    change(graph, "input", type="float32[n, 4]")
    (x,) = (value.id for value in graph.function.inputs)
    assert len(offered(graph, on=(x,))) > 60
    (exp,) = change(graph, "add", "exp", on=(x,))["select"]
    (copy,) = change(graph, "duplicate", on=(exp,))["select"]
    with pytest.raises(MaxlabError, match="ML322"):
        ask(graph, "run", inputs={})
    change(graph, "outputs", on=(exp, copy))
    found = ask(graph, "run", inputs={})
    assert [one["type"] for one in found["outputs"]] == ["float32[4, 4]"] * 2
    while change(graph, "look")["can_undo"]:
        change(graph, "undo")
    assert graph.function.ops == []
    assert graph.function.inputs == []
