"""Sources beside operations that can be added to a graph: calls of its subgraphs, kernels of its
library and of the notebook, snippets and layers. Each stands in the palette beside the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from maxlab.errors import ArgumentError, MaxlabError
from maxlab.graph import Editor, KernelLibrary, ops
from maxlab.graph.value import Value
from maxlab.lab import layers, namespace, networks, snippets
from maxlab.lab.fields import WRITE, FieldError, read_type, read_value, type_text
from maxlab.lab.fits import scratch_of, tried, type_texts
from maxlab.lab.offering import Source, field
from maxlab.lab.protocol.changes import OfferedOp
from maxlab.nn.calls import no_hooks
from maxlab.opset.declared import Declaration


def sources(editor: Editor, given: Sequence[Value]) -> dict[str, Source]:
    """The sources that may take ``given``, by name."""
    found: list[Source] = []
    for name in editor.graph.subgraphs:
        found += _call(editor, name, given)
    for declared in kernels(editor).values():
        found += _kernel(declared, given)
    for snippet in snippets.SNIPPETS.values():
        found += networks.snippet_source(snippet, given)
    for layer in layers.layers().values():
        found += networks.layer_source(layer, given)
    return {source.told["name"]: source for source in found}


Attempt = Callable[[Editor, Source, Sequence[Value]], Sequence[Value]]
"""Adds a source, which reads these values, and gives what it makes."""


def added(editor: Editor, source: Source, given: Sequence[Value]) -> Sequence[Value]:
    """The values that ``source`` makes, added at the end as it is tried."""
    return source.add(editor, given, source.trial or {})


def _apply(
    attempt: Attempt, source: Source, given: Sequence[Value], editor: Editor
) -> Sequence[Value]:
    return attempt(editor, source, given)


def fitting(editor: Editor, given: Sequence[Value], attempt: Attempt = added) -> list[OfferedOp]:
    """The palette's entries for the sources that take ``given``; each that can be is tried in a
    copy of the graph.
    """
    scratch = scratch_of(editor)
    values = [scratch.value(editor.in_function(value).id) for value in given]
    found: list[OfferedOp] = []
    for source in sources(editor, given).values():
        if source.trial is None:
            found.append(source.told)
            continue
        with no_hooks():
            made = tried(scratch, partial(_apply, attempt, source, values))
        if isinstance(made, FieldError):
            found.append(source.told)  # something else is to be typed
        elif not isinstance(made, MaxlabError):
            found.append({**source.told, "result": "" if source.trial else type_texts(made)})
    return found


# ---------------------------------------------------------------- subgraphs
def _call(editor: Editor, name: str, given: Sequence[Value]) -> list[Source]:
    subgraph = editor.graph.subgraphs[name]
    inputs = subgraph.function.inputs
    types = [value.type for value in inputs]
    if [value.type for value in given] != types[: len(given)] or subgraph.function.output is None:
        return []
    labels = _labels([value.name for value in inputs])
    left = labels[len(given) :]

    def add(editor: Editor, given: Sequence[Value], typed: Mapping[str, str]) -> Sequence[Value]:
        return editor.call(name, *given, *_values(editor, left, typed))

    told: OfferedOp = {
        "name": f"call {name}",
        "family": "subgraph",
        "says": f"What the group {name} of this graph gives.",
        "fields": [
            field(label, "value", hint=f"a value of the type {type_text(type)}")
            for label, type in zip(left, types[len(given) :], strict=True)
        ],
        "needs": left,
        "result": "" if left else ", ".join(map(type_text, subgraph.output_types)),
    }
    return [Source(told, add)]


def _labels(names: Sequence[str]) -> list[str]:
    """A name for each field, no two alike."""
    found: list[str] = []
    for number, name in enumerate(names):
        found.append(name if name and name not in names[:number] else f"operand {number}")
    return found


def _values(editor: Editor, names: Sequence[str], typed: Mapping[str, str]) -> list[Value]:
    found: list[Value] = []
    for name in names:
        text = typed.get(name, "").strip()
        if not text:
            raise FieldError(name, "nothing is given", WRITE["value"])
        value = read_value(editor, name, text)
        if not isinstance(value, Value):
            raise FieldError(name, f"{text!r} is no value of the graph", WRITE["value"])
        found.append(value)
    return found


# ---------------------------------------------------------------- kernels
def kernels(editor: Editor) -> dict[str, Declaration]:
    """The kernels of the graph's library, and those of the libraries that variables of the notebook
    hold, the newest text of each name."""
    own = editor.graph.kernels
    found = {name: own[name] for name in own}
    for library in namespace.variables(KernelLibrary).values():
        found.update({name: library[name] for name in library})
    return found


def _kernel(declared: Declaration, given: Sequence[Value]) -> list[Source]:
    operands = declared.operands
    if len(given) > len(operands) or declared.has_handles or declared.changed:
        return []
    left = [operand.name for operand in operands[len(given) :]]
    results = [f"type of {result.name}" for result in declared.results]
    needs = [*left, *results, *(name for name, rule in declared.parameters.items() if _open(rule))]
    first = type_text(given[0].type) if given else ""

    def add(editor: Editor, given: Sequence[Value], typed: Mapping[str, str]) -> Sequence[Value]:
        values = [*given, *_values(editor, left, typed)]
        types = [read_type(name, typed.get(name, "").strip() or first) for name in results]
        if not values:
            raise ArgumentError("ML808", "a kernel reads something", fix="select a value first")
        device = values[0].type.device  # type: ignore[attr-defined]
        texts = {name: typed[name].strip() for name in declared.parameters if typed.get(name)}
        parameters = {name: _parameter(text) for name, text in texts.items()}
        with editor.step(), editor.graph.knowing(declared):
            return ops.custom(declared.name, device, values, types, parameters)

    told: OfferedOp = {
        "name": f"kernel {declared.name}",
        "family": "kernel",
        "says": f"Your kernel {declared}, of {_place_of(declared)}.",
        "fields": [
            *(field(name, "value") for name in left),
            *(field(name, "type", first) for name in results),
            *(field(name, "data", "", _open(rule)) for name, rule in declared.parameters.items()),
        ],
        "needs": needs,
        "result": "",
    }
    return [Source(told, add)]


def _place_of(declared: Declaration) -> str:
    """The cell or file that declares a kernel."""
    file = declared.file
    return f"cell {file}" if file.startswith("In[") else file.rpartition("/")[2]


def _open(rule: object) -> bool:
    """Whether a parameter has no default."""
    return getattr(rule, "default", None) is None


def _parameter(text: str) -> bool | int | str:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text


__all__ = ["Source", "added", "fitting", "kernels", "sources"]
