"""Writing a compiled model to a file: `save_model`."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from maxlab import files
from maxlab.compiler.compiled import units_of
from maxlab.compiler.options import DEFAULT
from maxlab.compiler.plan_file import HEAD, written
from maxlab.config import VERSION
from maxlab.digests import blake2b
from maxlab.driver.device import CPU
from maxlab.driver.mapped import FileMemory, file_at
from maxlab.dtype import DType
from maxlab.engine.kept.manifest import (
    AGAIN,
    COMPUTED,
    CONSTANTS,
    DIGEST,
    GRAPH,
    INSIDE,
    LIBRARIES,
    MANIFEST,
    PACKED,
    PLAN,
    WEIGHTS,
    Argument,
    ArrayEntry,
    FileEntry,
    KernelEntry,
    LibraryEntry,
    MachineEntry,
    Manifest,
    MemberEntry,
    PackedEntry,
    WeightEntry,
    Where,
)
from maxlab.errors import ArgumentError, GraphError, shown
from maxlab.graph import Graph
from maxlab.graph.document_json import dump
from maxlab.graph.kept import WEIGHTS as DOCUMENT_WEIGHTS
from maxlab.graph.signing import kernels_of
from maxlab.graph.weights.writing import safetensors_head
from maxlab.ir import at_revision
from maxlab.stored import ALIGNMENT, Writing
from maxlab.toolchain import find_compiler
from maxlab.toolchain.compiler import cpu_features
from maxlab.toolchain.flags import Flags
from maxlab.toolchain.library import PRODUCTS, RUNTIME, own_library, sources_digest
from maxlab.toolchain.units import libraries_of

if TYPE_CHECKING:
    from maxlab.compiler import Compiled
    from maxlab.compiler.printed import Printed
    from maxlab.engine.model import Model

Parts = Sequence[Any]
_PLACES: Final = ("inside", "files")


def save_model(model: Model, path: files.AnyPath, weights: Where = "inside") -> str:
    """The digest of the file at ``path``, which now holds ``model``; see ``Model.save``.

    Raises:
        ArgumentError: ML451, ``weights`` is neither ``"inside"`` nor ``"files"``.
        GraphError: ML450, a part of the model belongs to this process alone.
        FileError: ML001 or ML003, the file cannot be written; it is as it was before.
        ToolchainError: A library is not in the cache any more, and cannot be compiled again.
        WeightFileError: ML639 or ML641, the file of a weight has changed since it was mapped.
    """
    if weights not in _PLACES:
        raise ArgumentError(
            "ML451",
            f"weights is {shown(weights)}, expected 'inside' or 'files'",
            fix="model.save(path) keeps them in the file; weights='files' names the safetensors "
            "files that they come from",
        )
    folder = Path(os.path.realpath(files.as_path(path))).parent
    made = Saving(model, folder if weights == "files" else None)
    with files.replacing(path, "the model") as file:
        digest = made.write(file)
        if model.prepared.watch is not None:  # what was read of files is what they were
            model.prepared.watch.require_whole()
    return digest


class Saving:
    """The members of the file of ``model``, made before anything is written.

    Args:
        model: The model.
        folder: Where the file will be, if weights stay in the files that they come from.
        code: Whether machine code and packed weights are kept.
        weights: Whether the weights are.
    """

    def __init__(
        self, model: Model, folder: Path | None, *, code: bool = True, weights: bool = True
    ) -> None:
        self._members: dict[str, Parts] = {}
        self._arrays: list[ArrayEntry] = []
        compiled, plan = model.compiled, model.compiled.plan
        graph = _graph_of(model)
        self._members[GRAPH] = [_document(graph)]
        text, arrays = self._plan_of(compiled)
        self._members[PLAN] = [text.encode()]
        if arrays:
            self._keep(CONSTANTS, arrays)
        entries, files_ = self._weights(model, folder) if weights else ((), ())
        self._libraries: list[LibraryEntry] = []
        kernels = self._kernels(compiled, code)
        machine = MachineEntry(
            VERSION, HEAD, sources_digest(), find_compiler().machine,
            tuple(sorted(cpu_features())), find_compiler().version,
        )  # fmt: skip
        packed: tuple[PackedEntry, ...] = ()
        ahead = AGAIN if plan.facts.ahead is not None else ""
        if code and not model.runner.executable.placed:
            packed = self._packed(model)
            self._computed(model)
            ahead = ahead and INSIDE
        facts = plan.facts
        self._manifest = Manifest(
            name=model.name,
            maxlab=VERSION,
            operations=sum(1 for _ in graph.function.walk()),
            inputs=tuple(
                Argument(x.name, x.dtype.name, tuple(map(str, x.shape)), str(x.device))
                for x in facts.inputs
            ),
            outputs=tuple(
                Argument(f"output{n}", x.dtype.name, tuple(map(str, x.declared)), str(x.device))
                for n, x in enumerate(facts.outputs)
            ),
            weights=tuple(entries),
            files=tuple(files_),
            custom=tuple(dict.fromkeys(op.attrs["name"] for op in kernels_of(graph.function))),
            options=_options(compiled),
            kernels=tuple(kernels),
            libraries=tuple(self._libraries),
            machine=machine,
            packed=packed,
            arrays=tuple(self._arrays),
            ahead=ahead,
        )

    # ------------------------------------------------------------ parts
    def _plan_of(self, compiled: Compiled) -> tuple[str, Mapping[str, np.ndarray[Any, Any]]]:
        try:
            return written(compiled.plan)
        except GraphError as error:
            raise GraphError(
                "ML450",
                f"the model {compiled.plan.facts.name!r} cannot be saved: {error.what}",
                at=error.at,
                fix="save its graph instead, graph.save(path), if all of its operations have "
                "kernels",
            ) from error

    def _weights(
        self, model: Model, folder: Path | None
    ) -> tuple[list[WeightEntry], list[FileEntry]]:
        """Where each weight is: in a file that is named, or in a member that is made here."""
        files_ = _Files(folder)
        rows: dict[str, WeightEntry] = {}
        inside: dict[str, np.ndarray[Any, Any]] = {}
        for fact in model.compiled.plan.facts.weights.values():
            name = fact.name
            if name in rows:
                continue
            tensor = model.prepared.tensors[name]
            array = tensor.to(CPU()).to_numpy()
            told = name, fact.dtype.name, tuple(array.shape)
            known = files_.find(*tensor.host_span)
            if known is not None:
                number, offset = known
                rows[name] = WeightEntry(*told, offset, array.nbytes, number)
            else:
                inside[name] = np.ascontiguousarray(array)
        if inside:
            self._members[WEIGHTS], places = _safetensors(inside)
            for name, (offset, array) in places.items():
                told = name, DType.from_numpy(array.dtype).name, tuple(array.shape)
                rows[name] = WeightEntry(*told, offset, array.nbytes)
        return [rows[name] for name in sorted(rows)], files_.entries

    def _keep(self, member: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Have ``arrays`` in ``member``."""
        self._members[member], places = _safetensors(arrays)
        for name, (offset, array) in places.items():
            told = DType.from_numpy(array.dtype).name, tuple(array.shape)
            self._arrays.append(ArrayEntry(member, name, *told, offset, array.nbytes))

    def _kernels(self, compiled: Compiled, code: bool) -> list[KernelEntry]:
        """The kernels of the plan; their machine code becomes members."""
        steps: dict[tuple[str, str, str], list[str]] = {}
        names: dict[str, str] = {}
        for step in compiled.plan.steps:
            texts: list[tuple[str, Printed]]
            if step.gpu is not None:
                texts = [("cuda", step.gpu.printed(n)) for n in range(len(step.gpu))]
            else:
                texts = [("c", step.printed)] if step.printed is not None else []
            for language, printed in texts:
                steps.setdefault((language, printed.symbol, printed.text), []).append(step.id)
                names.setdefault(printed.symbol, step.name)
        where: dict[str, str] = {}
        if code:
            where = self._code(compiled)
        return [
            KernelEntry(
                symbol, names[symbol], language, tuple(ids),
                where.get(symbol, "") if language == "c" else "",
                blake2b(text.encode(), digest_size=16).hexdigest(),
            )
            for (language, symbol, text), ids in steps.items()
        ]  # fmt: skip

    def _code(self, compiled: Compiled) -> dict[str, str]:
        """The members with the machine code of each kernel on the host, by its symbol."""
        for what in (RUNTIME, PRODUCTS):
            if what == PRODUCTS and not _uses_products(compiled):
                continue
            key, content = own_library(what)
            self._library(what, key.filename(), content)
        units = [*units_of(compiled.plan).values()]
        flags = Flags(accuracy=compiled.options.accuracy)
        found: dict[str, str] = {}
        for library in libraries_of(units, flags):
            member = self._library("kernels", library.key.filename(), library.content)
            found.update(dict.fromkeys(library.symbols, member))
        return found

    def _library(self, what: str, key: str, content: bytes) -> str:
        member = f"{LIBRARIES}{len(self._libraries)}.so"
        self._members[member] = [content]
        self._libraries.append(LibraryEntry(member, what, key))
        return member

    def _packed(self, model: Model) -> tuple[PackedEntry, ...]:
        ffi, prepared = model.runtime.ffi, model.prepared
        rows: list[PackedEntry] = []
        parts: list[Any] = []
        at = 0
        for slot in model.compiled.plan.slots:
            if slot.kind != "packed" or slot.packing is None:
                continue
            nbytes = slot.packing.nbytes
            gap = -at % ALIGNMENT
            address = ffi.cast("char *", prepared.addresses[slot.number])
            parts += [bytes(gap), ffi.buffer(address, nbytes)]
            rows.append(PackedEntry(slot.number, at + gap, nbytes))
            at += gap + nbytes
        if rows:
            self._members[PACKED] = parts
        return tuple(rows)

    def _computed(self, model: Model) -> None:
        ahead, prepared = model.compiled.plan.facts.ahead, model.prepared
        found = {}
        for slot in model.compiled.plan.slots:
            known = ahead is not None and slot.kind == "weight" and slot.name in ahead.names
            if known and slot.number in prepared.addresses:
                found[slot.name] = _array_at(model, slot)
        if found:
            self._keep(COMPUTED, found)

    # ------------------------------------------------------------ writing
    def write(self, file: BinaryIO) -> str:
        """The digest of the archive, which is written to ``file``."""
        members = {name: MemberEntry(*_measured(parts)) for name, parts in self._members.items()}
        text = self._manifest._replace(members=members).text().encode()
        digest = hashlib.sha256(text).hexdigest()
        archive = Writing(file)
        archive.add(MANIFEST, [text])
        archive.add(DIGEST, [digest.encode()])
        for name, parts in self._members.items():
            archive.add(name, parts)
        archive.close()
        return digest

    def bytes(self) -> bytes:
        """The archive in memory."""
        file = io.BytesIO()
        self.write(file)
        return file.getvalue()


