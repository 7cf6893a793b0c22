"""Documents that pages edit: the text goes to them before a change is answered, and comes back."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from comm import get_comm_manager

import maxlab
from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.graph import DeviceRef, Editor, Graph, TensorType, ops
from maxlab.graph.reading import graph_of
from maxlab.lab import editors, following, live, tabs
from maxlab.lab.protocol import PROTOCOL
from maxlab.lab.weighting import NAMED
from maxlab.opset import custom, is_weight
from tests.lab.conftest import FakeComm
from tests.lab.test_changes import change

ROW = TensorType(DType.float32, ["n", 4])
KERNELS = """
// @op thrice_here(x: float32[n, m]) -> (y: float32[n, m])
// @both
store(y, i, 3 * load(x, i));
"""


def text_of(name: str = "g") -> str:
    with Graph(name, input_types=[ROW]) as graph:
        graph.output(ops.relu(graph.inputs[0].tensor))
    return graph.document.text()


class Page:
    """An editor that is not there: it keeps the text as a page does."""

    def __init__(self, path: str, text: str, saved: str | None = None) -> None:
        self.comm = FakeComm(target_name=editors.TARGET, data={}, primary=False)
        get_comm_manager().register_comm(self.comm)
        asked = {"protocol": PROTOCOL, "path": path, "text": text, "saved": saved}
        editors.opened(self.comm, {"content": {"data": asked}})
        self.number, self.lines = -1, [""]

    def heard(self) -> list[dict[str, Any]]:
        """What came since, taken as a page takes it."""
        found = [data for kind, data, _ in self.comm.sent if kind == "comm_msg"]
        self.comm.sent = []
        for message in found:
            json.dumps(message)
            if message["type"] == "opened":
                self.number, self.lines = message["number"], message["text"].split("\n")
                self.graph = live.find(message["id"])
            elif message["type"] == "text":
                assert message["since"] == self.number
                for part in reversed(message["parts"]):
                    end = part["start"] + part["removed"]
                    self.lines[part["start"] : end] = part["lines"]
                self.number = message["number"]
        return found

    @property
    def text(self) -> str:
        self.heard()
        return "\n".join(self.lines)

    def say(self, **message: Any) -> None:
        data = {"protocol": PROTOCOL, **message}
        self.comm.handle_msg({"content": {"data": data}, "buffers": []})

    def close(self) -> None:
        manager: Any = get_comm_manager()
        manager.comm_close(None, None, {"content": {"comm_id": self.comm.comm_id}})


class View:
    """A view of a graph in a tab, over a channel of its own."""

    def __init__(self, graph: Graph) -> None:
        self.comm = FakeComm(target_name=tabs.TARGET, data={}, primary=False)
        get_comm_manager().register_comm(self.comm)
        asked = {"id": live.id_of(graph), "editing": True}
        tabs.opened(self.comm, {"content": {"data": asked}})


@pytest.fixture(autouse=True)
def nothing_open() -> Any:
    """Each test begins and ends with no document open."""
    editors._open.clear()
    yield
    editors._open.clear()


def test_what_is_opened_is_the_text(comms: list[FakeComm]) -> None:
    page = Page("a/x.mlgraph", text_of())
    assert page.text == text_of()
    page.close()
    assert editors._open == []


def test_an_empty_file_is_an_empty_graph_of_its_name(comms: list[FakeComm]) -> None:
    page = Page("a/first.mlgraph", "\n")
    page.heard()
    assert isinstance(page.graph, Graph)
    assert (page.graph.name, len(page.graph.function.ops)) == ("first", 0)


def test_every_change_is_told_in_lines_and_the_page_has_the_text(comms: list[FakeComm]) -> None:
    page = Page("x.mlgraph", text_of())
    page.heard()
    graph = page.graph
    assert isinstance(graph, Graph)
    editor = Editor(graph)
    for step in (
        lambda: editor.insert("exp", "n0", 0),
        lambda: editor.replace("n0", "tanh"),
        lambda: editor.add_input(ROW, "more"),
        editor.undo,
        editor.undo,
        lambda: graph.document.folds.update(encoder=True),
    ):
        step()
        following.changed()
        assert page.text == graph.document.text()
    (message,) = _after(page, lambda: editor.insert("abs", "n0", 0))
    assert sum(len(part["lines"]) for part in message["parts"]) < len(page.lines) // 2
    assert _after(page, lambda: None) == []


def _after(page: Page, change: Any) -> list[dict[str, Any]]:
    change()
    following.changed()
    return page.heard()


def test_a_change_of_a_view_is_told_before_it_is_answered(comms: list[FakeComm]) -> None:
    page = Page("x.mlgraph", text_of())
    page.heard()
    graph = page.graph
    assert isinstance(graph, Graph)
    order: list[str] = []
    view = View(graph)
    states = [d["state"] for _, d, _ in view.comm.sent if d.get("method") == "update"]
    assert states[-1]["editing"] is True
    tell, answer = page.comm.publish_msg, view.comm.publish_msg

    def told(msg_type: str, **more: Any) -> None:
        order.append(more["data"]["type"])
        tell(msg_type, **more)

    def answered(msg_type: str, **more: Any) -> None:
        order.append((more["data"] or {}).get("content", {}).get("type", ""))
        answer(msg_type, **more)

    with (
        mock.patch.object(page.comm, "publish_msg", told),
        mock.patch.object(view.comm, "publish_msg", answered),
    ):
        args = {"do": "insert", "name": "exp", "on": [], "op": "n0", "operand": 0, "fields": {}}
        view.comm.say({"type": "ask", "id": 1, "what": "change", "args": args})
        for _ in range(200):
            if "answer" in order:
                break
            time.sleep(0.02)
    assert "answer" in order
    assert order.index("text") < order.index("answer")
    assert "mo.exp" in page.text


def test_two_pages_with_one_path_share_the_graph(comms: list[FakeComm]) -> None:
    first, second = Page("x.mlgraph", text_of()), Page("x.mlgraph", text_of())
    other = Page("y.mlgraph", text_of())
    for page in (first, second, other):
        page.heard()
    assert first.graph is second.graph
    assert first.graph is not other.graph
    assert isinstance(first.graph, Graph)
    Editor(first.graph).insert("exp", "n0", 0)
    following.changed()
    assert first.text == second.text == first.graph.document.text()
    # A page that is loaded again has what the file holds, and gets what was not saved.
    third = Page("x.mlgraph", text_of())
    assert third.text == first.text
    # A file that was changed meanwhile is another document.
    fourth = Page("x.mlgraph", text_of("changed"))
    assert '"changed"' in fourth.text
    assert '"changed"' not in first.text


def test_a_text_from_elsewhere_is_opened_in_its_place(comms: list[FakeComm]) -> None:
    page = Page("x.mlgraph", text_of())
    page.heard()
    before = page.graph
    page.say(type="reopen", text=text_of("reverted"))
    assert page.text == text_of("reverted")
    assert page.graph is not before
    page.say(type="reopen", text="{")
    (failed,) = [m for m in page.heard() if m["type"] == "failed"]
    assert failed["fault"]["code"] == "ML864"
    assert page.text == text_of("reverted")


def test_what_is_no_document_is_told_with_its_place_and_closed(comms: list[FakeComm]) -> None:
    page = Page("bad.mlgraph", text_of().replace("  ]", "<<<<<<< HEAD\n  ]", 1))
    kinds = [(kind, data) for kind, data, _ in page.comm.sent]
    assert kinds[0][1]["fault"]["code"] == "ML864"
    assert kinds[1][0] == "comm_close"
    assert editors._open == []


def test_a_page_of_another_version_is_told(comms: list[FakeComm]) -> None:
    comm = FakeComm(target_name=editors.TARGET, data={}, primary=False)
    get_comm_manager().register_comm(comm)
    asked = {"protocol": PROTOCOL + 1, "path": "x", "text": "", "saved": None}
    editors.opened(comm, {"content": {"data": asked}})
    assert comm.sent[0][1]["fault"]["code"] == "ML863"
    page = Page("x.mlgraph", text_of())
    page.heard()
    page.say(type="nonsense")
    assert [m["type"] for m in page.heard()] == ["failed"]


# ---------------------------------------------------------------- trust
def custom_text(kernels: str = KERNELS) -> str:
    with Graph("g", input_types=[ROW], custom_extensions=[kernels]) as graph:
        graph.output(*ops.custom("thrice_here", DeviceRef.CPU(), [graph.inputs[0]], [ROW]))
    return graph.document.text()


def trusted(page: Page) -> tuple[bool, list[str]]:
    found = [m for m in page.heard() if m["type"] == "trusted"][-1]
    return found["trusted"], found["kernels"]


def test_kernels_of_a_stranger_are_trusted_by_the_user_once(comms: list[FakeComm]) -> None:
    text = custom_text(KERNELS.replace("3 *", "3 * 1 *"))
    with mock.patch.dict(custom.DECLARED, clear=True):  # as in another process
        page = Page("x.mlgraph", text)
        assert trusted(page) == (False, ["thrice_here"])
        assert isinstance(page.graph, Graph)
        with pytest.raises(ArgumentError, match="ML760"):
            engine.InferenceSession().load(page.graph)
        page.say(type="saved", number=0)  # which trusts nothing
        page.close()
        page = Page("x.mlgraph", text)
        assert trusted(page) == (False, ["thrice_here"])
        page.say(type="trust")
        assert trusted(page) == (True, ["thrice_here"])
        page.close()
    with mock.patch.dict(custom.DECLARED, clear=True):
        assert trusted(Page("elsewhere.mlgraph", text)) == (True, ["thrice_here"])
    with mock.patch.dict(custom.DECLARED, clear=True):
        changed = text.replace("3 * 1 *", "3 * 2 *")
        assert trusted(Page("x.mlgraph", changed)) == (False, ["thrice_here"])


def test_what_is_saved_with_trust_is_trusted_afterwards(comms: list[FakeComm]) -> None:
    text = custom_text(KERNELS.replace("3 *", "3 * 4 *"))
    page = Page("x.mlgraph", text)
    page.heard()
    assert isinstance(page.graph, Graph)
    Editor(page.graph).add("exp", "input0")
    following.changed()
    edited = page.text
    page.say(type="saved", number=page.number)
    with mock.patch.dict(custom.DECLARED, clear=True):
        assert trusted(Page("y.mlgraph", text))[0] is False
        assert trusted(Page("y.mlgraph", edited))[0] is True


def test_a_document_without_kernels_needs_no_trust(comms: list[FakeComm]) -> None:
    assert trusted(Page("x.mlgraph", text_of())) == (True, [])


def test_open_recalls_what_this_user_saved(tmp_path: Path) -> None:
    path = tmp_path / "g.mlgraph"
    graph = graph_of(custom_text(KERNELS.replace("3 *", "5 *")), "g")
    graph.save(path)
    with mock.patch.dict(custom.DECLARED, clear=True):
        opened = maxlab.open(path)
        assert isinstance(opened, Graph)
        engine.InferenceSession().load(opened)
    with mock.patch.dict(custom.DECLARED, clear=True):
        path.write_text(path.read_text().replace("5 *", "6 *"))
        opened = maxlab.open(path)
        assert isinstance(opened, Graph)
        opened.save(path)  # seen, edited and saved, and still not trusted
        for _ in range(2):
            opened = maxlab.open(path)
            assert isinstance(opened, Graph)
            with pytest.raises(ArgumentError, match="ML760"):
                engine.InferenceSession().load(opened)


def test_where_nothing_can_be_remembered_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(blocked / "data"))
    path = tmp_path / "g.mlgraph"
    graph = graph_of(custom_text(KERNELS.replace("3 *", "7 *")), "g")
    graph.save(path)
    with mock.patch.dict(custom.DECLARED, clear=True):
        opened = maxlab.open(path)
        assert isinstance(opened, Graph)
        with pytest.raises(ArgumentError, match="ML760"):
            engine.InferenceSession().load(opened)


def test_edit_shows_the_graph_with_editing_on(comms: list[FakeComm]) -> None:
    graph = graph_of(text_of(), "g")
    view = graph.edit(height=300)
    assert (view.shown, view.editing, view.height) == (graph, True, 300)


@pytest.mark.parametrize("is_in_folder", [True, False])
def test_large_weights_of_the_palette_are_written_beside_the_document(
    comms: list[FakeComm], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_in_folder: bool
) -> None:
    """Before the page has a text that names the file; where the kernel is elsewhere the text names
    none, and has all else."""
    monkeypatch.chdir(tmp_path)
    row = TensorType(DType.float32, ["n", 64])
    first = Graph("net", lambda x: ops.relu(x.tensor), [row])
    if is_in_folder:
        first.save("net.mlgraph")
    page = Page("folder/net.mlgraph", first.document.text())
    page.heard()
    mine: Any = page.graph
    editor = Editor(mine)
    change(mine, "add", "nn.Linear", ("input0",), "", 0, out_dim="32", weights=NAMED)
    following.changed()
    text = page.text
    (name,) = [str(op.attrs["name"]) for op in mine.function.ops if is_weight(op)]
    files = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert len(files) == is_in_folder
    assert all(file in text for file in files)
    assert name in text
    if is_in_folder:
        again = Page("folder/net.mlgraph", text)
        again.heard()
        found: Any = again.graph
        want = mine.document.weights[name]
        assert (found.document.weights[name] == want).all()
        again.close()
    editor.undo()
    following.changed()
    assert page.text == first.document.text()
    page.close()
