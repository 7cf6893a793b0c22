"""All questions that panels ask: for each the type of its arguments, and that of its answer.

An answer has a version of its own, because it may be saved with a document; where its keys change,
the version grows, and ``extension/src/proto/upgrade.ts`` learns to read the one before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from maxlab.analysis.told import RunsAnswer, SweepAnswer
from maxlab.lab.protocol.changes import (
    AboutAnswer,
    AboutArgs,
    CarryArgs,
    ChangeAnswer,
    ChangeArgs,
    ClipAnswer,
    ClipArgs,
    DetailsAnswer,
    DetailsArgs,
    OfferAnswer,
    OfferArgs,
    PortsAnswer,
    PythonAnswer,
    ReachAnswer,
    ReachArgs,
    RunGraphAnswer,
    RunGraphArgs,
)
from maxlab.lab.protocol.checks import (
    CompareAnswer,
    CompareArgs,
    CompileAnswer,
    EditAnswer,
    EditArgs,
    KernelArgs,
    KernelMessage,
    MemoryAnswer,
    MemoryArgs,
    NanAnswer,
    NanArgs,
    PassesAnswer,
    PassesArgs,
    ReproAnswer,
    TextAnswer,
    ValueAnswer,
    ValueArgs,
    WhyAnswer,
    WhyArgs,
)
from maxlab.lab.protocol.code import WriteAnswer, WriteArgs, WrittenAnswer, WrittenArgs
from maxlab.lab.protocol.costs import (
    AdviceAnswer,
    ExperimentsArgs,
    NoArgs,
    RooflineAnswer,
    RunsArgs,
    SweepArgs,
    TimelineAnswer,
    TimelineArgs,
    TryAnswer,
    TryArgs,
)
from maxlab.lab.protocol.files import RerunAnswer

ArgsT = TypeVar("ArgsT")
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Question(Generic[ArgsT, AnswerT]):
    """A question by its name, with the types of its arguments and of its answer."""

    name: str


ROOFLINE: Question[NoArgs, RooflineAnswer] = Question("roofline")
ADVICE: Question[NoArgs, AdviceAnswer] = Question("advice")
EXPERIMENTS: Question[ExperimentsArgs, AdviceAnswer] = Question("experiments")
TRY: Question[TryArgs, TryAnswer] = Question("try")
TIMELINE: Question[TimelineArgs, TimelineAnswer] = Question("timeline")
RUNS: Question[RunsArgs, RunsAnswer] = Question("runs")
SWEEP: Question[SweepArgs, SweepAnswer] = Question("sweep")
MEMORY: Question[MemoryArgs, MemoryAnswer] = Question("memory")
PASSES: Question[PassesArgs, PassesAnswer] = Question("passes")
COMPILE: Question[NoArgs, CompileAnswer] = Question("compile")
WHY: Question[WhyArgs, WhyAnswer] = Question("why")
TEXT: Question[KernelArgs, TextAnswer] = Question("text")
EDIT: Question[EditArgs, EditAnswer] = Question("edit")
KEEP: Question[KernelArgs, KernelMessage] = Question("keep")
DISCARD: Question[KernelArgs, KernelMessage] = Question("discard")
COMPARE: Question[CompareArgs, CompareAnswer] = Question("compare")
NAN: Question[NanArgs, NanAnswer] = Question("nan")
REPRO: Question[NoArgs, ReproAnswer] = Question("repro")
VALUE: Question[ValueArgs, ValueAnswer] = Question("value")
OFFER: Question[OfferArgs, OfferAnswer] = Question("offer")
ABOUT: Question[AboutArgs, AboutAnswer] = Question("about")
CARRY: Question[CarryArgs, ReachAnswer] = Question("carry")
DETAILS: Question[DetailsArgs, DetailsAnswer] = Question("details")
CHANGE: Question[ChangeArgs, ChangeAnswer] = Question("change")
CLIP: Question[ClipArgs, ClipAnswer] = Question("clip")
WRITE: Question[WriteArgs, WriteAnswer] = Question("write")
WRITTEN: Question[WrittenArgs, WrittenAnswer] = Question("written")
RUN: Question[RunGraphArgs, RunGraphAnswer] = Question("run")
REACH: Question[ReachArgs, ReachAnswer] = Question("reach")
PYTHON: Question[NoArgs, PythonAnswer] = Question("python")
RERUN: Question[NoArgs, RerunAnswer] = Question("rerun")
PORTS: Question[NoArgs, PortsAnswer] = Question("ports")
