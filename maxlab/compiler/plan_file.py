"""Plans as text that is read back: `written` and `read` are exact inverses.

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

import ast
import base64
import binascii
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from maxlab.compiler import facts, launches, op_facts, plan_legend
from maxlab.compiler import plan_parts as plans
from maxlab.compiler.conventions import Operand
from maxlab.compiler.gpu_templates import AttentionTemplate, ProductTemplate
from maxlab.compiler.guards import Guard
from maxlab.compiler.plan_legend import Row, explained
from maxlab.compiler.plan_whole import Whole
from maxlab.compiler.printed import CudaPrinted, Printed
from maxlab.compiler.traffic import Counted, Touch
from maxlab.dtype import DType
from maxlab.errors import GraphError, Location, MaxlabError, ParseError
from maxlab.ir import DeviceRef
from maxlab.ir.dimtext import read_poly
from maxlab.ir.poly import FloorDiv, Poly
from maxlab.opset import Check
from maxlab.opset.faults import Fault
from maxlab.opset.notes import NOTES, Note, numbers_in, remembered

VERSION = 2
HEAD = f"maxlab plan {VERSION}"
INLINE = 256
"""Bytes of an array that stands in the text itself."""
END = "end"
CODE = "  | "
"""What a line of a kernel's text begins with."""

Places = Mapping[str, Location | None]
"""The user's line of each op, by the id of the op."""


class Codec(NamedTuple):
    """How values of one type are written and read."""

    write: Callable[[Any, Writer], Any]
    read: Callable[[Any, Reader], Any]


# ---------------------------------------------------------------- plain values
def _same(value: Any, _: Any) -> Any:
    return value


def write_poly(poly: Poly, _: Any = None) -> Any:
    """A size: an int, the text of an expression, or its terms where no text reads back as it."""
    if poly.is_constant:
        return poly.value
    return _poly_text(poly)


@functools.lru_cache(maxsize=1 << 14)
def _poly_text(poly: Poly) -> Any:
    text = str(poly)
    if poly.is_symbol and text.isidentifier():
        return text
    try:
        if read_poly(text) == poly:
            return text
    except MaxlabError:
        pass
    return _terms(poly)


def _terms(poly: Poly) -> list[Any]:
    return [
        [scale, *([_atom(atom), power] for atom, power in monomial)]
        for monomial, scale in poly.terms
    ]


def _atom(atom: str | FloorDiv) -> Any:
    return atom if isinstance(atom, str) else [_terms(atom.numerator), _terms(atom.denominator)]


def read_size(value: Any, _: Any = None) -> Poly:
    """The size that `write_poly` has written."""
    if value.__class__ is int:
        return Poly.constant(value)
    return _read_text(value) if isinstance(value, str) else _read_terms(value)


@functools.lru_cache(maxsize=1 << 14)
def _read_text(text: str) -> Poly:
    return read_poly(text)


def _read_terms(terms: list[Any]) -> Poly:
    made = tuple((tuple((_read_atom(a), p) for a, p in monomial), s) for s, *monomial in terms)
    return Poly(made)


def _read_atom(atom: Any) -> str | FloorDiv:
    if isinstance(atom, str):
        return atom
    return FloorDiv(*map(_read_terms, atom))


_DTYPES = {dtype.name: dtype for dtype in DType}


@functools.cache
def _device(text: str) -> DeviceRef:
    kind, _, number = text.partition(":")
    return DeviceRef(kind, int(number))


PLAIN = Codec(_same, _same)
_CODECS: dict[str, Codec] = {
    **dict.fromkeys(("int", "str", "bool", "float"), PLAIN),
    **dict.fromkeys(("SlotKind", "FaultKind", "Literal"), PLAIN),
    "Poly": Codec(write_poly, read_size),
    "DType": Codec(lambda dtype, _: dtype.name, lambda name, _: _DTYPES[name]),
    "DeviceRef": Codec(lambda device, _: str(device), lambda text, _: _device(text)),
    "range": Codec(lambda made, _: [made.start, made.stop], lambda ends, _: range(*ends)),
    "Location": Codec(lambda at, to: to.location(at), lambda at, of: of.location(at)),
    "OpFacts": Codec(lambda op, to: to.op(op), lambda number, of: of.ops[number]),
}
"""How values are written, by the name of their type in an annotation."""


# ---------------------------------------------------------------- types
@functools.cache
def codec(annotation: str) -> Codec:
    """How values of the type that ``annotation`` spells are written and read."""
    return _codec(ast.parse(annotation, mode="eval").body)


