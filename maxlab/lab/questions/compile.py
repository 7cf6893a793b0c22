"""The question ``compile``: what compiling a model took."""

from __future__ import annotations

from maxlab.analysis.compile_report import PHASES, compile_report
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.lab.protocol.checks import CompileAnswer
from maxlab.lab.protocol.costs import NoArgs
from maxlab.lab.protocol.questions import COMPILE
from maxlab.lab.questions.asking import Answer, Shown, model_of, question, saved


@question(COMPILE)
def answer(shown: Shown, args: NoArgs) -> Answer[CompileAnswer]:
    """The compile report."""
    return Answer(_data(model_of(shown)))


@saved(COMPILE)
def save(profile: Profile) -> CompileAnswer:
    """The compile report of the profile's model."""
    return _data(profile.model)


def _data(model: Model) -> CompileAnswer:
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
        "chosen": [one.words for one in report.variants],
    }
