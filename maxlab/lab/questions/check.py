"""Questions of the panel *Check*: is it right, who makes NaN, and a script that shows a wrong
kernel.

``repro`` writes its files into the folder that the kernel runs in. A comparison is saved with a
notebook when one was made.
"""

from __future__ import annotations

import math
import re
import weakref
from pathlib import Path

from maxlab.analysis.check import Comparison, Difference, NodeCheck, compare, first_nonfinite
from maxlab.analysis.check.result import newest
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.lab.inputs import inputs_for
from maxlab.lab.protocol.checks import (
    CheckedNode,
    CheckedOutput,
    CompareAnswer,
    CompareArgs,
    ComparisonAnswer,
    Differences,
    NanAnswer,
    NanArgs,
    ReproAnswer,
)
from maxlab.lab.protocol.costs import NoArgs
from maxlab.lab.protocol.questions import COMPARE, NAN, REPRO
from maxlab.lab.questions.asking import Answer, Shown, model_of, question, saved

_made: weakref.WeakKeyDictionary[Model, ComparisonAnswer] = weakref.WeakKeyDictionary()
"""The newest comparison of each model, as it was told; it holds nothing of the model."""


@question(COMPARE)
def compare_shown(shown: Shown, args: CompareArgs) -> Answer[CompareAnswer]:
    """The answer to ``compare``."""
    model = model_of(shown)
    if args.get("newest"):
        return Answer(_known(model) or {"version": 2, "kind": "none"})
    found = compare(model, *inputs_for(model), all=args.get("all", False))
    data = comparison_json(found)
    _made[model] = data
    return Answer(data)


@saved(COMPARE)
def saved_comparison(profile: Profile) -> CompareAnswer | None:
    """The comparison that was made of the profile's model, if there is one."""
    return _known(profile.model)


def _known(model: Model) -> ComparisonAnswer | None:
    """The newest comparison of the model: one of the user's own code, if its variable is still
    there, or that of the panel.
    """
    found = newest(model)
    return comparison_json(found) if found is not None else _made.get(model)


@question(NAN)
def first_nan(shown: Shown, args: NanArgs) -> Answer[NanAnswer]:
    """The answer to ``nan``."""
    model = model_of(shown)
    trip = first_nonfinite(model, *inputs_for(model), infinities=args.get("infinities", True))
    if trip is None:
        return Answer(
            {"version": 2, "message": "No operation makes NaN or an infinity.", "trip": None}
        )
    return Answer(
        {
            "version": 2,
            "message": sentence(trip.sentence()),
            "trip": {
                "kind": trip.kind,
                "node": trip.node,
                "op": trip.op,
                "kernel": trip.kernel or None,
                "sure": trip.sure,
                "count": trip.count,
                "at": list(trip.at),
                "operands": {name: f"{number:.6g}" for name, number in trip.operands.items()},
                "is_given": not trip.kernel,
            },
        }
    )


@question(REPRO)
def write_repro(shown: Shown, args: NoArgs) -> Answer[ReproAnswer]:
    """The answer to ``repro``.

    Raises:
        ArgumentError: ML661, nothing is wrong, or what is wrong is no kernel with a text.
    """
    model = model_of(shown)
    found = compare(model, *inputs_for(model))
    kernel = found.first.kernel if found.first is not None else "none"
    path = found.repro(_free(f"{re.sub(r'[^A-Za-z0-9]+', '_', model.name)}_{kernel}"))
    files = sorted(p.name for p in path.parent.glob(f"{path.stem}.*"))
    return Answer({"version": 1, "path": str(path), "files": files})


def _free(stem: str) -> Path:
    """A path for a script that nothing has yet."""
    number = 1
    while True:
        path = Path.cwd() / (f"{stem}.py" if number == 1 else f"{stem}_{number}.py")
        if not path.exists():
            return path
        number += 1


def comparison_json(found: Comparison) -> ComparisonAnswer:
    """A comparison as its answer."""
    first = found.first
    return {
        "version": 2,
        "kind": "comparison",
        "ok": found.ok,
        "message": sentence(found.message),
        "first": first.id if first is not None else None,
        "kernel": first.kernel if first is not None else None,
        "can_repro": found.bad_kernel is not None and found.bad_kernel.alone is not None,
        "nodes": [_node(node) for node in found.worst()],
        "outputs": [_output(d) for d in found.outputs],
    }


def _output(difference: Difference) -> CheckedOutput:
    return {"ok": difference.ok, **_numbers(difference)}


def _node(node: NodeCheck) -> CheckedNode:
    return {
        "id": node.id,
        "op": node.op,
        "kernel": node.kernel,
        "ok": node.ok,
        "by": node.by,
        "message": node.message,
        **_numbers(node.difference),
    }


def _numbers(d: Difference | None) -> Differences:
    if d is None:
        return {
            "max_ulp": None,
            "max_abs": None,
            "max_rel": None,
            "nan": None,
            "inf": None,
            "nan_wanted": None,
            "inf_wanted": None,
            "wrong": None,
            "size": None,
            "excess": None,
        }
    return {
        "max_ulp": d.max_ulp,
        "max_abs": number(d.max_abs),
        "max_rel": number(d.max_rel),
        "nan": d.nan,
        "inf": d.inf,
        "nan_wanted": d.nan_wanted,
        "inf_wanted": d.inf_wanted,
        "wrong": d.wrong,
        "size": d.size,
        "excess": number(d.excess),
    }


def number(value: float) -> float | None:
    """``value`` for JSON: None for NaN and infinities, and six digits of everything else."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def sentence(text: str) -> str:
    """``text`` as a sentence."""
    return text[:1].upper() + text[1:].rstrip(".") + "."
