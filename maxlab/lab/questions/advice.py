"""The questions of the advice panel.

``advice``
    {"version": 1, "total_ns": 800000, "actions": [{"id": "hoist", "kind": "hoist", "title": "…",
     "why": "…", "kernels": ["k0"], "nodes": ["n3"], "predicted_ns": 520000,
     "predicted_share": 0.65, "how": "code", "canTry": true, "changes": "nothing"}]}

``experiments``, with {"nodes": ["n3"]}
    The same, of what can be tried whatever it is predicted to save.

``try``, with {"id": "hoist"}
    {"version": 1, "id": "hoist", "before_ns": 800000, "after_ns": 290000, "saved_ns": 510000,
     "low_ns": 500000, "high_ns": 530000, "clear": true, "predicted_ns": 520000, "runs": 31,
     "before_bytes": 9, "after_bytes": 5, "before_kernels": 4, "after_kernels": 2, "max_ulp": 0.0,
     "max_abs": 0.0, "how": "code"}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maxlab.analysis.advice import Action, action_of, advice, experiments
from maxlab.analysis.trial import try_action
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.lab.questions import Answer, Shown, profile_of, question, saved

VERSION = 1


@question("advice")
def answer(shown: Shown, args: Mapping[str, Any]) -> Answer:
    """What would make the model faster, ranked."""
    profile = profile_of(shown)
    return Answer(_told(profile, advice(profile)))


@saved("advice")
def to_save(profile: Profile) -> Mapping[str, Any] | None:
    """The advice, if the ceilings are known: displaying measures nothing. None for a GPU."""
    if profile.device != "cpu":
        return None
    try:
        return _told(profile, advice(profile, measure=False))
    except LookupError:
        return None


@question("experiments")
def trials(shown: Shown, args: Mapping[str, Any]) -> Answer:
    """What can be tried with the model, and with the nodes in ``args``."""
    profile = profile_of(shown)
    nodes = args.get("nodes", [])
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        raise ArgumentError("ML806", "nodes must be a list of ids", fix="reload the page")
    return Answer(_told(profile, experiments(profile, nodes)))


@question("try")
def tried(shown: Shown, args: Mapping[str, Any]) -> Answer:
    """What the action with the id in ``args`` saves."""
    profile = profile_of(shown)
    return Answer(try_action(profile, action_of(profile, str(args.get("id", "")))).to_json())


def _told(profile: Profile, actions: Sequence[Action]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "total_ns": round(profile.kernel_ns),
        "actions": [action.to_json() for action in actions],
    }
