"""The question ``compile``: what compiling a model took.

The answer is ``{version: 1, options, phases: [{name, ns, text}], units: [{kernels, name, symbol,
hit, why, ms, lines, library}]}``. A unit is one text; ``kernels`` are all steps that it is the code
of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxlab.analysis.compile_report import PHASES, compile_report
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.lab.questions import Answer, Shown, model_of, question, saved


@question("compile")
def answer(shown: Shown, args: Mapping[str, Any]) -> Answer:
    """The compile report."""
    return Answer(_data(model_of(shown)))


@saved("compile")
def save(profile: Profile) -> Mapping[str, Any]:
    """The compile report of the profile's model."""
    return _data(profile.model)


def _data(model: Model) -> dict[str, Any]:
    report = compile_report(model)
    return {
        "version": 1,
        "options": report.options,
        "phases": [{"name": n, "ns": ns, "text": PHASES[n]} for n, ns in report.phases.items()],
        "units": [
            {
                "kernels": list(unit.kernels),
                "name": unit.name,
                "symbol": unit.symbol,
                "hit": unit.hit,
                "why": unit.why,
                "ms": round(unit.ms, 3),
                "lines": unit.lines,
                "library": unit.library,
            }
            for unit in report.units
        ],
    }
