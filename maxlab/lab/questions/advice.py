"""The questions of the advice panel: ``advice``, ``experiments`` and ``try``."""

from __future__ import annotations

from maxlab.analysis.advice import Action, Advice, action_of, advice, experiments
from maxlab.analysis.trial import Trial, try_action
from maxlab.engine.profile import Profile
from maxlab.lab.protocol.costs import (
    AdviceAction,
    AdviceAnswer,
    ExperimentsArgs,
    NoArgs,
    TryAnswer,
    TryArgs,
)
from maxlab.lab.protocol.questions import ADVICE, EXPERIMENTS, TRY
from maxlab.lab.questions.asking import Answer, Shown, profile_of, question, saved


@question(ADVICE)
def answer(shown: Shown, args: NoArgs) -> Answer[AdviceAnswer]:
    """Changes that would make the model faster, ranked."""
    profile = profile_of(shown)
    return Answer(_told(profile, advice(profile)))


@saved(ADVICE)
def to_save(profile: Profile) -> AdviceAnswer | None:
    """The advice, if the ceilings are known: displaying measures nothing. None for a GPU."""
    if profile.device != "cpu":
        return None
    try:
        return _told(profile, advice(profile, measure=False))
    except LookupError:
        return None


@question(EXPERIMENTS)
def trials(shown: Shown, args: ExperimentsArgs) -> Answer[AdviceAnswer]:
    """Changes that can be tried with the model, and with the nodes in ``args``."""
    profile = profile_of(shown)
    return Answer(_told(profile, experiments(profile, args.get("nodes", []))))


@question(TRY)
def tried(shown: Shown, args: TryArgs) -> Answer[TryAnswer]:
    """The saving of the action with the id in ``args``."""
    profile = profile_of(shown)
    return Answer(_trial(try_action(profile, action_of(profile, args["id"]))))


def _told(profile: Profile, actions: Advice) -> AdviceAnswer:
    return {
        "version": 2,
        "total_ns": round(profile.kernel_ns),
        "actions": [_action(action) for action in actions],
        "withheld": actions.withheld,
        "chosen": [one.words for one in actions.chosen],
    }


def _action(action: Action) -> AdviceAction:
    return {
        "id": action.id,
        "kind": action.kind,
        "title": action.title,
        "why": action.why,
        "kernels": list(action.kernels),
        "nodes": list(action.nodes),
        "predicted_ns": _whole(action.predicted_ns),
        "predicted_share": None
        if action.predicted_share is None
        else float(f"{action.predicted_share:.4g}"),
        "low_ns": _whole(action.low_ns),
        "high_ns": _whole(action.high_ns),
        "how": action.how,
        "can_try": action.can_try,
        "changes": action.changes,
    }


def _whole(ns: float | None) -> int | None:
    return None if ns is None else round(ns)


def _trial(trial: Trial) -> TryAnswer:
    return {
        "version": 1,
        "id": trial.action.id,
        "before_ns": round(trial.before_ns),
        "after_ns": round(trial.after_ns),
        "saved_ns": round(trial.saved_ns),
        "low_ns": round(trial.low_ns),
        "high_ns": round(trial.high_ns),
        "clear": trial.is_clear,
        "predicted_ns": _whole(trial.predicted_ns),
        "predicted_low_ns": _whole(trial.action.low_ns),
        "predicted_high_ns": _whole(trial.action.high_ns),
        "runs": trial.runs,
        "before_bytes": trial.before_bytes,
        "after_bytes": trial.after_bytes,
        "before_kernels": trial.before_kernels,
        "after_kernels": trial.after_kernels,
        "max_ulp": trial.max_ulp,
        "max_abs": trial.max_abs,
        "relative": trial.relative,
        "how": trial.action.how,
    }
