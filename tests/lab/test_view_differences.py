"""What travels between the kernel and a page when a graph that is shown changes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from maxlab.ir import Op
from maxlab.ir.edit_log import listen
from maxlab.lab import GraphView, differences, revisions, snapshot, widget
from maxlab.lab.seen import Seen
from maxlab.lab.snapshot import take
from tests.lab.conftest import FakeComm
from tests.lab.graphs import layered, load, registry, small

PROTOCOL = {"protocol": 2}


def long(steps: int = 333) -> Graph:
    """A graph of three ops a step, an output included."""
    with Graph("long", input_types=[TensorType(DType.float32, ["n", 16])]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(steps):
            x = ops.tanh(x * 2)
        graph.output(x)
    return graph


class Page:
    """A page that holds a document, and counts what it sends and gets."""

    def __init__(self, comm: FakeComm) -> None:
        self.comm = comm
        self.bytes = 0
        self.kinds: list[str] = []
        self.revision = -1
        self.document: Any = None

    def open(self) -> Page:
        """Ask for the document."""
        self.say({"type": "need_document", **PROTOCOL})
        self.bytes, self.kinds = 0, []
        return self

    def say(self, content: Any) -> None:
        """Send a message, and take what comes back."""
        self.bytes += len(json.dumps(content))
        self.comm.say(content)
        self.take()

    def take(self) -> None:
        """Do what the messages say that came meanwhile, as the front end does."""
        sent, self.comm.sent = self.comm.sent, []
        for _, data, buffers in sent:
            self.bytes += len(json.dumps(data)) + sum(map(len, buffers))
            if data.get("method") != "custom":
                continue
            content = data["content"]
            self.kinds.append(content["type"])
            if content["type"] == "document":
                self.comm.sent = [("", data, buffers)]
                self.document = json.loads(self.comm.document())
                self.revision = content["revision"]
            elif content["type"] == "difference" and content["since"] == self.revision:
                self.document = differences.applied(self.document, content["difference"])
                self.revision = content["revision"]


@pytest.fixture
def page(comms: list[FakeComm]) -> Callable[[GraphView], Page]:
    """Opens a view in a page."""
    return lambda view: Page(comms[-1]).open()


def middle(graph: Graph) -> Op:
    """A ``tanh`` in the middle of a long graph."""
    return next(op for op in graph.function.ops[500:] if op.name == "mo.tanh")


def attribute(graph: Graph) -> None:
    middle(graph).set_attr("axis", 3)


def added(graph: Graph) -> None:
    with graph:
        ops.relu(graph.inputs[0].tensor)


def added_between(graph: Graph) -> None:
    function, op = graph.function, middle(graph)
    made = function.create("mo.relu", [op.result], [op.result.type])
    op.result.replace_with(made.result)
    made.set_operands([op.result])
    function.block.insert(made, function.ops[function.ops.index(op) + 1])


def removed(graph: Graph) -> None:
    op = middle(graph)
    op.result.replace_with(op.operands[0])
    graph.function.block.remove(op)


def output(graph: Graph) -> None:
    with graph, pytest.warns(UserWarning, match="replaces it"):
        graph.output(graph.inputs[0].tensor)


def renamed(graph: Graph) -> None:
    middle(graph).result.rename("hidden")


CHANGES = [attribute, added, added_between, removed, output, renamed]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_one_node_in_a_thousand(
    page: Callable[[GraphView], Page],
    change: Callable[[Graph], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = long()
    assert len(graph.function.ops) == 1000
    view = GraphView(graph)
    opened = page(view)
    made: list[str] = []
    make = snapshot._node

    def counted(shown: Any, path: str) -> Any:
        made.append(shown.op.id)
        return make(shown, path)

    monkeypatch.setattr(snapshot, "_node", counted)
    change(graph)
    view.update()
    opened.take()
    assert opened.kinds == ["difference"]
    assert opened.bytes < 4_000
    assert len(made) <= 3
    monkeypatch.undo()
    assert opened.document == view.document == take(graph).document


def test_all_changes_one_after_the_other(page: Callable[[GraphView], Page]) -> None:
    graph = long()
    view = GraphView(graph)
    opened = page(view)
    for change in (*CHANGES, *CHANGES):
        change(graph)
        view.update()
        opened.take()
        assert opened.document == take(graph).document
    assert opened.kinds == ["difference"] * 2 * len(CHANGES)


@pytest.mark.parametrize("seed", range(8))
def test_random_edits_undone_and_done_again(page: Callable[[GraphView], Page], seed: int) -> None:
    rng = random.Random(seed)
    graph = layered(3)
    view = GraphView(graph)
    opened = page(view)
    log = listen(graph.function)
    for _ in range(25):
        for _ in range(rng.randint(1, 3)):
            op = rng.choice([op for op in graph.function.ops if op.name != "mo.output"])
            with log.transaction():
                edit(graph, op, rng)
        if rng.random() < 0.4:
            log.undo()
            if rng.random() < 0.5:
                log.redo()
        view.update()
        opened.take()
        assert opened.document == take(graph).document
    assert len(opened.kinds) == 25


def edit(graph: Graph, op: Op, rng: random.Random) -> None:
    """One of all kinds of edits of ``op``."""
    function = graph.function
    kind = rng.randrange(7)
    if kind == 0:
        op.set_attr("note", rng.randrange(9))
    elif kind == 1:
        op.set_source(scope=rng.choice(["", "layer.1", "layer.2.up", "other.1", "other"]))
    elif kind == 2 and op.results:
        op.results[0].rename(rng.choice(["", "hidden", "y"]))
    elif kind == 3 and op.results:
        made = function.create("mo.relu", [op.results[0]], [op.results[0].type], scope=op.scope)
        function.block.insert(made, function.ops[function.ops.index(op) + 1])
    elif kind == 4 and op.operands and op.results:
        op.results[0].replace_with(op.operands[0])
        function.block.remove(op)
    elif kind == 5 and op.operands:
        op.set_operand(0, function.inputs[0])
    elif function.ops[-1].name == "mo.output":
        function.ops[-1].set_operands([function.inputs[0]])


@pytest.mark.parametrize("body", ["cond", "while"])
def test_regions_and_scopes(page: Callable[[GraphView], Page], body: str) -> None:
    types = [TensorType(DType.float32, [4])]
    with Graph("regions", input_types=types) as graph:
        x = graph.inputs[0].tensor
        if body == "while":
            [x] = (v.tensor for v in ops.while_loop([x], lambda y: y[0] < 4, lambda y: [y + 1]))
        else:
            [x] = (
                v.tensor for v in ops.cond(x[0] < 4, types, lambda: ops.exp(x), lambda: ops.tanh(x))
            )
        graph.output(x)
    view = GraphView(graph)
    opened = page(view)
    owner = next(op for op in graph.function.ops if op.regions)
    inner = owner.regions[1].ops[0]
    changes: list[Callable[[], object]] = [
        lambda: inner.set_attr("axis", 1),
        lambda: inner.set_source(scope="elsewhere"),
        lambda: owner.set_source(scope="above"),
        lambda: owner.results[0].rename("y"),
        lambda: owner.set_operand(0, owner.operands[0]),
    ]
    for change in changes:
        change()
        view.update()
        opened.take()
        assert opened.document == take(graph).document
    assert set(opened.kinds) == {"difference"}


def test_fingerprints_of_scopes_follow(page: Callable[[GraphView], Page]) -> None:
    graph = layered()
    view = GraphView(graph)
    opened = page(view)
    op = next(op for op in graph.function.ops if op.scope == "layer.3")
    before = {s["path"]: s["fingerprint"] for s in view.document["scopes"]}
    op.set_attr("extra", 1)
    view.update()
    opened.take()
    after = {s["path"]: s["fingerprint"] for s in view.document["scopes"]}
    assert [path for path in after if after[path] != before[path]] == ["layer.3"]
    assert opened.document == take(graph).document


def test_nothing_that_changed_is_a_small_message(page: Callable[[GraphView], Page]) -> None:
    view = GraphView(long())
    opened = page(view)
    view.update()
    opened.take()
    assert opened.bytes < 400


def test_a_profile_brings_no_nodes(page: Callable[[GraphView], Page]) -> None:
    model = load(layered(), weights_registry=registry())
    view = GraphView(model)
    opened = page(view)
    before = view.document
    opened.say({"type": "profile", **PROTOCOL})
    assert opened.document["profile"] is not None
    found = differences.difference(before, view.document)
    assert found is not None
    assert set(found) == {"revision", "profile", "answers"}
    assert opened.document == json.loads(json.dumps(view.document))


def test_without_a_log_documents_are_compared(page: Callable[[GraphView], Page]) -> None:
    graph = long()
    view = GraphView(graph)
    opened = page(view)
    attribute(graph)
    graph.function.log = None  # what was changed is not known any more
    removed(graph)
    view.update()
    opened.take()
    assert opened.kinds == ["difference"]
    assert opened.bytes < 4_000
    assert opened.document == take(graph).document


def test_another_graph_comes_whole(page: Callable[[GraphView], Page]) -> None:
    view = GraphView(small())
    opened = page(view)
    view.update(small("other"))
    opened.take()
    assert opened.kinds == ["document"]
    assert opened.document["name"] == "other"


def test_the_document_is_sent_where_it_is_shorter(page: Callable[[GraphView], Page]) -> None:
    graph = long()
    view = GraphView(graph)
    opened = page(view)
    for op in graph.function.ops[:600]:
        op.set_attr("axis", 1)
    view.update()
    opened.take()
    assert opened.kinds == ["document"]
    assert opened.document == take(graph).document


# ---------------------------------------------------------------- pages that missed something


def missed(view: GraphView, opened: Page, times: int) -> None:
    """Change the graph ``times`` times without a word to the page."""
    graph = view.shown
    assert isinstance(graph, Graph)
    for turn in range(times):
        middle(graph).set_attr("axis", turn)
        view.update()
    opened.comm.sent = []


def test_a_page_asks_for_what_it_missed(page: Callable[[GraphView], Page]) -> None:
    view = GraphView(long())
    opened = page(view)
    missed(view, opened, 3)
    opened.say({"type": "need_since", "revision": opened.revision, **PROTOCOL})
    assert opened.kinds == ["difference"] * 3
    assert opened.bytes < 4_000
    assert opened.document == view.document


@pytest.mark.parametrize("revision", [-1, 3, 99, 2**40])
def test_an_unknown_revision_gets_the_whole(
    page: Callable[[GraphView], Page], revision: int
) -> None:
    view = GraphView(long())
    opened = page(view)
    missed(view, opened, 3)
    opened.say({"type": "need_since", "revision": revision, **PROTOCOL})
    assert opened.kinds == ["document"]
    assert opened.document == view.document


def test_old_differences_are_forgotten(
    page: Callable[[GraphView], Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revisions, "KEPT_BYTES", 2_000)
    view = GraphView(long())
    opened = page(view)
    missed(view, opened, 20)
    kept = view._revisions._kept
    assert 0 < len(kept) < 20
    opened.say({"type": "need_since", "revision": 0, **PROTOCOL})
    assert opened.kinds == ["document"]
    assert opened.document == view.document


@pytest.mark.parametrize("content", [{"revision": "0"}, {"revision": None}, {}, {"revision": 1.5}])
def test_a_malformed_request_is_survived(
    page: Callable[[GraphView], Page], content: dict[str, Any]
) -> None:
    view = GraphView(small())
    opened = page(view)
    opened.say({"type": "need_since", **PROTOCOL, **content})
    assert "document" not in opened.kinds
    opened.say({"type": "need_document", **PROTOCOL})
    assert opened.document == json.loads(json.dumps(view.document))


# ---------------------------------------------------------------- cells that end


def test_views_follow_when_a_cell_ends(page: Callable[[GraphView], Page]) -> None:
    graph = long(10)
    view = GraphView(graph)
    opened, other = page(view), GraphView(small())
    widget._follow()
    opened.take()
    assert opened.kinds == []
    added(graph)
    widget._follow()
    opened.take()
    assert opened.kinds == ["difference"]
    assert opened.document == take(graph).document
    assert other.revision == 0


def test_an_error_in_a_graph_is_followed(page: Callable[[GraphView], Page]) -> None:
    graph = small()
    view = GraphView(graph)
    opened = page(view)
    with pytest.raises(Exception, match="matmul"), graph:
        ops.matmul(graph.inputs[0].tensor, graph.inputs[0].tensor)
    widget._follow()
    opened.take()
    assert opened.document["error"]["node"] == "error"
    assert opened.document == json.loads(json.dumps(take(graph).document))
    assert view.revision == 1


def test_one_view_that_fails_leaves_the_others(
    page: Callable[[GraphView], Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = long(5), long(6)
    views = [GraphView(first), GraphView(second)]
    monkeypatch.setattr(views[0], "send", lambda *_: 1 / 0)
    for graph in (first, second):
        added(graph)
    widget._follow()
    assert views[1].revision == 1


def test_what_an_op_reads_is_shown_without_reading_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Graph("chain", input_types=[TensorType(DType.float32, [4, 6])]) as graph:
        x = graph.inputs[0].tensor
        turned = ops.transpose(ops.tanh(x), 0, 1)
        graph.output(turned - ops.transpose(ops.exp(x), 0, 1))
    seen, before = Seen(graph), take(graph)
    function = graph.function
    difference = next(op for op in function.ops if op.name == "mo.sub")
    with monkeypatch.context() as patched:
        patched.setattr("maxlab.lab.seen.retaken", None)
        patched.setattr("maxlab.lab.seen.take", None)
        difference.set_operands(difference.operands[::-1])
        after = seen.retake(graph, before)
    assert after.document == take(graph).document != before.document
    pairs = zip(after.document["nodes"], before.document["nodes"], strict=True)
    assert [new["op"] for new, old in pairs if new is not old] == ["sub"]
