"""The program of a graph: the question ``python``."""

from __future__ import annotations

from maxlab.engine.times import plural
from maxlab.lab.protocol.changes import PythonAnswer
from maxlab.lab.protocol.costs import NoArgs
from maxlab.lab.protocol.questions import PYTHON
from maxlab.lab.questions.asking import Answer, Shown, question
from maxlab.lab.questions.change import editor_of


@question(PYTHON)
def python(shown: Shown, args: NoArgs) -> Answer[PythonAnswer]:
    """The text of the program that builds the graph."""
    text = editor_of(shown).graph.to_python()
    said = f"copied {plural(text.count(chr(10)), 'line')} of Python"
    return Answer({"version": 1, "text": text, "said": said})
