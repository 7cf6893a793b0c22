"""The contents of a kept model: `contents`, which runs none of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from maxlab import files
from maxlab.engine.kept.archive import Archive
from maxlab.engine.kept.manifest import (
    COMPUTED,
    CONSTANTS,
    DIGEST,
    GRAPH,
    LIBRARIES,
    MANIFEST,
    PACKED,
    PLAN,
    WEIGHTS,
    Manifest,
)

_PARTS = {
    MANIFEST: "contents",
    DIGEST: "contents",
    GRAPH: "graph",
    PLAN: "plan and texts of kernels",
    CONSTANTS: "constants",
    WEIGHTS: "weights",
    COMPUTED: "computed of weights",
    PACKED: "weights as products read them",
}
_CODE = "machine code"
_REST = "directory and gaps"


class Member(NamedTuple):
    """A member of the archive.

    Attributes:
        name: What it is called.
        part: Which part of the model it is, in words: a key of `Contents.sizes`.
        offset: Where its bytes begin.
        nbytes: How many there are.
        sha256: Their digest, as the file says; empty for the manifest and its digest.
    """

    name: str
    part: str
    offset: int
    nbytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a kept model.

    Attributes:
        path: The file.
        nbytes: Its size.
        digest: The SHA-256 that stands for all of it.
        manifest: What it says of itself: name, inputs, outputs, weights, kernels, machine.
        members: In the order in which they lie.
    """

    path: str
    nbytes: int
    digest: str
    manifest: Manifest
    members: tuple[Member, ...]

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of each part, in words, in the order in which they lie; they add up to
        `nbytes`."""
        found: dict[str, int] = {}
        for member in self.members:
            found[member.part] = found.get(member.part, 0) + member.nbytes
        found[_REST] = self.nbytes - sum(found.values())
        return found


def contents(path: files.AnyPath) -> Contents:
    """The contents of the kept model at ``path``. None of it is run, compiled or believed: the
    manifest is held against its own digest and the sizes of all members.

    Args:
        path: The file.

    Raises:
        FileError: ML001 or ML002, it cannot be read.
        ParseError: ML512, it is no whole model; ML513, a newer maxlab wrote it; ML514, it was
            changed after it was saved.
    """
    return contents_of(Archive(path))


def contents_of(archive: Archive) -> Contents:
    """The contents of the kept model ``archive``."""
    known = archive.manifest.members
    rows = []
    for name, (begin, nbytes) in sorted(archive.places.items(), key=lambda item: item[1]):
        part = _CODE if name.startswith(LIBRARIES) else _PARTS.get(name, "other")
        digest = known[name].sha256 if name in known else ""
        rows.append(Member(name, part, begin, nbytes, digest))
    return Contents(archive.path, archive.nbytes, archive.digest, archive.manifest, tuple(rows))


def graph_text(path: files.AnyPath) -> str:
    """The document of the graph in the kept model at ``path``: what ``graph.save`` would write.

    Raises:
        FileError: ML001 or ML002, it cannot be read.
        ParseError: ML512, it is no whole model; ML513, a newer maxlab wrote it; ML514, it was
            changed after it was saved.
    """
    archive = Archive(path)
    return archive.read(GRAPH).decode("utf-8", "replace")


__all__ = ["Contents", "Member", "contents", "contents_of", "graph_text"]
