"""The question ``passes``: what the stages of the compiler made of a graph."""

from __future__ import annotations

import weakref

from maxlab.analysis.stages import Stage, stages
from maxlab.engine import Model
from maxlab.errors import ArgumentError
from maxlab.lab.protocol.checks import PassesAnswer, PassesArgs, StageCounts
from maxlab.lab.protocol.questions import PASSES
from maxlab.lab.questions.asking import Answer, Shown, model_of, question

_newest: weakref.WeakKeyDictionary[Model, list[Stage]] = weakref.WeakKeyDictionary()
"""The stages of models that were asked about: a slider asks for one after the other."""


@question(PASSES)
def answer(shown: Shown, args: PassesArgs) -> Answer[PassesAnswer]:
    """The list of stages, or one of them."""
    model = model_of(shown)
    found = _newest.get(model)
    if found is None:
        found = _newest[model] = stages(model)
    number = args.get("stage")
    if number is None:
        return Answer(
            {"version": 2, "kind": "stages", "stages": [_listed(stage) for stage in found]}
        )
    if not 0 <= number < len(found):
        raise ArgumentError(
            "ML806",
            f"there is no stage {number!r}: they are 0 to {len(found) - 1}",
            fix="reload the page",
        )
    stage = found[number]
    return Answer(
        {
            "version": 2,
            "kind": "stage",
            "stage": number,
            "name": stage.name,
            "nodes": {
                id: {
                    "state": fate.state,
                    "kernel": fate.kernel,
                    "rule": fate.rule,
                    "changed": fate.changed,
                }
                for id, fate in stage.nodes.items()
                if fate.state != "kept" or fate.kernel is not None or fate.rule
            },
            "rewrites": [
                {"rule": r.rule, "node": r.node, "op": r.op, "into": list(r.into), "text": r.text}
                for r in stage.rewrites
            ],
        }
    )


def _listed(stage: Stage) -> StageCounts:
    counts = stage.counts
    return {
        "name": stage.name,
        "before": stage.before,
        "after": stage.after,
        "ms": None if stage.ns is None else round(stage.ns / 1e6, 3),
        "added": stage.added,
        "kept": counts.get("kept", 0),
        "rewritten": counts.get("rewritten", 0),
        "folded": counts.get("folded", 0),
        "removed": counts.get("removed", 0),
        "fused": counts.get("fused", 0),
    }