class _Files:
    """The files of safetensors that weights are mapped from; none without a ``folder``."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._known: dict[int, int] = {}
        self.entries: list[FileEntry] = []

    def find(self, address: int, nbytes: int) -> tuple[int, int] | None:
        """The number of the file that has the weight, and where it begins there."""
        found = file_at(address) if self._folder is not None and nbytes else None
        if found is None:
            return None
        file, begin = found
        if id(file) not in self._known:
            self._known[id(file)] = self._read(file)
        number = self._known[id(file)]
        return None if number < 0 else (number, begin)

    def _read(self, file: FileMemory) -> int:
        """The number of ``file``; -1 of another format, or of one that is not there any more."""
        assert self._folder is not None
        path = Path(os.path.realpath(file.path))
        if path.suffix != ".safetensors" or not path.is_file():
            return -1
        with suppress(ValueError):
            path = path.relative_to(self._folder)
        digest = hashlib.sha256(memoryview(file)).hexdigest()
        file.require_whole()
        self.entries.append(FileEntry(path.as_posix(), len(file), digest))
        return len(self.entries) - 1


# ---------------------------------------------------------------- values
def _graph_of(model: Model) -> Graph:
    """The graph as it was when ``model`` was loaded, with the kernels that it was loaded with."""
    graph = model.graph
    source = model.compiled.source
    if model.compiled.plan.facts.handles is None and source is not graph.function:
        return Graph(path=source)
    if graph.log.revision != model.graph_revision:
        then = at_revision(graph.function, model.graph_revision)
        if then is not None:
            return Graph(path=then)
    found: Graph = graph
    return found


def _document(graph: Graph) -> bytes:
    data = graph.document.data()
    data.pop(DOCUMENT_WEIGHTS, None)  # the model has them
    return dump(data).encode()


def _options(compiled: Compiled) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in fields(compiled.options):
        value = getattr(compiled.options, one.name)
        if value != getattr(DEFAULT, one.name):
            if isinstance(value, frozenset):
                value = sorted(value)
            found[one.name] = [list(pair) for pair in value] if one.name == "replaced" else value
    return found


def _uses_products(compiled: Compiled) -> bool:
    """Whether any step calls the products library, or weights are packed by it."""
    for step in compiled.plan.steps:
        kind = type(step.launch).__name__ if step.launch is not None else ""
        if kind in ("Gemm", "BatchedGemm", "Attention") or getattr(step.launch, "products", False):
            return True
    return any(slot.kind == "packed" for slot in compiled.plan.slots)


def _array_at(model: Model, slot: Any) -> np.ndarray[Any, Any]:
    ffi = model.runtime.ffi
    nbytes = slot.nbytes.value
    raw = ffi.buffer(ffi.cast("char *", model.prepared.addresses[slot.number]), nbytes)
    shape = tuple(size.value for size in slot.shape)
    made: np.ndarray[Any, Any] = np.frombuffer(raw, slot.dtype.ml_numpy).reshape(shape)
    return made


def _safetensors(
    arrays: Mapping[str, np.ndarray[Any, Any]],
) -> tuple[list[Any], dict[str, tuple[int, np.ndarray[Any, Any]]]]:
    """The parts of a file of safetensors, and where in it each array begins: the widest elements
    first, so that all are aligned, and the first of them at a multiple of `ALIGNMENT`."""
    ordered = dict(sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))
    head = safetensors_head(ordered, ALIGNMENT)
    places, at = {}, len(head)
    for name, array in ordered.items():
        places[name] = at, array
        at += array.nbytes
    return [head, *(array.reshape(-1).view(np.uint8).data for array in ordered.values())], places


def _measured(parts: Parts) -> tuple[int, str]:
    digest, nbytes = hashlib.sha256(), 0
    for part in parts:
        view = memoryview(part).cast("B") if memoryview(part).nbytes else b""
        digest.update(view)
        nbytes += len(view)
    return nbytes, digest.hexdigest()


__all__ = ["Saving", "save_model"]
