"""The question ``memory``: where the values of a model lie, and when."""

from __future__ import annotations

from maxlab.analysis.memory import MemoryPlan, memory
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.lab.protocol.checks import MemoryAnswer, MemoryArgs
from maxlab.lab.protocol.questions import MEMORY
from maxlab.lab.questions.asking import Answer, Shown, model_of, question, saved

SAVED_OUTSIDE = 12
"""Slots outside of the arena that a saved answer lists, the largest first; totals count all."""


@question(MEMORY)
def answer(shown: Shown, args: MemoryArgs) -> Answer[MemoryAnswer]:
    """The memory plan."""
    dims = args.get("dims")
    if dims is not None and any(size < 0 for size in dims.values()):
        raise ArgumentError("ML806", "the sizes of dims must be numbers", fix="reload the page")
    if dims is None and isinstance(shown, Profile):
        dims = shown.dims
    return Answer(_data(memory(model_of(shown), dims)))


@saved(MEMORY)
def save(profile: Profile) -> MemoryAnswer:
    """The memory plan of the run, without the many small weights."""
    plan = memory(profile.model, profile.dims)
    outside = [slot for slot in plan.slots if slot.offset is None]
    small = {s.id for s in sorted(outside, key=lambda s: -s.nbytes)[SAVED_OUTSIDE:]}
    return _data(plan, small)


def _data(plan: MemoryPlan, without: set[str] | None = None) -> MemoryAnswer:
    return {
        "version": 2,
        "steps": list(plan.steps),
        "slots": [
            {
                "id": slot.id,
                "kind": slot.kind,
                "bytes": slot.nbytes,
                "offset": slot.offset,
                "first": slot.first,
                "last": slot.last,
                "node": slot.node,
                "value": slot.value,
                "name": slot.name,
                "holder": slot.holder,
            }
            for slot in plan.slots
            if without is None or slot.id not in without
        ],
        "arena": plan.arena,
        "peak": plan.peak,
        "peak_step": plan.peak_step,
        "fragmentation": round(plan.fragmentation, 4),
        "weights": plan.nbytes("weight", "constant"),
        "packed": plan.nbytes("packed"),
        "inputs": plan.nbytes("input"),
        "outputs": plan.nbytes("output"),
        "dims": plan.dims,
    }
