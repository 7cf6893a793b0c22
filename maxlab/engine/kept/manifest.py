"""What stands in ``maxlab.json`` of a kept model: `Manifest`, read and written field by field.

Everything that is read is held against the type that the field has, so that nothing behind it meets
a number where a text should be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final

from maxlab.errors import ParseError, shown

FORMAT: Final = "maxlab model"
VERSION: Final = 1
"""The version that is written. A reader takes this one and the one before."""
MANIFEST: Final = "maxlab.json"
DIGEST: Final = "digest"
GRAPH: Final = "graph.mlgraph"
PLAN: Final = "plan.txt"
CONSTANTS: Final = "constants.safetensors"
WEIGHTS: Final = "weights.safetensors"
COMPUTED: Final = "computed.safetensors"
PACKED: Final = "packed.bin"
LIBRARIES: Final = "libraries/"
SUFFIX: Final = ".mlmodel"
MOST_BYTES: Final = 64 << 20
"""Bytes of the manifest that are read."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An input or output: what it is called, its dtype, its shape as text, and its device."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    device: str = "cpu:0"


@dataclass(frozen=True, slots=True)
class WeightEntry:
    """A weight, and where its numbers are.

    Attributes:
        name: What the weights registry calls it.
        dtype: Of its elements.
        shape: Of the whole array.
        nbytes: Of the array.
        file: Which of the files of `Manifest.files` has it; -1 for ``weights.safetensors``.
        key: What that file calls it; empty where that is its name.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    file: int = -1
    key: str = ""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of weights beside the model.

    Attributes:
        path: Below the folder of the model, or absolute.
        nbytes: Of the file.
        sha256: Of the file.
    """

    path: str
    nbytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A kernel of the plan.

    Attributes:
        symbol: Its function in the library.
        name: What people call it.
        language: ``"c"`` or ``"cuda"``.
        steps: The ids of the steps that run it.
        library: The member with its machine code; empty where that is compiled when it is loaded.
        text: A digest of its text, the first part of its key.
    """

    symbol: str
    name: str
    language: str
    steps: tuple[str, ...]
    library: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """A library of machine code.

    Attributes:
        member: Where it is.
        what: ``"runtime"``, ``"products"`` or ``"kernels"``.
        key: The name that the cache of kernels has for it: five digests, of the text, what stands
            before it, flags, compiler and CPU.
    """

    member: str
    what: str
    key: str


@dataclass(frozen=True, slots=True)
class MachineEntry:
    """What the machine code was made by and for.

    Attributes:
        maxlab: The version of maxlab.
        plan: The head of the text of the plan.
        runtime: A digest of the C sources of the runtime library and of all that kernels include.
        machine: The architecture.
        features: What the CPU can do, as the system lists it.
        compiler: The version line of the C compiler.
    """

    maxlab: str
    plan: str
    runtime: str
    machine: str
    features: tuple[str, ...]
    compiler: str


@dataclass(frozen=True, slots=True)
class PackedEntry:
    """A right operand of a product as kernels read it: the number of its buffer in the plan, and
    where it lies in ``packed.bin``."""

    slot: int
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class MemberEntry:
    """A member of the archive: its bytes and their SHA-256."""

    nbytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a kept model says of itself.

    Attributes:
        name: Of the graph.
        maxlab: The version that wrote it.
        operations: How many operations the graph has.
        inputs: In their order.
        outputs: In their order.
        weights: Those that the graph reads.
        files: The files of weights that it refers to.
        custom: The names of the kernels of users in it.
        options: What it was compiled with, where that is not as by default.
        kernels: Of the plan.
        libraries: Of machine code; none where the kernels are those of a GPU alone.
        machine: What they were made by; None without a plan.
        packed: What ``packed.bin`` has.
        members: All members but the manifest and its digest, by name.
    """

    name: str
    maxlab: str
    operations: int
    inputs: tuple[Argument, ...] = ()
    outputs: tuple[Argument, ...] = ()
    weights: tuple[WeightEntry, ...] = ()
    files: tuple[FileEntry, ...] = ()
    custom: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    kernels: tuple[KernelEntry, ...] = ()
    libraries: tuple[LibraryEntry, ...] = ()
    machine: MachineEntry | None = None
    packed: tuple[PackedEntry, ...] = ()
    members: Mapping[str, MemberEntry] = field(default_factory=dict)

    def text(self) -> str:
        """It as the JSON of ``maxlab.json``."""
        made = {"format": FORMAT, "version": VERSION, **_plain(self)}
        return json.dumps(made, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


_ROWS: Final[Mapping[str, type]] = {
    kind.__name__: kind
    for kind in (Argument, WeightEntry, FileEntry, KernelEntry, LibraryEntry, PackedEntry)
}


def _plain(made: Any) -> Any:
    if isinstance(made, tuple):
        return [_plain(one) for one in made]
    if isinstance(made, Mapping):
        return {key: _plain(value) for key, value in made.items()}
    if hasattr(made, "__dataclass_fields__"):
        return {
            one.name: _plain(getattr(made, one.name))
            for one in fields(made)
            if getattr(made, one.name) is not None
        }
    return made


# ---------------------------------------------------------------- reading
def read_manifest(text: bytes, file: str) -> Manifest:
    """What ``text``, the ``maxlab.json`` of ``file``, says.

    Raises:
        ParseError: ML512, it is no manifest; ML513, a newer maxlab wrote it.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(file, f"its {MANIFEST} is not JSON") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise damaged(file, f"its {MANIFEST} is not one of a model")
    version = data.get("version")
    if type(version) is not int or version < 1:
        raise damaged(file, f"its version is {shown(version)}")
    if version > VERSION:
        written = data.get("maxlab")
        by = f" {written}" if isinstance(written, str) else ""
        raise ParseError(
            "ML513",
            f"{file} was written by a newer maxlab{by}: its format has the version {version}, this "
            f"maxlab reads up to {VERSION}",
            fix="update maxlab; or save the model again with this version",
        )
    found: Manifest = _record(Manifest, data, file, MANIFEST)
    return found


def damaged(file: str, why: str) -> ParseError:
    """The error of a file that is no whole kept model."""
    return ParseError(
        "ML512",
        f"{file} is not a whole model: {why}",
        fix="save the model again: model.save(path)",
    )


def _record(kind: Any, data: Any, file: str, what: str) -> Any:
    if not isinstance(data, dict):
        raise damaged(file, f"{what} is {shown(data)}, expected an object")
    given = {}
    for one in fields(kind):
        if one.name in data:
            given[one.name] = _value(str(one.type), data[one.name], file, f"{what}.{one.name}")
        elif one.default is MISSING and one.default_factory is MISSING:
            raise damaged(file, f"{what} has no {one.name}")
    return kind(**given)


def _is_number(value: Any) -> bool:
    return type(value) is int and -1 <= value < 1 << 60


def _value(type_: str, value: Any, file: str, what: str) -> Any:
    """``value`` of the field ``what``, if it is as the annotation ``type_`` says."""
    if type_ in ("str", "int"):
        fits = type(value) is str if type_ == "str" else _is_number(value)
        if not fits:
            raise damaged(file, f"{what} is {shown(value)}, expected {type_}")
        return value
    if type_.startswith("tuple["):
        if not isinstance(value, list):
            raise damaged(file, f"{what} is {shown(value)}, expected a list")
        inner = type_[len("tuple[") : -len(", ...]")]
        row = _ROWS.get(inner)
        if row is not None:
            return tuple([_record(row, one, file, what) for one in value])
        return tuple([_value(inner, one, file, what) for one in value])
    if type_.startswith("MachineEntry"):
        return _record(MachineEntry, value, file, what)
    if not isinstance(value, dict):
        raise damaged(file, f"{what} is {shown(value)}, expected an object")
    if type_.endswith("MemberEntry]"):
        return {name: _record(MemberEntry, one, file, what) for name, one in value.items()}
    return value


__all__ = [
    "COMPUTED",
    "CONSTANTS",
    "DIGEST",
    "GRAPH",
    "LIBRARIES",
    "MANIFEST",
    "PACKED",
    "PLAN",
    "SUFFIX",
    "VERSION",
    "WEIGHTS",
    "Argument",
    "FileEntry",
    "KernelEntry",
    "LibraryEntry",
    "MachineEntry",
    "Manifest",
    "MemberEntry",
    "PackedEntry",
    "WeightEntry",
    "damaged",
    "read_manifest",
]
