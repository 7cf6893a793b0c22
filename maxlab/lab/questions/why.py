"""The question ``why``: whether two operations share a kernel, and by which rule of the schedule.

``args`` are ``{"a": id, "b": id}``. The answer is ``{version: 1, a, b, together, kernelA, kernelB,
rule, reason, try}``; the kernels are null for what no kernel computes, and ``try`` is Python that
would change it, or empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxlab.analysis.fusion import why
from maxlab.lab.questions import Answer, Shown, model_of, question


@question("why")
def answer(shown: Shown, args: Mapping[str, Any]) -> Answer:
    """Whether two operations share a kernel."""
    found = why(model_of(shown), str(args.get("a", "")), str(args.get("b", "")))
    return Answer(
        {
            "version": 1,
            "a": found.a,
            "b": found.b,
            "together": found.together,
            "kernelA": found.kernels[0],
            "kernelB": found.kernels[1],
            "rule": found.rule,
            "reason": found.reason,
            "try": found.attempt,
        }
    )
