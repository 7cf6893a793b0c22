"""The question ``roofline``: each kernel against the measured ceilings of the machine.

    {"version": 1, "device": "AMD EPYC", "simulated": false, "threads": 2, "measuredAt": 1.7e9,
     "note": "",
     "ceilings": {"bandwidth": [{"name": "DRAM", "gbs": 33.2}],
                  "compute": [{"name": "f32 FMA", "gflops": 118.1}]},
     "points": [{"kernel": "k3", "flops": 100, "bytes": 400, "ns": 50, "gflops": 2.0, "gbs": 8.0,
                 "intensity": 0.25, "bound": "bandwidth", "fraction": 0.8, "level": "DRAM",
                 "why": "Its 400 B take …"}]}

A simulated GPU has no ceilings: ``bound`` and ``fraction`` are null there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxlab.analysis.roofline import roofline
from maxlab.engine.profile import Profile
from maxlab.lab.questions import Answer, Shown, profile_of, question, saved


@question("roofline")
def answer(shown: Shown, args: Mapping[str, Any]) -> Answer:
    """The roofline of the newest profile; measures the ceilings if that was not done yet."""
    return Answer(roofline(profile_of(shown)).to_json())


@saved("roofline")
def to_save(profile: Profile) -> Mapping[str, Any] | None:
    """The roofline, if the ceilings are known: displaying measures nothing."""
    try:
        return roofline(profile, measure=False).to_json()
    except LookupError:
        return None