def _codec(node: ast.expr) -> Codec:
    match node:
        case ast.Constant(value=None):
            return PLAIN
        case ast.Name(id=name) if name in _CODECS:
            return _CODECS[name]
        case ast.Name(id=name) if name in _ALIASES:
            return codec(_ALIASES[name])
        case ast.Name(id=name) if name in RECORDS:
            return _record_codec(name)
        case ast.BinOp(left=left, right=ast.Constant(value=None)):
            return _optional(_codec(left))
        case ast.Subscript(value=ast.Name(id="Literal")):
            return PLAIN
        case ast.Subscript(value=ast.Name(id=kind), slice=inner):
            return _collection(kind, inner)
    raise TypeError(f"a plan cannot be written with a field of the type {ast.unparse(node)}")


def _optional(inner: Codec) -> Codec:
    return Codec(
        lambda value, to: None if value is None else inner.write(value, to),
        lambda value, of: None if value is None else inner.read(value, of),
    )


def _collection(kind: str, inner: ast.expr) -> Codec:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    many = [_codec(part) for part in parts if not isinstance(part, ast.Constant)]
    if kind in ("dict", "Mapping"):
        key, value = many
        return Codec(
            lambda pairs, to: [[key.write(k, to), value.write(v, to)] for k, v in pairs.items()],
            lambda pairs, of: {key.read(k, of): value.read(v, of) for k, v in pairs},
        )
    if kind == "tuple" and len(many) > 1:
        return Codec(
            lambda row, to: [c.write(x, to) for c, x in zip(many, row, strict=True)],
            lambda row, of: tuple([c.read(x, of) for c, x in zip(many, row, strict=True)]),
        )
    (one,) = many
    make = {"tuple": tuple, "list": list, "frozenset": frozenset}[kind]
    order = sorted if kind == "frozenset" else list
    if one is PLAIN:
        return Codec(lambda row, _: order(row), lambda row, _: make(row))
    return Codec(
        lambda row, to: [one.write(x, to) for x in order(row)],
        lambda row, of: make([one.read(x, of) for x in row]),
    )


_ALIASES = {
    "Index": "tuple[Poly, ...]",
    "Part": "tuple[tuple[tuple[int, int], ...], ...]",
}
RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        plans.Packing, plans.Binds, plans.Exchange, plans.KernelArgument, Operand, ProductTemplate,
        AttentionTemplate, launches.LibraryProduct, Guard, Check, Fault, Note, facts.InputFacts,
        facts.OutputFacts, facts.WeightFacts, facts.Bound, facts.Conditions, facts.SizeFacts,
        facts.AheadFacts,
    )
}  # fmt: skip
"""The dataclasses that a plan is made of, which are written field by field."""
FORMULAS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        launches.Once, launches.Items, launches.Blocks, launches.Gemm, launches.BatchedGemm,
        launches.Attention, launches.Strided, launches.MappedRows, launches.FoldedRows,
        launches.Parts, launches.Tiles, launches.Heads,
    )
}  # fmt: skip
"""The formulas of launches, which are written with their name."""


class _Field(NamedTuple):
    name: str
    codec: Codec
    default: Any


@functools.cache
def fields_of(kind: type, left_out: frozenset[str] = frozenset()) -> tuple[_Field, ...]:
    """The fields of a dataclass that are written, all but those ``left_out``."""
    found = []
    for one in dataclasses.fields(kind):
        if one.name in left_out or not one.init:
            continue
        default: Any = one.default
        if one.default_factory is not dataclasses.MISSING:
            default = one.default_factory()
        found.append(_Field(one.name, codec(str(one.type)), default))
    return tuple(found)


