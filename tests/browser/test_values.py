"""Values and reports as the last value of a cell, in a window that is narrower than they are."""

from __future__ import annotations

import pytest

from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer

pytestmark = pytest.mark.browser

WIDE = """
import numpy as np
from maxlab.driver import Tensor
Tensor.from_numpy(np.full((3, 5), -0.123456789))
"""


def test_they_can_be_read_in_a_narrow_window(lab: LabPage, server: LabServer) -> None:
    lab.page.set_viewport_size({"width": 900, "height": 900})
    lab.open_notebook(write_notebook(server.root, "values.ipynb", []))
    lab.run_code(WIDE)
    numbers = lab.page.locator(".maxlab-tensor pre")
    rows = numbers.evaluate(
        """pre => {
            const { lineHeight } = getComputedStyle(pre);
            return Math.round(pre.clientHeight / parseFloat(lineHeight));
        }"""
    )
    assert rows == 3, "a row of the tensor is one line, and the rest of it is scrolled to"
    lab.shot("values-tensor")
    lab.run_code("import maxlab\nmaxlab.doctor()")
    card = lab.page.locator(".maxlab-doctor")
    card.wait_for()
    over = card.evaluate(
        "card => card.getBoundingClientRect().right"
        " - card.closest('.jp-OutputArea-output').getBoundingClientRect().right"
    )
    assert over <= 0, f"{over} pixels of the report are cut off"
    lab.shot("values-doctor")
