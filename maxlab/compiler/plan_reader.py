"""Plans from text: `read`, the exact inverse of ``plan_file.written``."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from maxlab.compiler import facts, launches, op_facts
from maxlab.compiler import plan_parts as plans
from maxlab.compiler.plan_codecs import (
    DTYPES,
    RENAMED,
    SLOT_BY_HAND,
    STEP_BY_HAND,
    held_of,
    read_formula,
    read_record,
    read_size,
)
from maxlab.compiler.plan_file import CODE, END, HEAD, Places
from maxlab.compiler.printed import CudaPrinted, Printed
from maxlab.compiler.traffic import Counted, Touch
from maxlab.errors import Location, MaxlabError, ParseError
from maxlab.opset.faults import Fault
from maxlab.opset.notes import Note, remembered


class Reader:
    """The things that the lines of a text refer to."""

    def __init__(
        self, data: Mapping[str, np.ndarray[Any, Any]], places: Places | None = None
    ) -> None:
        self.places = places or {}
        self.data = data
        self.ops: list[op_facts.OpFacts] = []
        self.kernels: list[tuple[dict[str, Any], list[str]]] = []

    def location(self, at: Any) -> Location | None:
        """The place of the op that ``at`` names, or that it spells."""
        if isinstance(at, list):
            return Location(*at)
        return self.places[at["of"]] if at["of"] in self.places else Location(*at["was"])

    def kernel(self, given: Mapping[str, Any]) -> Printed:
        """The kernel that ``given`` names."""
        facts, code = self.kernels[given["text"]]
        facts = dict(facts)
        kind = CudaPrinted if facts.pop("language", "c") == "cuda" else Printed
        for name in ("headers", "written"):
            if name in facts:
                facts[name] = tuple(facts[name])
        facts["symbols"] = list(facts["symbols"])
        lines = [(a, b, op) for a, b, op in given.get("lines", ())]
        return kind(text="\n".join(code), lines=lines, checked=given.get("checked", []), **facts)

    def array(self, given: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """The array that ``given`` spells or names."""
        dtype, shape = DTYPES[given["dtype"]].ml_numpy, given["shape"]
        if "digest" in given:
            found = self.data[given["digest"]]
            return found.view(dtype).reshape(shape)
        raw = base64.b64decode(given["bytes"], validate=True)
        return np.frombuffer(raw, dtype).reshape(shape)


def read(
    text: str, data: Mapping[str, np.ndarray[Any, Any]] | None = None, places: Places | None = None
) -> dict[str, Any]:
    """The fields of the plan that `written` has written.

    Args:
        text: The text.
        data: The arrays beside it, by digest.
        places: The user's lines of today, by the ids of ops.

    Raises:
        ParseError: ML349, it is no plan of this version, or a part of it is missing.
    """
    try:
        return _read(text, data or {}, places)
    except MaxlabError:
        raise
    except (
        ValueError, TypeError, KeyError, IndexError, AttributeError, binascii.Error, RecursionError,
    ) as error:  # fmt: skip
        raise ParseError(
            "ML349",
            f"the text is no plan: {type(error).__name__}: {error}",
            fix="pass the text that plan.text() gave, as it is, and the arrays of plan.arrays()",
        ) from error


def _read(
    text: str, data: Mapping[str, np.ndarray[Any, Any]], places: Places | None
) -> dict[str, Any]:
    rows = iter(text.split("\n"))
    if next(rows) != HEAD:
        raise ParseError(
            "ML349",
            f"the text is no plan of this version: it does not begin with {HEAD!r}",
            fix="pass the text that plan.text() gave",
        )
    of = Reader(data, places)
    known = facts.Facts()
    made_of: dict[str, Any] = {"facts": known, "slots": [], "steps": []}
    slots, steps = made_of["slots"], made_of["steps"]
    inputs, outputs, weights, ops = [], [], {}, {}
    for word, given in _rows(rows, of):
        match word:
            case "op":
                fault = Fault(**read_record(Fault, given["fault"], of))
                at = of.location(given["at"]) if "at" in given else None
                kernel = None
                if "custom" in given:
                    told = read_record(op_facts.UserKernel, given["custom"], of)
                    kernel = op_facts.UserKernel(**told)
                op = op_facts.OpFacts(given["id"], given["name"], at, fault, kernel)
                of.ops.append(op)
                if given.get("named"):
                    ops[op.id] = op
            case "note":
                remembered(Note(**read_record(Note, given, of)))
            case "buffer":
                made = read_record(plans.Slot, given, of, SLOT_BY_HAND)
                array = of.array(given["data"]) if "data" in given else None
                slots.append(plans.Slot(data=array, **made))
            case "step":
                steps.append(_read_step(given, slots, of))
            case "input":
                inputs.append(facts.InputFacts(**read_record(facts.InputFacts, given, of)))
            case "output":
                outputs.append(facts.OutputFacts(**read_record(facts.OutputFacts, given, of)))
            case "weight":
                weight = facts.WeightFacts(**read_record(facts.WeightFacts, given, of))
                weights[weight.label] = weight
            case "ahead":
                known.ahead = facts.AheadFacts(**read_record(facts.AheadFacts, given, of))
            case "handles":
                known.handles = facts.HandleFacts(**read_record(facts.HandleFacts, given, of))
            case "sizes":
                known.sizes = facts.SizeFacts(**read_record(facts.SizeFacts, given, of))
            case "plan":
                known.name = given.get("name", "")
                made_of |= {
                    "outputs": given.get("outputs", []),
                    "cuts": given.get("cuts", []),
                    "aliases": dict(map(tuple, given.get("aliases", []))),
                    "loops": [range(*ends) for ends in given.get("loops", [])],
                    "programs": [range(*ends) for ends in given.get("programs", [])],
                }
                known.written = tuple(given.get("written", []))
                known.apart = frozenset(map(tuple, given.get("apart", [])))
            case _:
                raise ValueError(f"{word!r} is nothing of a plan")
    if [*rows] != [""]:
        raise ValueError("it goes on behind its end")
    known.inputs, known.outputs, known.weights, known.ops = (
        tuple(inputs), tuple(outputs), weights, ops,
    )  # fmt: skip
    return made_of


def _rows(rows: Iterator[str], of: Reader) -> Iterator[tuple[str, Any]]:
    """The words and objects of the lines; kernels are kept with their code, and not given."""
    words: list[str] = []
    texts: list[str] = []
    codes: list[list[str]] = []
    for row in rows:
        if row.startswith(CODE):
            codes[-1].append(row[len(CODE) :])
            continue
        word, _, rest = row.partition(" ")
        if row == END:
            break
        if not word.startswith("#"):
            words.append(word)
            texts.append(rest)
            if word == "kernel":
                codes.append([])
    else:
        raise ValueError("it ends too early")
    # One text is read in half the time of many short ones.
    objects = json.loads(f"[{','.join(texts)}]")
    if len(objects) != len(words):
        raise ValueError("a line has more than one object")
    found = iter(codes)
    for word, made in zip(words, objects, strict=True):
        if word == "kernel":
            of.kernels.append((made, next(found)))
        else:
            yield word, made


def _read_step(given: dict[str, Any], slots: list[plans.Slot], of: Reader) -> plans.Step:
    made = read_record(plans.Step, given, of, STEP_BY_HAND)
    pointers = made["pointers"]
    gpu, printed = None, None
    if "gpu" in given:
        inside = given["gpu"]
        library = inside.get("library")
        if library is not None:
            library = launches.LibraryProduct(**read_record(launches.LibraryProduct, library, of))
        texts: Any = [of.kernel(kernel) for kernel in inside["kernels"]]
        gpu = plans.GpuKernels(texts, read_formula(inside["launch"], of), library)
        printed = texts[0]
    elif "kernel" in given:
        printed = of.kernel(given["kernel"])
    touched = {n: Touch(*map(read_size, rest)) for n, *rest in given.get("touches", ())}
    if "held" in given:
        held = {n: (read_size(size), one) for n, size, one in given["held"]}
    else:
        held = held_of(pointers, slots)
    step = plans.Step(
        printed=printed,
        gpu=gpu,
        launch=read_formula(given.get("launch"), of),
        touching=Counted(touched),
        held=held,
        renamed=RENAMED.read(given["renamed"], of) if "renamed" in given else None,
        **made,
    )
    if "strips" in given:
        step.strips = of.kernel(given["strips"])
    if "others" in given:
        step.others = {name: of.kernel(text) for name, text in given["others"]}
    return step


__all__ = ["read"]
