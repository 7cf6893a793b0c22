"""The questions of the palette's entries: ``about``, what is known of one, and ``carry``, where one
that is dragged can be put down."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from maxlab import nn
from maxlab.errors import ArgumentError
from maxlab.graph import Editor, KernelLibrary, TensorType
from maxlab.graph.editing import OPERATIONS
from maxlab.graph.value import Value
from maxlab.lab import carrying, docstrings, examples, namespace, palette, sources
from maxlab.lab.protocol.changes import (
    AboutAnswer,
    AboutArgs,
    AboutParameter,
    CarryArgs,
    ReachAnswer,
)
from maxlab.lab.protocol.questions import ABOUT, CARRY
from maxlab.lab.questions.asking import Answer, Shown, question
from maxlab.lab.questions.change import editor_of, read_there
from maxlab.lab.questions.wiring import ends_answer


@question(ABOUT)
def about(shown: Shown, args: AboutArgs) -> Answer[AboutAnswer]:
    """The description of something in the palette's list."""
    name = args["name"]
    offer = palette.offers().get(name)
    if offer is not None:
        docs = docstrings.read(OPERATIONS[name])
        parameters = [
            _told(p.name, docs.arguments.get(p.name, ""), p.default) for p in offer.parameters
        ]
        return _answer(docs.says, parameters, examples.example_of(name))
    editor = editor_of(shown)
    given = read_there(editor, args)
    source = sources.sources(editor, given).get(name)
    if source is None:
        raise ArgumentError("ML808", f"there is no {name!r} to add", fix="choose one of the list")
    told = source.told
    says, parameters = (
        told["says"],
        [
            _told(field["name"], field["hint"], "" if field["needed"] else field["text"])
            for field in told["fields"]
        ],
    )
    if told["family"] == "layer":
        says = docstrings.read(getattr(nn, name.removeprefix("nn."))).says
    example = source.example
    if told["family"] == "kernel":
        example = _kernel_example(editor, name.removeprefix("kernel "), given)
    return _answer(says, parameters, example)


def _kernel_example(editor: Editor, name: str, given: Sequence[Value]) -> str:
    declared = sources.kernels(editor)[name]
    libraries = namespace.variables(KernelLibrary)
    known = [variable for variable, library in libraries.items() if name in library]
    types = [value.type for value in given if isinstance(value.type, TensorType)]
    return examples.example_of_kernel(declared, known[-1], types) if known else ""


def _answer(says: str, parameters: list[AboutParameter], example: str) -> Answer[AboutAnswer]:
    return Answer(
        {
            "version": 1,
            "says": says.replace("``", ""),
            "parameters": parameters,
            "example": inspect.cleandoc(example) + "\n" if example else "",
        }
    )


def _told(name: str, says: str, default: str | None) -> AboutParameter:
    return {"name": name, "says": says.replace("``", ""), "default": default or ""}


@question(CARRY)
def carry(shown: Shown, args: CarryArgs) -> Answer[ReachAnswer]:
    """Where something of the list can be put down."""
    editor = editor_of(shown)
    return ends_answer(editor, carrying.carried(editor, args["name"]))
