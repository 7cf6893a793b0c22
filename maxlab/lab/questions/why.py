"""The question ``why``: whether two operations share a kernel, and by which rule."""

from __future__ import annotations

from maxlab.analysis.fusion import why
from maxlab.lab.protocol.checks import WhyAnswer, WhyArgs
from maxlab.lab.protocol.questions import WHY
from maxlab.lab.questions.asking import Answer, Shown, model_of, question


@question(WHY)
def answer(shown: Shown, args: WhyArgs) -> Answer[WhyAnswer]:
    """Whether two operations share a kernel."""
    found = why(model_of(shown), args["a"], args["b"])
    return Answer(
        {
            "version": 2,
            "a": found.a,
            "b": found.b,
            "together": found.together,
            "kernel_a": found.kernels[0],
            "kernel_b": found.kernels[1],
            "rule": found.rule,
            "reason": found.reason,
            "attempt": found.attempt,
        }
    )
