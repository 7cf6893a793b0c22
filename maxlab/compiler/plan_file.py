"""Plans as text: `written`, whose exact inverse is ``plan_reader.read``.

A line is a word and a JSON object::

    maxlab plan 2
    plan {"name": "double", "outputs": [1]}
    input {"name": "x", "type": "!mo.tensor<[n], f32>", "dtype": "float32", "shape": ["n"], …}
    op {"id": "n1", "name": "mo.mul", "at": ["cell 3", 2, 4, …], "fault": {"label": "mul"}}
    kernel {"symbol": "k_5c…", "symbols": ["n"]}
      | int k_5c…(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
      | …
    buffer {"number": 0, "kind": "input", …}
    step {"number": 0, "name": "mul", "kernel": {"text": 0}, "launch": {"Items": {…}}, …}

Fields that are as by default are left out, sizes are numbers or expressions of dims, and lines that
begin with ``#`` say nothing. Arrays of more than ``INLINE`` bytes are not in the text: it names
them by a digest, and they stand beside it.

What a plan keeps for profiles and checks alone, its loops, is not written. A function of Python
cannot be: plans with host calls are refused.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from maxlab.compiler.op_facts import OpFacts
from maxlab.compiler.plan_codecs import (
    RENAMED,
    SLOT_BY_HAND,
    STEP_BY_HAND,
    held_of,
    write_formula,
    write_poly,
    write_record,
)
from maxlab.compiler.plan_parts import Step
from maxlab.compiler.plan_rows import Row
from maxlab.compiler.plan_whole import Whole
from maxlab.compiler.printed import CudaPrinted, Printed
from maxlab.digests import blake2b
from maxlab.dtype import DType
from maxlab.errors import GraphError, Location
from maxlab.opset.notes import NOTES, Note, numbers_in

VERSION = 2
HEAD = f"maxlab plan {VERSION}"
INLINE = 256
"""Bytes of an array that stands in the text itself."""
END = "end"
CODE = "  | "
"""The beginning of a line of a kernel's text."""

Places = Mapping[str, Location | None]
"""The user's line of each op, by the id of the op."""


class Writer:
    """Lines of text, and what they share.

    Args:
        places: The user's lines, by the ids of ops: whoever reads the text may have newer ones.
    """

    def __init__(self, places: Places | None = None) -> None:
        self.places = {at: id for id, at in (places or {}).items() if at is not None}
        self.ops: dict[OpFacts, int] = {}
        self.kernels: dict[Any, int] = {}
        self.kernel_rows: list[Row] = []
        self.notes: dict[int, Note] = {}
        self.data: dict[str, np.ndarray[Any, Any]] = {}

    def location(self, at: Location) -> Any:
        """A place in the user's code, with the id of an op that has it."""
        place = [getattr(at, one.name) for one in dataclasses.fields(at) if one.compare]
        known = self.places.get(at)
        return place if known is None else {"of": known, "was": place}

    def op(self, op: OpFacts) -> int:
        """The number of ``op`` in the table of ops."""
        return self.ops.setdefault(op, len(self.ops))

    def kernel(self, printed: Printed) -> dict[str, Any]:
        """A kernel: the number of its text, and what is said of its lines."""
        facts = {
            one.name: list(value) if isinstance(value, tuple) else value
            for one in dataclasses.fields(printed)
            if one.name not in ("text", "lines", "checked")
            for value in (getattr(printed, one.name),)
        }
        if isinstance(printed, CudaPrinted):
            facts["language"] = "cuda"
        key = json.dumps(facts), printed.text
        number = self.kernels.get(key)
        if number is None:
            number = self.kernels[key] = len(self.kernels)
            code = printed.text.split("\n")
            lines = [_line("kernel", facts), *(CODE + line for line in code)]
            self.kernel_rows.append(Row("kernel", facts, "\n".join(lines)))
            found = (NOTES.get(note) for note in numbers_in(printed.text))
            self.notes.update({note.number: note for note in found if note is not None})
        made: dict[str, Any] = {"text": number}
        if printed.lines:
            made["lines"] = printed.lines
        if printed.checked:
            made["checked"] = printed.checked
        return made

    def array(self, array: np.ndarray[Any, Any]) -> dict[str, Any]:
        """An array: its bytes, or their digest where there are many."""
        data = np.ascontiguousarray(array)
        found: dict[str, Any] = {"dtype": DType.from_numpy(data.dtype).name, "shape": array.shape}
        raw = data.tobytes() if data.nbytes <= INLINE else None
        if raw is not None:
            return {**found, "bytes": base64.b64encode(raw).decode()}
        digest = blake2b(data.reshape(-1).view(np.uint8).data, digest_size=16).hexdigest()
        self.data[digest] = data.reshape(array.shape)
        return {**found, "digest": digest}


