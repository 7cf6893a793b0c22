"""Answers of the Jupyter server about files that are opened without a kernel.

Numbers of a slice travel in the buffer behind the JSON part: `rows.count` times `columns.count`
values (float64, NaN and infinities as they are in the file).
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from maxlab.lab.protocol.checks import ValueHistogram
from maxlab.lab.protocol.document import Packed

TensorRow = tuple[str, str, list[int], int, int, str]
"""Name, dtype as the file spells it, shape, offset of its first byte in the file, bytes, and why
its values cannot be shown (empty when they can) of a tensor."""

MetadataRow = tuple[str, str]
"""Key and value, as text, of what a file says of itself."""


class WeightHeader(TypedDict):
    """The content of a weight file."""

    format: Literal["safetensors", "GGUF"]
    bytes: int
    """Of the whole file."""
    stamp: str
    """Changes when the file does; to be sent with each question about its values."""
    metadata: list[MetadataRow]
    tensors: list[TensorRow]


class Span(TypedDict):
    """Which places of an axis a slice has: `start`, `start + step` and so on, `count` of them."""

    axis: int
    """-1 for an axis that the tensor does not have: a vector is one row."""
    start: int
    step: int
    count: int


class TensorSlice(TypedDict):
    """Numbers of a tensor along two of its axes."""

    rows: Span
    columns: Span
    low: float | None
    """The least finite number; null when there is none."""
    high: float | None


class TensorFacts(TypedDict):
    """Facts of the numbers of a tensor."""

    count: int
    seen: int
    """How many were read, in stretches that are spread evenly; all of them in a small tensor."""
    low: float | None
    """The least finite number that was seen; null when there is none."""
    high: float | None
    mean: float | None
    """Of the finite numbers."""
    deviation: float | None
    """Their standard deviation."""
    zeros: int
    nans: int
    infinities: int
    histogram: ValueHistogram | None
    """Of the finite numbers; null when there are none."""


class SavedGraph(TypedDict):
    """The graph that a view draws of a saved run with its times, of a document, or of a kept
    model."""

    label: str
    stamp: str
    document: Packed


PartRow = tuple[str, int]
"""A part of a kept model, in words, and its bytes."""

MemberRow = tuple[str, str, int, int, str]
"""Name, part, offset of the first byte, bytes, and SHA-256 of a member of a kept model; the digest
is empty where it is that of the whole."""

ArgumentRow = tuple[str, str, str, str]
"""Name, dtype, shape as text, and device of an input or output."""

KeptWeightRow = tuple[str, str, str, int, str]
"""Name, dtype, shape as text and bytes of a weight, and the file beside the model that has it;
empty where the model has it."""

KeptKernelRow = tuple[str, str, int, str]
"""Name, language, how many steps run it, and the member that has its machine code; empty where it
is compiled when the model is loaded."""


class ModelContents(TypedDict):
    """A kept model's description of itself. Long lists are cut; `counts` has how many rows there
    are of each."""

    stamp: str
    name: str
    bytes: int
    """Of the whole file."""
    digest: str
    """The SHA-256 that stands for all of the file."""
    written: str
    """The version of maxlab that wrote it."""
    operations: int
    parts: list[PartRow]
    members: list[MemberRow]
    inputs: list[ArgumentRow]
    outputs: list[ArgumentRow]
    weights: list[KeptWeightRow]
    kernels: list[KeptKernelRow]
    files: list[PartRow]
    """The files of weights beside the model: path and bytes."""
    custom: list[str]
    """Names of the kernels of users."""
    machine: list[MetadataRow]
    """The software that made its machine code, and the machine it is for; empty without code."""
    options: list[MetadataRow]
    """The options that it was compiled with, where they are not the defaults."""
    counts: dict[str, int]
    """By the names of the lists."""


class ComparedSide(TypedDict):
    """One of two documents that are compared."""

    path: str
    """Where its file is, as the server's contents have it."""
    revision: NotRequired[str]
    """A commit of Git, such as `HEAD`: the file as it was there."""
    text: NotRequired[str]
    """The text that a page has of it, instead of the file's content."""


class CompareQuestion(TypedDict):
    """Asks for the differences between two documents."""

    before: ComparedSide
    after: ComparedSide


class Compared(TypedDict):
    """The differences between two documents."""

    count: int
    """How many differences there are."""
    document: Packed
    """The second document, which brings the first along."""


class RerunAnswer(TypedDict):
    """The differences between a graph and the one that its cell showed in the run before."""

    version: Literal[1]
    count: int
    """How many differences there are."""
    document: Packed
    """The graph of this run, which brings that of the run before along."""


class FileState(TypedDict):
    """The state of a file now."""

    stamp: str
    bytes: int


class Refusal(TypedDict):
    """Why a question was not answered."""

    message: str
    code: str
    """Such as `ML890`; each has a page in the documentation."""
    fix: str
    """The advice about it; may be empty."""
