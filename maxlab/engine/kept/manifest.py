"""The content of ``maxlab.json`` in a kept model: `Manifest`, read and written field by field.

Everything that is read is held against the type that the field has, so that nothing behind it meets
a number where a text should be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

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
INSIDE: Final = "inside"
AGAIN: Final = "again"
SUFFIX: Final = ".mlmodel"
MOST_BYTES: Final = 64 << 20
"""Bytes of the manifest that are read."""


Where = Literal["inside", "files"]
"""Where the numbers of weights are kept: in the file of the model, or in the files of safetensors
that they were mapped from."""


class Argument(NamedTuple):
    """An input or output: what it is called, its dtype, its shape as text, and its device."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    device: str = "cpu:0"


class WeightEntry(NamedTuple):
    """A weight, and where its numbers are.

    Attributes:
        name: What the weights registry calls it.
        dtype: Of its elements.
        shape: Of the whole array.
        offset: Where its bytes begin in the member or file.
        nbytes: How many there are.
        file: Which of the files of `Manifest.files` has it; -1 for ``weights.safetensors``.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    file: int = -1


class ArrayEntry(NamedTuple):
    """A constant of the plan, by its digest, or what is computed of weights, by its name there.

    Attributes:
        member: ``constants.safetensors`` or ``computed.safetensors``.
        name: What the plan calls it.
        dtype: Of its elements.
        shape: Of the array.
        offset: Where its bytes begin in the member.
        nbytes: How many there are.
    """

    member: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class FileEntry(NamedTuple):
    """A file of weights beside the model.

    Attributes:
        path: Below the folder of the model, or absolute.
        nbytes: Of the file.
        sha256: Of the file.
    """

    path: str
    nbytes: int
    sha256: str


class KernelEntry(NamedTuple):
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


class LibraryEntry(NamedTuple):
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


class MachineEntry(NamedTuple):
    """The software that made the machine code, and the machine that it was made for.

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


class PackedEntry(NamedTuple):
    """A right operand of a product as kernels read it: the number of its buffer in the plan, and
    where it lies in ``packed.bin``."""

    slot: int
    offset: int
    nbytes: int


class MemberEntry(NamedTuple):
    """A member of the archive: its bytes and their SHA-256."""

    nbytes: int
    sha256: str


class Manifest(NamedTuple):
    """A kept model's description of itself.

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
        arrays: Constants of the plan, and what is computed of weights.
        ahead: Whether something is computed of weights when the model is loaded: ``"inside"`` if
            its values are here, ``"again"`` if they are computed again.
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
    options: Mapping[str, Any] = MappingProxyType({})
    kernels: tuple[KernelEntry, ...] = ()
    libraries: tuple[LibraryEntry, ...] = ()
    machine: MachineEntry | None = None
    packed: tuple[PackedEntry, ...] = ()
    arrays: tuple[ArrayEntry, ...] = ()
    ahead: str = ""
    members: Mapping[str, MemberEntry] = MappingProxyType({})

    def text(self) -> str:
        """It as the JSON of ``maxlab.json``."""
        made = {"format": FORMAT, "version": VERSION, **_plain(self)}
        return json.dumps(made, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


_ROWS: Final[Mapping[str, type]] = {
    kind.__name__: kind
    for kind in (
        Argument,
        WeightEntry,
        ArrayEntry,
        FileEntry,
        KernelEntry,
        LibraryEntry,
        PackedEntry,
    )
}  # fmt: skip


def _plain(made: Any) -> Any:
    if hasattr(made, "_asdict"):
        return {name: _plain(value) for name, value in made._asdict().items() if value is not None}
    if isinstance(made, tuple):
        return [_plain(one) for one in made]
    if isinstance(made, Mapping):
        return {key: _plain(value) for key, value in made.items()}
    return made


# ---------------------------------------------------------------- reading
def read_manifest(text: bytes, file: str) -> Manifest:
    """The manifest in ``text``, the ``maxlab.json`` of ``file``.

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
    for name, type_ in kind.__annotations__.items():
        if name in data:
            # NamedTuple keeps an annotation as a ForwardRef.
            spelled = getattr(type_, "__forward_arg__", None) or str(type_)
            given[name] = _value(spelled, data[name], file, f"{what}.{name}")
        elif name not in kind._field_defaults:
            raise damaged(file, f"{what} has no {name}")
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
    "AGAIN",
    "COMPUTED",
    "CONSTANTS",
    "DIGEST",
    "GRAPH",
    "INSIDE",
    "LIBRARIES",
    "MANIFEST",
    "PACKED",
    "PLAN",
    "SUFFIX",
    "VERSION",
    "WEIGHTS",
    "Argument",
    "ArrayEntry",
    "FileEntry",
    "KernelEntry",
    "LibraryEntry",
    "MachineEntry",
    "Manifest",
    "MemberEntry",
    "PackedEntry",
    "WeightEntry",
    "Where",
    "damaged",
    "read_manifest",
]
