"""The question ``rerun``: what differs from the graph that the same cell showed before."""

from __future__ import annotations

from maxlab import trace
from maxlab.engine.profile import Profile
from maxlab.lab.protocol.files import RerunAnswer
from maxlab.lab.protocol.questions import RERUN
from maxlab.lab.questions.asking import Answer, Shown, model_of, question


@question(RERUN)
def rerun(shown: Shown, args: object) -> Answer[RerunAnswer]:
    """Both graphs in one document, with the list of differences."""
    # What draws graphs saves answers with them, and so knows this module.
    compared = trace.reading("diff_of_run")
    count, packed = compared(model_of(shown) if isinstance(shown, Profile) else shown)
    return Answer({"version": 1, "count": count, "document": packed})


__all__ = ["rerun"]