def _line(word: str, made: Any) -> str:
    return f"{word} {json.dumps(made, ensure_ascii=False)}"


def _row(word: str, made: Any) -> Row:
    return Row(word, made, _line(word, made))


def written(
    plan: Whole, places: Places | None = None, *, explain: bool = False
) -> tuple[str, dict[str, np.ndarray[Any, Any]]]:
    """``plan`` as text, and the arrays that stand beside it, by digest.

    Args:
        plan: The plan.
        places: The user's lines, by the ids of ops: whoever reads the text may have newer ones.
        explain: Whether each field is explained above the line that has it first.

    Raises:
        GraphError: ML331, a step calls a function of Python.
    """
    to = Writer(places)
    known = plan.facts
    head = {
        "name": known.name,
        "outputs": plan.outputs,
        "cuts": plan.cuts,
        "aliases": [*plan.aliases.items()],
        "loops": [[r.start, r.stop] for r in plan.loops],
        "programs": [[r.start, r.stop] for r in plan.programs],
        "written": list(known.written),
        "apart": sorted(known.apart),
    }
    first = _row("plan", {k: v for k, v in head.items() if v})
    body = [_row("input", write_record(x, to)) for x in known.inputs]
    body += [_row("output", write_record(x, to)) for x in known.outputs]
    body += [_row("weight", write_record(x, to)) for x in known.weights.values()]
    if known.ahead is not None:
        body.append(_row("ahead", write_record(known.ahead, to)))
    if known.handles is not None:
        body.append(_row("handles", write_record(known.handles, to)))
    body.append(_row("sizes", write_record(known.sizes, to)))
    for slot in plan.slots:
        made = write_record(slot, to, SLOT_BY_HAND)
        if slot.data is not None:
            made["data"] = to.array(slot.data)
        body.append(_row("buffer", made))
    body += [_row("step", _step(step, plan, to)) for step in plan.steps]
    named = {to.op(op) for op in known.ops.values()}
    ops = []
    for op, number in to.ops.items():
        made = {"id": op.id, "name": op.name, "fault": write_record(op.fault, to)}
        if op.at is not None:
            made["at"] = to.location(op.at)
        if op.kernel is not None:
            made["custom"] = write_record(op.kernel, to)
        if number in named:
            made["named"] = True
        ops.append(_row("op", made))
    notes = [_row("note", write_record(note, to)) for note in to.notes.values()]
    rows = [first, *ops, *notes, *to.kernel_rows, *body]
    lines = [row.line for row in rows]
    if explain:
        from maxlab.compiler import plan_legend

        lines = [*plan_legend.HEAD, *plan_legend.explained(rows)]
    return "\n".join([HEAD, *lines, END, ""]), to.data


def _step(step: Step, plan: Whole, to: Writer) -> dict[str, Any]:
    if step.call is not None:
        raise GraphError(
            "ML331",
            f"the plan cannot be written: its step {step.id} calls {step.call.name}, a function of "
            "this process",
            fix="write the graph of a model whose operations all have kernels",
        )
    made = write_record(step, to, STEP_BY_HAND)
    if step.gpu is not None:
        gpu: dict[str, Any] = {
            "kernels": [to.kernel(step.gpu.printed(n)) for n in range(len(step.gpu))],
            "launch": write_formula(step.gpu.launch, to),
        }
        if step.gpu.library is not None:
            gpu["library"] = write_record(step.gpu.library, to)
        made["gpu"] = gpu
    elif step.printed is not None:
        made["kernel"] = to.kernel(step.printed)
    strips = step.in_strips()
    if strips is not None:
        made["strips"] = to.kernel(strips)
    if step.others:
        made["others"] = [[name, to.kernel(step.other(name))] for name in step.others]
    if step.launch is not None:
        made["launch"] = write_formula(step.launch, to)
    if step.renamed is not None:
        made["renamed"] = RENAMED.write(step.renamed, to)
    touched = step.touched()
    if touched:
        made["touches"] = [[n, *map(write_poly, touch)] for n, touch in touched.items()]
    if step.held != held_of(step.pointers, plan.slots):
        made["held"] = [[n, write_poly(size), one] for n, (size, one) in step.held.items()]
    return made


__all__ = ["CODE", "END", "HEAD", "INLINE", "Places", "written"]