def write_record(made: Any, to: Writer, left_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields of the dataclass ``made`` that are not as by default."""
    found = {}
    kind: Any = type(made)
    for name, (write, _), default in fields_of(kind, left_out):
        value = getattr(made, name)
        if default is dataclasses.MISSING or value != default:
            found[name] = write(value, to)
    return found


def read_record(
    kind: type, given: Mapping[str, Any], of: Reader, left_out: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The arguments for ``kind`` that `write_record` has written."""
    known = fields_of(kind, left_out)
    return {name: one.read(given[name], of) for name, one, _ in known if name in given}


@functools.cache
def _record_codec(name: str) -> Codec:
    kind = RECORDS[name]
    return Codec(write_record, lambda given, of: kind(**read_record(kind, given, of)))


def _write_formula(formula: Any, to: Writer) -> Any:
    return None if formula is None else {type(formula).__name__: write_record(formula, to)}


def _read_formula(given: Any, of: Reader) -> Any:
    if given is None:
        return None
    ((name, inside),) = given.items()
    return FORMULAS[name](**read_record(FORMULAS[name], inside, of))


_CODECS["HostFormula"] = _CODECS["GpuFormula"] = Codec(_write_formula, _read_formula)


# ---------------------------------------------------------------- writing
class Writer:
    """Lines of text, and what they share.

    Args:
        places: The user's lines, by the ids of ops: whoever reads the text may have newer ones.
    """

    def __init__(self, places: Places | None = None) -> None:
        self.places = {at: id for id, at in (places or {}).items() if at is not None}
        self.ops: dict[op_facts.OpFacts, int] = {}
        self.kernels: dict[Any, int] = {}
        self.kernel_rows: list[Row] = []
        self.notes: dict[int, Note] = {}
        self.data: dict[str, np.ndarray[Any, Any]] = {}

    def location(self, at: Location) -> Any:
        """A place in the user's code, with the id of an op that has it."""
        place = [*dataclasses.astuple(at)]
        known = self.places.get(at)
        return place if known is None else {"of": known, "was": place}

    def op(self, op: op_facts.OpFacts) -> int:
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
        digest = hashlib.blake2b(data.reshape(-1).view(np.uint8).data, digest_size=16).hexdigest()
        self.data[digest] = data.reshape(array.shape)
        return {**found, "digest": digest}


_SLOT = frozenset({"data"})
_STEP = frozenset(
    {"printed", "gpu", "call", "touching", "loops", "held", "launch", "strips", "renamed"}
)
_RENAMED = codec("dict[str, tuple[str, ...]]")


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
        made = write_record(slot, to, _SLOT)
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
    lines = [*plan_legend.HEAD, *explained(rows)] if explain else [row.line for row in rows]
    return "\n".join([HEAD, *lines, END, ""]), to.data


def _step(step: plans.Step, plan: Whole, to: Writer) -> dict[str, Any]:
    if step.call is not None:
        raise GraphError(
            "ML331",
            f"the plan cannot be written: its step {step.id} calls {step.call.name}, a function of "
            "this process",
            fix="write the graph of a model whose operations all have kernels",
        )
    made = write_record(step, to, _STEP)
    if step.gpu is not None:
        gpu: dict[str, Any] = {
            "kernels": [to.kernel(step.gpu.printed(n)) for n in range(len(step.gpu))],
            "launch": _write_formula(step.gpu.launch, to),
        }
        if step.gpu.library is not None:
            gpu["library"] = write_record(step.gpu.library, to)
        made["gpu"] = gpu
    elif step.printed is not None:
        made["kernel"] = to.kernel(step.printed)
    strips = step.in_strips()
    if strips is not None:
        made["strips"] = to.kernel(strips)
    if step.launch is not None:
        made["launch"] = _write_formula(step.launch, to)
    if step.renamed is not None:
        made["renamed"] = _RENAMED.write(step.renamed, to)
    touched = step.touched()
    if touched:
        made["touches"] = [[n, *map(write_poly, touch)] for n, touch in touched.items()]
    if step.held != _held(step.pointers, plan.slots):
        made["held"] = [[n, write_poly(size), one] for n, (size, one) in step.held.items()]
    return made


def _held(pointers: list[int], slots: list[plans.Slot]) -> dict[int, tuple[Poly, int]]:
    """The bytes of the slots, and those of one element, as most steps have them."""
    return {n: (slots[n].nbytes, slots[n].dtype.size_in_bytes) for n in pointers}


# ---------------------------------------------------------------- reading
class Reader:
    """What the lines of a text refer to."""

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
        dtype, shape = _DTYPES[given["dtype"]].ml_numpy, given["shape"]
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
                made = read_record(plans.Slot, given, of, _SLOT)
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
    for row in rows:
        if row.startswith(CODE):
            of.kernels[-1][1].append(row[len(CODE) :])
            continue
        word, _, rest = row.partition(" ")
        if word == "kernel":
            of.kernels.append((json.loads(rest), []))
        elif row == END:
            return
        elif not word.startswith("#"):
            yield word, json.loads(rest)
    raise ValueError("it ends too early")


def _read_step(given: dict[str, Any], slots: list[plans.Slot], of: Reader) -> plans.Step:
    made = read_record(plans.Step, given, of, _STEP)
    pointers = made["pointers"]
    gpu, printed = None, None
    if "gpu" in given:
        inside = given["gpu"]
        library = inside.get("library")
        if library is not None:
            library = launches.LibraryProduct(**read_record(launches.LibraryProduct, library, of))
        texts: Any = [of.kernel(kernel) for kernel in inside["kernels"]]
        gpu = plans.GpuKernels(texts, _read_formula(inside["launch"], of), library)
        printed = texts[0]
    elif "kernel" in given:
        printed = of.kernel(given["kernel"])
    touched = {n: Touch(*map(read_size, rest)) for n, *rest in given.get("touches", ())}
    if "held" in given:
        held = {n: (read_size(size), one) for n, size, one in given["held"]}
    else:
        held = _held(pointers, slots)
    step = plans.Step(
        printed=printed,
        gpu=gpu,
        launch=_read_formula(given.get("launch"), of),
        touching=Counted(touched),
        held=held,
        renamed=_RENAMED.read(given["renamed"], of) if "renamed" in given else None,
        **made,
    )
    if "strips" in given:
        step.strips = of.kernel(given["strips"])
    return step


__all__ = ["HEAD", "INLINE", "read", "written"]
