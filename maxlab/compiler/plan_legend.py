"""The meaning of the words of a plan's text: each is explained above its first line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from maxlab.compiler.plan_rows import Row
from maxlab.compiler.plan_text import LAUNCH_NOTES

HEAD = (
    "# A line is a word and what it has, as JSON. Fields that are as usual are left out, and each",
    "# field is explained above the line that has it first. Sizes are numbers, or formulas of the",
    "# dims of the inputs. Buffers, steps, operations and kernels are numbered from 0, each as its",
    "# line stands below the others of its word.",
)

WORDS: Mapping[str, str] = {
    "plan": "the graph, and how its steps and buffers stand to each other",
    "op": "an operation that steps compute or that sizes follow from, as errors name it",
    "note": "a message of a user's kernel, which the kernel names by a number",
    "kernel": "a text that is compiled; its code is in the lines behind it, each after |. Its "
    "function gets the buffers b, the sizes d, and the items from lo to hi that it is to do",
    "input": "an input of the graph",
    "output": "an output of the graph",
    "weight": "an array that the weights registry must have when the model is loaded",
    "ahead": "what is computed of weights once, when the model is loaded, by a plan of its own",
    "handles": "the inputs and outputs that are opaque handles, not tensors",
    "sizes": "how dims follow from the shapes of the inputs, and what must hold of them",
    "buffer": "a piece of memory, called b and its number",
    "step": "what a run does next, most often one kernel; called k and its number",
}
"""The meaning of the lines, by their words."""

_SHAPE = "the size of each axis"
_LINE = "the user's line: file, line, column, text, function, last column, id of the cell"
FIELDS: Mapping[str, Mapping[str, str]] = {
    "plan": {
        "name": "of the graph",
        "outputs": "the buffers of the outputs",
        "cuts": "the steps before which sizes are taken over that earlier steps computed",
        "aliases": "[output, buffer] of outputs that are memory of the caller or of another output",
        "loops": "[first step, step behind the last] of loops, inner ones first",
        "programs": "[first step, step behind the last] of loops and branches of the graph",
        "written": "inputs that the graph changes",
        "apart": "pairs of inputs that must not be one memory",
    },
    "op": {
        "id": "its id in the graph",
        "name": "its name in the table of operations",
        "fault": "how errors report a number that its kernel refuses",
        "at": _LINE,
        "custom": "the user's kernel that it calls",
        "named": "whether steps name it",
    },
    "fault": {"label": "what errors call it", "kind": "what the number is; an index if left out"},
    "custom": {
        "name": "its name",
        "declared": "where and how it is declared",
        "takes": "its operands that are handles",
        "makes": "its results that are handles",
    },
    "at": {"of": "the operation whose line it is", "was": _LINE},
    "note": {
        "kind": "log, or assert",
        "level": "the level of the message",
        "text": "in the format of Python's %",
        "kinds": "i or f for each value",
        "op": "the user's kernel",
        "place": "file and line in its library",
    },
    "kernel": {
        "symbol": "the name of its function: a hash of the text",
        "symbols": "the dims whose sizes it is told, in the order of its argument d",
        "language": "c if left out, or cuda",
        "headers": "files that it is read behind",
        "width": "elements that a thread takes at a time",
        "threads": "of a block",
        "shared": "bytes of shared memory",
        "written": "for each pointer, whether it writes there",
        "text": "the number of the kernel",
        "lines": "[first line of the code, last line, operation] of what an operation became",
        "checked": "the operations whose numbers it tests",
    },
    "input": {
        "name": "what callers call it",
        "type": "as graphs write it",
        "dtype": "of its elements",
        "shape": _SHAPE,
        "device": "where a run takes it",
        "is_buffer": "whether it is memory that the graph may change",
    },
    "output": {
        "dtype": "of its elements",
        "shape": _SHAPE,
        "device": "where a run makes it",
        "at": _LINE,
        "declared": "the size of each axis as the graph writes it",
    },
    "weight": {
        "label": "its name in the graph",
        "name": "its name in the registry",
        "dtype": "of its elements",
        "shape": _SHAPE,
        "part": "[start, stop] of each run of indices, for each axis; empty for all of it",
        "device": "where the graph takes it",
        "at": _LINE,
    },
    "ahead": {
        "names": "what the results are called among the weights of this plan",
        "sources": "the weights that are read",
        "count": "operations",
        "nbytes": "bytes of the results",
        "program": "what the cache finds that plan by",
    },
    "handles": {
        "inputs": "[number, type] of the inputs",
        "outputs": "[number, type] of the outputs",
        "types": "[type, text] that tells it from types of that name in other libraries",
    },
    "sizes": {
        "names": "[dim, input, axis]: the dim is the size of that axis",
        "checks": "[input, axis, size]: the axis must have that size",
        "solved": "[dim, input, axis, a, b]: the dim is the size of that axis less a, over b",
        "stages": "what must hold before the first step, and behind each of the cuts",
    },
    "stages": {
        "definitions": "[dim, size, operation that says so]",
        "guard": "what operations need",
        "counts": "[size, operation] that must be below 2^63",
        "binds": "dims whose sizes steps compute",
    },
    "guard": {
        "checks": "[operation, condition]",
        "differences": "[size, operation] that must not be below 0",
    },
    "checks": {
        "left": "one size",
        "relation": "how it must stand to the other",
        "right": "the other size",
        "message": "what the error says",
    },
    "binds": {
        "op": "the operation",
        "what": "what errors call it",
        "dim": "the dim, or a size that it must have",
        "negative": "what a size below 0 means",
        "defines": "the dim that gets the size",
        "slot": "the buffer that the size is in",
    },
    "buffer": {
        "number": "its number",
        "kind": "input, output, weight, constant; packed: a weight in panels of columns; arena: "
        "intermediate values",
        "dtype": "of its elements",
        "nbytes": "bytes",
        "shape": _SHAPE,
        "value": "the value of the graph that it holds",
        "index": "the number of the input or output",
        "name": "of the input or weight",
        "packing": "how it is packed when the model is loaded",
        "device": "where it is; the host if left out",
        "order": "the axes as they lie in memory, outermost first",
        "data": "the numbers of a constant",
    },
    "packing": {
        "source": "the buffer that it is packed from",
        "kernel": "what packs it, in the library of products",
        "sizes": "what that is told",
        "items": "its parts, which threads share",
        "nbytes": "bytes that it writes",
        "offset": "the byte of the source that it begins at",
    },
    "data": {
        "dtype": "of the numbers",
        "shape": _SHAPE,
        "bytes": "the numbers in base64",
        "digest": "BLAKE2b of the numbers, which are not in the text: see plan.arrays()",
    },
    "step": {
        "number": "its number",
        "name": "what it does",
        "kind": "how: map elements, fold a row, reduce columns, contract (a product), and so on",
        "pointers": "the buffers that it gets, in the order of the kernel's argument b",
        "sizes": "what the kernel is told in its argument d",
        "nodes": "the user's operations that it computes",
        "parallel": "its items, which threads share",
        "flops": "scalar operations of all items",
        "builtin": "the kernel of maxlab's library that it calls",
        "ops": "what is computed",
        "device": "where it runs; the host if left out",
        "ranks": "of the arguments of a call",
        "group": "the group of the schedule that it is of",
        "binds": "the dim whose size it computes",
        "keeps": "buffers that checks find behind it",
        "jump": "how many steps further the run goes on",
        "guard": "what must hold of the sizes, or the steps are not run",
        "exchange": "buffers that take each other's memory",
        "arguments": "what each pointer of a user's kernel is",
        "long": "scalar operations of an item; where these are many, the kernel of strips runs",
        "gpu": "its kernels on a GPU",
        "kernel": "its kernel",
        "strips": "its kernel for items that take long, which lets a run be ended",
        "others": "[variant, kernel] of those that compute the same in another way",
        "launch": "how threads share the items",
        "renamed": "[operation that the text names, user's operations that it stands for]",
        "touches": "[pointer, elements read, written, read by an index]",
        "held": "[buffer, bytes, bytes of an element] where these are not the buffer's own",
    },
    "exchange": {
        "moves": "[buffer, buffer whose memory it has from here on]",
        "steps": "[first, behind the last], counted from here, whose pointers change",
        "settling": "the same of the steps that bring values home",
    },
    "arguments": {
        "name": "what its declaration calls it",
        "count": "elements",
        "itemsize": "bytes of one",
        "reads": "whether what was there may be read",
        "writes": "whether it may be written",
    },
    "gpu": {
        "kernels": "those to choose from",
        "launch": "which of them runs, and how",
        "library": "the product that the vendor's library can make instead",
    },
    "library": {
        "sizes": "rows, columns, and what is summed over",
        "left": "an operand",
        "right": "an operand",
        "dtype": "of all elements",
        "target": "the pointer that is written",
        "items": "how many products there are",
    },
    "operand": {
        "pointer": "which of the step's",
        "offset": "elements before its first",
        "batch": "elements from one product to the next",
        "row": "elements from one row to the next",
        "column": "elements from one column to the next",
    },
    "template": {
        "function": "its name",
        "config": "the type that has its sizes",
        "arguments": "what it is given first",
        "header": "the file that has it",
        "threads": "of a block",
        "rows": "of a tile",
        "columns": "of a tile",
        "shared": "bytes of shared memory",
        "queries": "that a block makes",
        "head": "the largest width of a head",
        "depth": "of what is summed over, that a step takes; 0 where blocks share no tile",
        "rate": "multiplications that a busy multiprocessor makes in a nanosecond",
        "alone": "the same where it has one block",
    },
    "shape": {
        "lanes": "threads that share a row",
        "rows": "of a block, at most",
        "vector": "elements that a lane reads and writes at once",
        "count": "vectors of a lane",
        "least": "elements that rows have more than",
    },
    "launch": {name: note for name, (note, _) in LAUNCH_NOTES.items()},
    **{name: fields for name, (_, fields) in LAUNCH_NOTES.items()},
}
"""The meaning of the fields, by the word or the field that they are in."""

_SAME: Mapping[str, str] = {
    "kernels": "kernel", "strips": "kernel", "left": "operand", "right": "operand",
    "templates": "template", "shapes": "shape",
}  # fmt: skip
"""Fields whose inside is explained under another name."""


def explained(rows: Iterable[Row]) -> Iterator[str]:
    """The lines of ``rows``, each field explained above the line that has it first."""
    told: set[tuple[str, str]] = set()
    begun: set[str] = set()
    for row in rows:
        new = [*_new_fields(row.word, row.made, "", told)]
        if row.word not in begun:
            begun.add(row.word)
            yield "#"
            yield f"# {row.word}: {WORDS[row.word]}"
        for path, note in new:
            yield f"#   {path}: {note}"
        yield row.line


def _new_fields(
    inside: str, made: Any, path: str, told: set[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """The fields of ``made`` that nobody was told of, with what they are."""
    if isinstance(made, list | tuple):
        for one in made:
            yield from _new_fields(inside, one, path, told)
    if not isinstance(made, dict):
        return
    notes = FIELDS.get(inside, {})
    for name, value in made.items():
        if name in notes and (inside, name) not in told:
            told.add((inside, name))
            yield f"{path}{name}", notes[name]
        if value.__class__ in (dict, list):
            yield from _new_fields(_SAME.get(name) or name, value, f"{path}{name}.", told)


__all__ = ["FIELDS", "HEAD", "WORDS", "explained"]
