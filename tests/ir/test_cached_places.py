"""Places of errors behind cached properties of maxlab, which Python's ``functools`` calls."""

from __future__ import annotations

from typing import Any

import maxlab

SOURCE = """
from functools import cached_property
from maxlab.ir.source import user_location

class Asking:
    @cached_property
    def place(self):
        return user_location()
"""


def test_the_place_is_a_line_of_the_user() -> None:
    made: dict[str, Any] = {}
    exec(compile(SOURCE, maxlab.__file__, "exec"), made)
    assert "test_cached_places.py" in str(made["Asking"]().place)
