"""Tables of HTML: what is in their cells stays text, and what they say can be told apart."""

from __future__ import annotations

import re

from maxlab.markup import Html, table


def test_cells_are_texts_unless_they_are_html() -> None:
    page = table(["a<b", "c"], [["<script>", Html("<i>x</i>")]], caption='"&"')
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<i>x</i>" in page
    assert "a&lt;b" in page
    assert '<caption>"&amp;"</caption>' in page


def test_columns_to_the_right_and_groups() -> None:
    page = table(["name", "size"], [["weights"], ["w", "1"], ["v", "2"]], right=(1,))
    assert page.count('class="right"') == 3
    assert page.count('class="group" colspan="2" scope="rowgroup">weights<') == 1
    assert len(re.findall("<tr>", page)) == 4


def test_without_heads_there_is_no_head() -> None:
    page = table((), [["one"], ["two"]])
    assert "<thead>" not in page
    assert page.count('<th scope="row">') == 2
