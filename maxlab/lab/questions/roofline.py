"""The question ``roofline``: each kernel against the measured ceilings of the machine."""

from __future__ import annotations

import math

from maxlab.analysis.machine.ceilings import BUSY
from maxlab.analysis.roofline import Roofline, roofline
from maxlab.engine.profile import Profile
from maxlab.lab.protocol.costs import NoArgs, RooflineAnswer
from maxlab.lab.protocol.questions import ROOFLINE
from maxlab.lab.questions.asking import Answer, Shown, profile_of, question, saved


@question(ROOFLINE)
def answer(shown: Shown, args: NoArgs) -> Answer[RooflineAnswer]:
    """The roofline of the newest profile; measures the ceilings if that was not done yet."""
    return Answer(told(roofline(profile_of(shown))))


@saved(ROOFLINE)
def to_save(profile: Profile) -> RooflineAnswer | None:
    """The roofline, if the ceilings are known: displaying measures nothing."""
    try:
        return told(roofline(profile, measure=False))
    except LookupError:
        return None


def told(found: Roofline) -> RooflineAnswer:
    """A roofline as its answer; rates in GB/s and GFLOP/s, times in ns."""
    roof, machine = found.ceilings, found.machine
    return {
        "version": 2,
        "device": found.device if machine is None else machine.name,
        "simulated": found.simulated,
        "threads": roof.threads if roof else 0,
        "note": BUSY if machine is not None and machine.was_busy else "",
        "measured_at": machine.measured_at if machine is not None else None,
        "ceilings": {
            "bandwidth": [{"name": level.name, "gbs": _short(level.best)} for level in roof.levels]
            if roof
            else [],
            "compute": [{"name": rate.name, "gflops": _short(rate.gflops)} for rate in roof.rates]
            if roof
            else [],
        },
        "points": [
            {
                "kernel": p.kernel,
                "flops": p.flops,
                "bytes": p.nbytes,
                "ns": round(p.ns),
                "gflops": _short(p.gflops),
                "gbs": _short(p.gbs),
                "intensity": _short(p.intensity) if math.isfinite(p.intensity) else None,
                "bound": p.bound,
                "fraction": _short(p.fraction) if p.fraction is not None else None,
                "level": p.level,
                "why": p.why,
            }
            for p in found.points
        ],
    }


def _short(value: float) -> float:
    """``value`` with four digits: more are noise, and are saved in notebooks."""
    return float(f"{value:.4g}")
