"""A graph, model or profile as a document: what there is to see of it at this moment.

In: the IR of the user's graph, the plan of a model, the times of a profile. Out: plain JSON, the
same for the same program in every process. Ids are those of the graph (``n12``, ``v12``) and of the
plan (``k4``). A document holds no data of weights; constants of a few elements are written out.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Set
from functools import cached_property
from typing import Any, cast

from maxlab.analysis.runs.shown import Recorded
from maxlab.compiler.plan import Step
from maxlab.engine import Model
from maxlab.engine.kernel_view import origins_of, source_of, user_lines
from maxlab.engine.profile import Profile
from maxlab.engine.times import KernelTime
from maxlab.errors import ArgumentTypeError, MaxlabError
from maxlab.graph import Graph
from maxlab.ir import Function, Op, Type, Value
from maxlab.lab import overlays, protocol, words
from maxlab.lab.known import Known
from maxlab.lab.noted import noted
from maxlab.lab.questions.answering import answers_to_save
from maxlab.lab.regions import Shown, listed, operations_of
from maxlab.lab.scopes import Paths, scopes_of
from maxlab.lab.splitting import Splitter
from maxlab.opset import OPSET, Role, flops_of, role_of
from maxlab.opset.custom import label_of

MOST_SOURCE = 400_000
"""Characters of generated text that a document carries; of larger models it is sent on request."""

ERROR_NODE = "error"
"""The id of the node that stands for the op that could not be added."""


class Snapshot:
    """A document and its compressed forms, each made once.

    Attributes:
        name: The name of the graph.
        ops: How many operations it has; see ``opset.operations``.
    """

    def __init__(self, document: protocol.GraphDocument) -> None:
        self.name = document["name"]
        self.ops = len(operations_of(document))
        self._document: protocol.GraphDocument | None = document

    @property
    def document(self) -> protocol.GraphDocument:
        """The document."""
        if self._document is None:
            made: protocol.GraphDocument = json.loads(zlib.decompress(self.deflated))
            return made
        return self._document

    def shrink(self) -> None:
        """Keep the compressed bytes only, a fiftieth of the memory; the rest is made anew when
        asked for."""
        if self._document is not None:
            _ = self.deflated
            self._document = None
            self.__dict__.pop("json", None)
            self.__dict__.pop("base64", None)

    def grow(self) -> None:
        """Keep the document again, for several readings of it."""
        self._document = self.document

    @cached_property
    def json(self) -> str:
        """The document as JSON without blanks."""
        return json.dumps(self.document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)

    @cached_property
    def deflated(self) -> bytes:
        """The document as zlib-compressed UTF-8 JSON."""
        # Half of a surrogate pair, which a saved run may have, becomes JSON's own escape.
        # Level 9 takes four times as long, for one byte in a hundred.
        return zlib.compress(self.json.encode("utf-8", "backslashreplace"), 6)

    @cached_property
    def base64(self) -> str:
        """``deflated`` as text."""
        return base64.b64encode(self.deflated).decode()

    @property
    def packed(self) -> protocol.Packed:
        """The document as it is saved in a notebook."""
        return {"encoding": "deflate+base64", "data": self.base64}


def unpack(packed: protocol.Packed) -> Any:
    """The document inside of ``packed``, as read from JSON."""
    return json.loads(zlib.decompress(base64.b64decode(packed["data"])))


def take(obj: Graph | Model | Profile | Recorded, *, sources: bool | None = None) -> Snapshot:
    """The ``Snapshot`` of ``obj``.

    Args:
        obj: What to look at. A model brings the graph it was compiled from, and its newest profile.
        sources: Whether the generated C is in it; by default when it is not too long.

    Raises:
        ArgumentTypeError: ML801, ``obj`` is something else.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> document = take(graph).document
        >>> [node["op"] for node in document["nodes"]], document["inputs"]
        (['constant', 'mul'], ['a0'])
    """
    if isinstance(obj, Graph):
        return Snapshot(overlays.dressed(_graph_document(obj.name, obj.function, obj), obj))
    if isinstance(obj, Model):
        return Snapshot(overlays.dressed(_model_document(obj, obj.last_profile, sources), obj))
    if isinstance(obj, Profile):
        return Snapshot(overlays.dressed(_model_document(obj.model, obj, sources), obj))
    if isinstance(obj, Recorded):
        document: Any = overlays.dressed(cast("protocol.GraphDocument", obj.document), obj)
        return Snapshot(document if sources is not False else without_sources(document))
    raise ArgumentTypeError(
        "ML801",
        f"a view shows a Graph, a Model or a Profile, got {type(obj).__name__}",
        fix="pass the graph, what InferenceSession.load returned, or what model.profile returned",
    )


# ---------------------------------------------------------------- graphs


def retaken(
    graph: Graph, before: protocol.GraphDocument, touched: Set[str]
) -> protocol.GraphDocument:
    """The document of ``graph`` as it is now, which shares with ``before``, an older one of it, the
    entries of ops that did not change.

    Args:
        graph: What to look at.
        before: A document of ``graph``.
        touched: The ids of the ops that were added, removed or changed since ``before``, and of the
            values that got another name or type.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> before = take(graph).document
        >>> after = retaken(graph, before, {"n1"})
        >>> [new is old for new, old in zip(after["nodes"], before["nodes"])], after == before
        ([True, False], True)
    """
    return _graph_document(graph.name, graph.function, graph, Known(before, touched))


def rewritten(
    graph: Graph, before: protocol.GraphDocument, ops: Mapping[str, Op]
) -> protocol.GraphDocument | None:
    """The document of ``graph`` as it is now, where only operands and attributes of ``ops`` changed
    since ``before``, an older one; None where that is not all there is to make anew.

    The graph is not read as a whole, which takes longer than all the rest of a small change.

    Args:
        graph: What to look at.
        before: A document of ``graph``.
        ops: The ops that changed, by their ids.
    """
    function, nodes = graph.function, before["nodes"]
    same = len(nodes) == len(function.ops) - (function.output is not None)
    if not same or before["error"] is not None or getattr(graph, "_error", None) is not None:
        return None
    places = {node["id"]: place for place, node in enumerate(nodes)}
    made, values = list(nodes), _Values()
    for id, op in ops.items():
        place = places.get(id)
        is_plain = op.block is function.block and not op.regions
        # A scope has a fingerprint of what is in it, and loops are seen in other nodes too.
        if place is None or not is_plain or nodes[place]["scope"] or op.scope:
            return None
        for result in op.results:
            values.add(result, _KINDS.get(role_of(op), "tensor"))
        made[place] = _node(Shown(op, "", op.operands), "")
    if any("gives" in node for node in nodes):
        return None
    fresh = {value["id"]: value for value in values.made}
    document: protocol.GraphDocument = {
        **before,
        "revision": int(getattr(graph, "_revision", 0)),
        "nodes": made,
        "values": [fresh.get(value["id"], value) for value in before["values"]],
    }
    return noted(document, function, before)


def _graph_document(
    name: str, function: Function, graph: Any, known: Known | None = None
) -> protocol.GraphDocument:
    known = known or Known()
    found = listed(function, getattr(graph, "scope_types", {}))
    ops = found.ops
    paths = Paths([shown.scope for shown in ops], {**found.functions, **found.modules})
    of_op = [paths.of(shown.scope) for shown in ops]
    output = function.output
    values = _Values()
    called = getattr(graph, "_input_names", ())
    for place, value in enumerate(function.inputs):
        values.add(value, "input", called[place] if place < len(called) else "")
    nodes = []
    for shown, path in zip(ops, of_op, strict=True):
        node = known.node(shown, path)
        if node is not None:
            values.made += known.values_of(node)
        else:
            kind = _KINDS.get(role_of(shown.op), "tensor")
            for result in shown.op.results:
                values.add(result, kind)
            node = _node(shown, path)
        nodes.append(node)
    error = getattr(graph, "_error", None)
    document: protocol.GraphDocument = {
        "format": "maxlab.graph",
        "version": protocol.VERSION,
        "name": name,
        "revision": int(getattr(graph, "_revision", 0)),
        "nodes": nodes,
        "values": values.made,
        "inputs": [v.id for v in function.inputs],
        "outputs": [v.id for v in output.operands] if output is not None else [],
        "scopes": scopes_of(found, of_op, paths.types, known.fingerprints(nodes)),
        "kernels": [],
        "passes": [],
        "profile": None,
        "error": None,
    }
    if isinstance(error, MaxlabError):
        document["error"] = _error(error, document, ops[-1].op if ops else None)
    notes = graph.function if isinstance(graph, Graph) else function
    return noted(document, notes, known.document)


_KINDS: dict[Role | None, protocol.ValueKind] = {"data": "constant", "weight": "weight"}


class _Values:
    """The values of a document; equal types share their text."""

    def __init__(self) -> None:
        self.made: list[protocol.Value] = []
        self._types: dict[Type, tuple[str, str, list[protocol.Dim], int | None]] = {}

    def add(self, value: Value, kind: protocol.ValueKind, called: str = "") -> None:
        kind_of = value.type
        known = self._types.get(kind_of)
        if known is None:
            dtype = getattr(kind_of, "dtype", None)
            known = self._types[kind_of] = (
                words.type_text(kind_of),
                dtype.name if dtype is not None else "",
                words.dims_of(kind_of),
                words.nbytes_of(kind_of),
            )
        text, dtype_name, shape, nbytes = known
        made: protocol.Value = {
            "id": value.id,
            "type": text,
            "dtype": dtype_name,
            "shape": shape,
            "kind": kind,
        }
        name = called or value.name
        if not name and kind == "constant" and value.op is not None:
            array = value.op.attrs["value"].array
            name = words.constant_text(array) if array.size <= words.SMALL else ""
        if name:
            made["name"] = name
        if nbytes is not None:
            made["nbytes"] = nbytes
        self.made.append(made)


def _node(shown: Shown, path: str) -> protocol.Node:
    op = shown.op
    row = OPSET.get(op.name)
    name = row.label(op.attrs) if row is not None and row.label is not None else label_of(op)
    made: protocol.Node = {
        "id": op.id,
        "op": name,
        # Beside the name, of which it is a repetition to the compressor.
        "family": row.family if row is not None else "other",
        "name": op.results[0].name or name if op.results else name,
        "scope": path,
        "operands": [v.id for v in shown.operands],
        "results": [v.id for v in op.results],
        "attrs": words.attrs_of(op),
        "source": words.source_of(op.loc),
        "error": None,
    }
    if row is not None:
        flops = words.quantity(flops_of(op))
        if flops != 0:
            made["flops"] = flops
    if shown.gives:
        made["gives"] = [[v.id for v in given] for given in shown.gives]
    return made


_VALUE_ID = re.compile(r"%([av]\d+(?:_\d+)?)\b")


def _error(
    error: MaxlabError, document: protocol.GraphDocument, last: Op | None
) -> protocol.GraphError:
    """The error, after a node for the op that failed was added to ``document``.

    The op itself was taken back. What is left of it is the place where it was written, its name at
    the start of the message, and the operands that the message names.
    """
    head, colon, _ = error.what.partition(":")
    op = head if colon and head.replace(".", "").replace("_", "").isalnum() else "error"
    known = {value["id"] for value in document["values"]}
    named = dict.fromkeys(
        found
        for text in (error.what, *error.why)
        for found in _VALUE_ID.findall(text)
        if found in known
    )
    row = OPSET.get(f"mo.{op}")
    scope = ""
    if last is not None and last.loc is not None and error.at is not None:
        same = last.loc.file == error.at.file and last.loc.function == error.at.function
        scope = document["nodes"][-1]["scope"] if same else ""
    message = "\n".join([error.what, *(f"because {reason}" for reason in error.why)])
    failed: protocol.Node = {
        "id": ERROR_NODE,
        "op": op,
        "name": op,
        "scope": scope,
        "operands": list(named),
        "results": [],
        "attrs": {},
        "source": words.source_of(error.at),
        "error": message,
    }
    if row is not None:
        failed["family"] = row.family
    document["nodes"].append(failed)
    return {"code": error.code, "message": message, "fix": error.fix, "node": ERROR_NODE}


# ---------------------------------------------------------------- models and profiles


def _model_document(
    model: Model, profile: Profile | None, sources: bool | None
) -> protocol.GraphDocument:
    compiled = model.compiled
    document = _graph_document(model.name, compiled.source, model.graph)
    document["error"] = None
    document["nodes"] = [n for n in document["nodes"] if n["id"] != ERROR_NODE]
    origins = origins_of(model)
    steps = compiled.plan.steps
    texts = [model.printed(step) for step in steps]
    if sources is None:
        sources = sum(len(printed.text) for printed in texts if printed) <= MOST_SOURCE
    for step, printed in zip(steps, texts, strict=True):
        kernel: protocol.Kernel = {
            "id": step.id,
            "name": step.name,
            "kind": step.kind,
            "nodes": _nodes_of(step),
            "symbol": printed.symbol if printed is not None else step.callee,
            "source": source_of(model, step) if sources else None,
            "lines": user_lines(model, step, origins) if sources else [],
            "flops": words.quantity(step.flops),
            "bytes": words.quantity(step.nbytes),
            "parallel": words.quantity(step.parallel),
        }
        if step.gpu is not None or step.kind == "transfer":
            kernel["device"] = str(step.device)
        if step.gpu is not None:
            kernel["language"] = "cuda"
        elif step.call is not None:
            kernel["language"] = "python"
        document["kernels"].append(kernel)
    document["passes"] = [
        {
            "name": record.name,
            "before": record.before,
            "after": record.after,
            "ms": round(record.elapsed_ns / 1e6, 3),
        }
        for record in compiled.passes
    ]
    if profile is not None:
        document["profile"] = _profile(profile, document)
        answers = answers_to_save(profile)
        if answers:
            document["answers"] = answers
    return document


def _nodes_of(kernel: Step | KernelTime) -> list[str]:
    """The ops that a kernel computes: a jump computes none, and would only be in the way."""
    return [] if kernel.kind == "jump" else list(kernel.nodes)


def _profile(profile: Profile, document: protocol.GraphDocument) -> protocol.Profile:
    splitter = Splitter(document, profile.dims)
    return {
        "device": profile.device,
        "runs": profile.runs,
        "threads": profile.threads,
        "dims": dict(profile.dims),
        "wall_ns": profile.wall_ns,
        "wall_ns_min": profile.wall_ns_min,
        "overhead": None if profile.overhead is None else round(profile.overhead, 4),
        "kernels": [_kernel_time(kernel, splitter) for kernel in profile.kernels],
    }


def _kernel_time(kernel: KernelTime, splitter: Splitter) -> protocol.KernelProfile:
    nodes = _nodes_of(kernel)
    made: protocol.KernelProfile = {
        "id": kernel.id,
        "ns": kernel.ns,
        "ns_min": kernel.ns_min,
        "count": kernel.turns,
        "flops": kernel.flops,
        "bytes": kernel.nbytes,
        "nodes": nodes,
        "ns_iqr": kernel.ns_iqr,
    }
    if len(nodes) > 1:
        made["parts"] = [float(f"{part:.6g}") for part in splitter.parts(nodes)]
    return made


def kernel_source(model: Model, kernel: str) -> protocol.SourceMessage:
    """The answer to a request for the C of ``kernel``.

    Raises:
        KeyError: The model has no such kernel.
    """
    step = model.compiled.step(kernel)
    return {
        "type": "source",
        "protocol": protocol.PROTOCOL,
        "kernel": kernel,
        "source": source_of(model, step),
        "lines": user_lines(model, step, origins_of(model)),
    }


def without_sources(document: protocol.GraphDocument) -> protocol.GraphDocument:
    """``document`` without the generated text of its kernels."""
    kernels: Iterable[protocol.Kernel] = document["kernels"]
    return {**document, "kernels": [{**k, "source": None, "lines": []} for k in kernels]}


def without_times(document: protocol.GraphDocument) -> protocol.GraphDocument:
    """``document`` without what differs between two compilations of one program; ``document``
    itself when it has nothing of that."""
    if not document["passes"]:
        return document
    passes: Iterable[protocol.Pass] = document["passes"]
    return {**document, "passes": [{**p, "ms": 0.0} for p in passes]}
