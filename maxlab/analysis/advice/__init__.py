"""Advice on a model: ranked changes, each with the time that it is predicted to save.

Example:
    >>> import numpy as np
    >>> from maxlab import engine
    >>> from maxlab.analysis.advice import advice
    >>> from maxlab.compiler import Options
    >>> from maxlab.dtype import DType
    >>> from maxlab.graph import Graph, TensorType
    >>> with Graph("chain", input_types=[TensorType(DType.float32, ["n"])]) as graph:
    ...     x = graph.inputs[0].tensor
    ...     for _ in range(6):
    ...         x = x * 1.5 + 0.5
    ...     graph.output(x)
    >>> session = engine.InferenceSession(num_threads=1)
    >>> model = session.load(graph, options=Options(fuse=False))
    >>> advice(model.profile(np.ones(1 << 20, np.float32)))[0].id
    'fuse'
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from maxlab.analysis import machine as machines
from maxlab.analysis.advice import equals, notes, rules
from maxlab.analysis.advice.action import Action, Recipe
from maxlab.analysis.advice.context import Context
from maxlab.analysis.chosen import ChosenVariant, chosen_variants
from maxlab.analysis.machine import Machine
from maxlab.compiler.options import Options
from maxlab.errors import ArgumentError, ArgumentTypeError
from maxlab.habits import fitting
from maxlab.tabular import Field, Tabular

if TYPE_CHECKING:
    from maxlab.engine.profile import Profile

LEAST_SHARE = 0.01
"""Smallest saving that is worth naming, as a fraction of the time of all kernels."""

_RULES: tuple[Callable[[Context], Iterator[Action]], ...] = (
    rules.hoist,
    rules.freeze,
    rules.fuse,
    rules.float64,
    rules.bfloat16,
    rules.accuracy,
    rules.batch,
    rules.threads,
    notes.copies,
    notes.strides,
    notes.casts,
    notes.balance,
    notes.padding,
    equals.unlike,
)


class Advice(list[Action], Tabular):
    """Actions, the largest predicted saving first; as text, a paragraph for each.

    Attributes:
        withheld: Why nothing is predicted, as a clause; empty where something is. The order is then
            that of what the fastest runs would save.
        chosen: What was chosen of kernels that do their work in several ways.
    """

    def __init__(
        self,
        actions: Iterable[Action] = (),
        withheld: str = "",
        chosen: Sequence[ChosenVariant] = (),
    ) -> None:
        super().__init__(actions)
        self.withheld = withheld
        self.chosen = tuple(chosen)

    def action(self, id: str) -> Action:
        """The action with this id.

        Raises:
            KeyError: There is none.
        """
        for found in self:
            if found.id == id:
                return found
        raise KeyError(id)

    def _heads(self) -> Sequence[str]:
        return (
            "id", "kind", "title", "saves [ns]", "at least [ns]", "at most [ns]", "share",
            "changes", "kernels", "ops", "why", "how", "withheld",
        )  # fmt: skip

    def _records(self) -> Iterator[Sequence[Field]]:
        for a in self:
            yield (
                a.id, a.kind, a.title, a.predicted_ns, a.low_ns, a.high_ns, a.predicted_share,
                a.changes, " ".join(a.kernels), " ".join(a.nodes), a.why, a.how, a.withheld,
            )  # fmt: skip

    def table(self) -> str:
        """The actions as text, the code to change below each, and what was chosen."""
        chosen = [f"variants: {one.words}" for one in self.chosen]
        if not self:
            nothing = (
                f"nothing was found, and {self.withheld}"
                if self.withheld
                else "nothing is predicted to save a hundredth of the time"
            )
            return "\n".join([nothing, *chosen])
        lines = [f"no savings are predicted: {self.withheld}"] if self.withheld else []
        for number, action in enumerate(self, 1):
            saves = "" if self.withheld else f": {action.prediction}"
            lines += [f"{number}. {action.title}{saves}", f"   {action.why}"]
            lines += [f"     {line}" for line in action.how.splitlines()]
        return "\n".join([*lines, *chosen])

    def __repr__(self) -> str:
        return self.table()


_found: weakref.WeakKeyDictionary[Profile, tuple[Machine, Advice]]
_found = weakref.WeakKeyDictionary()


@fitting("ML975", "maxlab.advice(profile)")
def advice(profile: Profile, *, measure: bool = True) -> Advice:
    """Changes that would make the model of ``profile`` faster, the largest predicted saving first.

    Each prediction has an interval: how much the runs varied, and how far predictions of its kind
    were off where they were tried. What might save less than a hundredth of the time is left out.
    Where the machine was too busy to tell, or runs too few, actions are named without a prediction.
    Changes that maxlab can try are taken before others that are predicted to save as much.

    Args:
        profile: What ``model.profile`` returned, in this process, on the CPU.
        measure: Measure the ceilings of the machine if that was not done yet: about a second.

    Raises:
        ArgumentTypeError: ML671, not a profile of this process.
        ArgumentError: ML672, a profile of a GPU, for which there are no rules yet.
        LookupError: The ceilings are not known, and ``measure`` is False.
    """
    context = context_of(profile, measure=measure)
    known = _found.get(profile)
    if known is None or known[0] is not context.machine:
        actions = [action for rule in _RULES for action in rule(context)]
        worth = [action for action in actions if context.is_worth(action, LEAST_SHARE)]
        worth.sort(key=lambda a: (-context.rank_ns(a), not a.can_try, a.id))
        known = _found[profile] = context.machine, Advice(worth, context.withheld)
    return Advice(known[1], known[1].withheld, chosen_variants(profile.model))


def context_of(profile: Profile, *, measure: bool = True) -> Context:
    """The context that the rules look at.

    Raises:
        ArgumentTypeError: ML671, not a profile of this process.
        ArgumentError: ML672, a profile of a GPU.
        LookupError: The ceilings are not known, and ``measure`` is False.
    """
    from maxlab.engine.profile import Profile as Known

    if not isinstance(profile, Known):
        raise ArgumentTypeError(
            "ML671",
            f"advice is made of a profile that was taken here, got {type(profile).__name__}",
            fix="profile the model: model.profile(...)",
        )
    if profile.device != "cpu":
        raise ArgumentError(
            "ML672",
            f"there is advice for the CPU alone, and this profile is of {profile.device}",
            fix="load the graph on the CPU, and read profile.table() here",
        )
    known = machines.known(profile.threads)
    if known is None:
        if not measure:
            raise LookupError("the ceilings of this machine were not measured yet")
        known = machines.machine(profile.threads)
    return Context(profile, known)


@fitting("ML975", "maxlab.experiments(profile)")
def experiments(profile: Profile, nodes: Sequence[str] = ()) -> Advice:
    """Changes that can be tried whether or not they are predicted to save anything: fusion off or
    on, for the whole model and for ``nodes``, less accurate functions, and every number of threads
    that was measured.

    Raises:
        ArgumentTypeError: ML671, not a profile of this process.
        ArgumentError: ML672, a profile of a GPU.
    """
    context = context_of(profile)
    options = context.model.options
    if options.fuse and not options.apart:
        found = list(
            _apart(context, Options(fuse=False), "fuse:off", "Compute each operation by itself", ())
        )
    else:
        found = list(rules.fuse(context))
    inside = [n for n in nodes if context.op(n) is not None and n not in options.apart]
    if inside and options.fuse:
        wanted = Options(
            accuracy=options.accuracy,
            apart=options.apart | set(inside),
            replaced=options.replaced,
            keep=options.keep,
        )
        names = ",".join(inside)
        title = f"Begin a kernel at {names.replace(',', ', ')}"
        found.extend(_apart(context, wanted, f"apart:{names}", title, inside))
    for rule in (rules.accuracy, rules.threads):
        found.extend(rule(context))
    return Advice(found, context.withheld)


def _apart(
    context: Context, options: Options, id: str, title: str, nodes: Sequence[str]
) -> Iterator[Action]:
    """Other kernels; nothing where they would be those of now."""
    plan = context.planned(context.function, options)
    if not context.is_other(plan) or context.is_alike(plan):
        return
    changed, saving = context.replanned(plan)
    yield context.action(
        id,
        "apart",
        title,
        why=f"The model would have {rules.replanned_text(context, plan)}.",
        kernels=changed,
        nodes=nodes or None,
        saving=saving,
        how=rules.reload_code(options),
        recipe=Recipe(options=options),
        changes="rounding",
    )


def action_of(profile: Profile, id: str) -> Action:
    """The action with this id, of those that ``advice`` or ``experiments`` gave.

    Raises:
        ArgumentError: ML673, there is none.
    """
    nodes = id.removeprefix("apart:").split(",") if id.startswith("apart:") else []
    actions: list[Action] = [*experiments(profile, nodes), *advice(profile)]
    known = {action.id: action for action in actions}
    if id not in known:
        raise ArgumentError(
            "ML673",
            f"there is no action {id!r} for {profile.name}",
            fix=f"those are {', '.join(known)}" if known else "profile it again",
        )
    return known[id]


__all__ = ["Action", "Advice", "Recipe", "action_of", "advice", "experiments"]
