"""Plans and differences of plans as pages: whole, escaped, and of a size that a notebook bears."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from maxlab import engine
from maxlab.compiler.options import Options
from maxlab.compiler.plan import Plan
from maxlab.compiler.plan_changes import diff_page
from maxlab.compiler.plan_html import MOST, STYLE, plan_page
from maxlab.compiler.plan_text import holds, legend, touched_slots
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, Weight, ops
from scripts.structure.plans import plans
from tests.compiler.test_plan_file import plan_of

PLANS = list(plans())
HOSTILE = "</div><script>alert('&')</script>\x1b"
VOID = {"br", "meta"}


class Page(HTMLParser):
    """The tables of a page as lists of rows of texts; fails where tags do not nest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "br" and self.open[-1] in ("td", "small"):
            self.tables[-1][-1][-1] += "\n"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += data


@pytest.mark.parametrize("plan", PLANS, ids=repr)
def test_every_step_and_buffer_has_a_row(plan: Plan) -> None:
    page = Page(plan._repr_html_())
    (heads, *steps), (_, *buffers) = page.tables
    assert len(steps) == len(plan.steps)
    column = {name: n for n, name in enumerate(heads)}
    for step, row in zip(plan.steps, steps, strict=True):
        written, read = touched_slots(step)
        assert row[0] == step.id
        assert row[column["does"]].startswith(step.name)
        assert step.kind in row[column["does"]]
        for name, slots in (("reads", read), ("writes", written)):
            assert re.findall(r"\bb\d+ ", row[column[name]]) == [f"b{n} " for n in slots]
        assert str(step.parallel) == row[column["items"]]
        assert str(step.flops) in row[column["costs"]] or str(step.flops) == "0"
    assert [row[0] for row in buffers] == [slot.id for slot in plan.slots]
    for slot, row in zip(plan.slots, buffers, strict=True):
        assert slot.kind in row[1]
        assert str(slot.nbytes) in row
        assert slot.dtype.name in row[3]
        assert slot.kind == "packed" or holds(slot) in row[2]
    for word, note in legend(plan):
        assert word in page.text
        assert note in page.text


def test_who_reads_whose_buffer() -> None:
    with Graph("two", input_types=[TensorType(DType.float32, ["n", 64])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.softmax(x @ Weight("w", DType.float32, [64, 64])))
    page = Page(plan_of(graph.function)._repr_html_())
    (heads, first, second), buffers = page.tables
    reads, writes = heads.index("reads"), heads.index("writes")
    assert first[reads].splitlines() == ["b1 input 0, input0", "b3 w in panels"]
    assert first[writes] == "b0 for k1"
    assert second[reads] == "b0 of k0"
    assert second[writes] == "b4 output 0"
    assert second[heads.index("scratch")] == "512"
    assert "extent n" in second[heads.index("launch")]
    rows = {row[0]: row for row in buffers}
    assert rows["b0"][-2:] == ["k0", "k1"]
    assert "in use from k0 to k1" in rows["b0"][2]


def test_names_of_users_stay_text() -> None:
    with Graph(HOSTILE, input_types=[TensorType(DType.float32, ["n", 4])]) as graph:
        weight = Weight(HOSTILE, DType.float32, [4, 4])
        graph.output(ops.softmax(graph.inputs[0].tensor @ weight))
    plan, other = plan_of(graph.function), plan_of(graph.function, Options(fuse=False))
    other.facts.name = "other" + HOSTILE
    other.steps[0].name = HOSTILE
    for made in (plan._repr_html_(), plan.diff(other)._repr_html_()):
        page = Page(made)
        assert "script" not in page.tags
        assert "</div><script>" in page.text
        assert "\x1b" not in made


def long_plan(number: int) -> Plan:
    with Graph("long", input_types=[TensorType(DType.float32, ["n", 4])]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(number):
            x = ops.softmax(x)
        graph.output(x)
    return plan_of(graph.function, Options(fuse=False))


def test_a_long_plan_is_cut_with_a_sentence() -> None:
    plan = long_plan(1000)
    assert len(plan.steps) == 1000
    made = plan._repr_html_()
    page = Page(made)
    assert [len(table) - 1 for table in page.tables] == [MOST, MOST]
    assert f"The first {MOST} of 1000 steps are shown; print(…) of it lists all." in page.text
    assert f"The first {MOST} of {len(plan.slots)} buffers are shown" in page.text
    assert len(made) < 400_000
    assert "are shown" not in Page(plan_page(plan, 2000)).text
    found = plan.diff(long_plan(300))
    assert len(found.steps) >= 700
    assert f"of {len(found.steps)} steps are shown" in Page(found._repr_html_()).text
    assert len(found._repr_html_()) < 400_000


def test_a_difference_has_a_row_for_each_change() -> None:
    one, other = PLANS[0], PLANS[1]
    found = one.diff(other)
    page = Page(diff_page(found))
    steps, buffers = page.tables[:2]
    assert [row[:2] for row in steps[1:]] == [[c.kind, c.ids] for c in found.steps]
    assert [row[:2] for row in buffers[1:]] == [[c.kind, c.ids] for c in found.buffers]
    assert found.headline in page.text
    assert Page(one.diff(one)._repr_html_()).text == f"The plans are equal: {found.before}"


def test_a_plan_without_steps() -> None:
    page = Page(Plan()._repr_html_())
    assert page.text == "Plan of a graph · 0 steps, 0 buffers"


def test_the_page_follows_the_theme() -> None:
    """Each colour is JupyterLab's, or VS Code's, or that of a light or a dark page."""
    names = set(re.findall(r"var\((--mp-\w+)\)", STYLE))
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)")
    for name in names:
        for half in (light, dark):
            found = re.search(
                name + r": var\((--jp-[\w-]+), var\((--vscode-[\w-]+), (#\w+)\)\)", half
            )
            assert found is not None, name
    assert not re.search(r"(?<!-)\b(color|background): #", STYLE), "a colour that no theme changes"


def test_a_loaded_model_shows_its_plan() -> None:
    graph = Graph("f", lambda x: x * 2, [TensorType(DType.float32, [3])])
    model = engine.InferenceSession().load(graph)
    assert Page(model.plan._repr_html_()).tables[0][1][0] == "k0"
    np.testing.assert_array_equal(model(np.ones(3, np.float32))[0].to_numpy(), [2, 2, 2])
