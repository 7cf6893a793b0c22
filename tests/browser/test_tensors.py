"""A tensor as the last value of a cell: its numbers, its histogram, and the graph that made it."""

from __future__ import annotations

import pytest

from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

CELL = """\
import numpy as np
from maxlab.experimental import functional as F, random
from maxlab.experimental.tensor import Tensor

x = random.gaussian((40, 8))
hidden = F.tanh(x * 1.5 + 0.25)
scores = F.softmax(hidden / F.relu(x[:, :1]))
scores"""

REST = "(hidden.real, (hidden + 1).real)"


def test_a_tensor_shows_itself(lab: LabPage, server: LabServer, theme: str) -> None:
    lab.page.set_viewport_size({"width": 900, "height": 900})
    lab.open_notebook(write_notebook(server.root, f"tensor-{theme}.ipynb", []))
    lab.run_code(CELL)
    bars = lab.page.get_by_role("img", name="histogram from")
    bars.wait_for()
    assert lab.page.locator(".maxlab-histogram").get_by_text("NaN").is_visible()
    box = bars.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900, "many rows push the histogram out of sight"
    assert lab.barriers(".maxlab-histogram") == []
    lab.shot(f"tensor-{theme}")
    lab.page.get_by_role("button", name="Draw the graph").click()
    view = lab.visible_view()
    names = [node["label"] for node in view.nodes()]
    assert any("tanh" in name for name in names), names
    lab.shot(f"tensor-graph-{theme}")
    shown = lab.run_code(REST)
    assert [o["data"]["text/plain"] for o in shown if "data" in o] == ["(True, False)"]
    assert lab.errors == []


COMPILED = """\
import torch
import maxlab.torch

class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.second = torch.nn.Linear(16, 4)

    def forward(self, x):
        return torch.softmax(self.second(torch.relu(self.first(x))), -1)

model = torch.compile(Classifier(), backend="maxlab")
with torch.no_grad():
    model(torch.ones(3, 8))
maxlab.torch.last()"""


def test_a_model_of_torch_compile_is_drawn_with_its_costs(
    lab: LabPage, server: LabServer, theme: str
) -> None:
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    lab.page.set_viewport_size({"width": 900, "height": 900})
    lab.open_notebook(write_notebook(server.root, f"compiled-{theme}.ipynb", []))
    lab.run_code(COMPILED)
    view = lab.visible_view()
    names = [node["label"] for node in view.nodes()]
    assert any("relu" in name for name in names), names
    assert lab.barriers(".jp-MaxLab-view") == []
    lab.shot(f"compiled-{theme}")
    lab.run_code("print(maxlab.torch.last().profile(runs=3).kernels[0].ns > 0)")
    lab.shot(f"compiled-profiled-{theme}")
    assert lab.errors == []
