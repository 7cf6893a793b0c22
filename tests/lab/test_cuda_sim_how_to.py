"""The table of options in ``docs/how-to/debug-a-cuda-kernel.md``."""

from __future__ import annotations

import re

from maxlab.driver.sim.record import MOST_EVENTS
from maxlab.lab.cuda_sim.magic import _parser
from tests.pages import DOCS

PAGE = DOCS / "how-to" / "debug-a-cuda-kernel.md"


def test_every_option_is_in_the_table() -> None:
    table = set(re.findall(r"`(--[a-z-]+)`", PAGE.read_text("utf-8")))
    options = {option for action in _parser()._actions for option in action.option_strings}
    assert table == options - {"--check"}
    assert f"{MOST_EVENTS:,}" in PAGE.read_text("utf-8")
