"""Changes between two documents of one view.

A view that holds the document of one revision makes that of the next from a difference: it takes
away, replaces and adds the entries that are named here, and leaves all others as they are.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from maxlab.lab.protocol.document import (
    Beside,
    Comment,
    Conflict,
    Draft,
    GraphError,
    Kernel,
    Node,
    Overlay,
    Pass,
    Place,
    Profile,
    Scope,
    Value,
)


class AddedNode(TypedDict):
    """A node, and the id of the node before which it stands; null at the end."""

    before: str | None
    node: Node


class AddedValue(TypedDict):
    """A value, and the id of the value before which it stands; null at the end."""

    before: str | None
    value: Value


class AddedScope(TypedDict):
    """A scope, and the path of the scope before which it stands; null at the end."""

    before: str | None
    scope: Scope


class NodesChanged(TypedDict):
    """Changes among the nodes.

    Removed nodes go first, changed ones are replaced where they stand, and added ones then stand
    before a node that stayed, in the order in which they are listed. A node that moved is removed
    and added.
    """

    removed: list[str]
    changed: list[Node]
    added: list[AddedNode]


class ValuesChanged(TypedDict):
    """Changes among the values, in the same way."""

    removed: list[str]
    changed: list[Value]
    added: list[AddedValue]


class ScopesChanged(TypedDict):
    """Changes among the scopes, in the same way; paths stand for ids."""

    removed: list[str]
    changed: list[Scope]
    added: list[AddedScope]


class AddedPlace(TypedDict):
    """A place, and the key of the place before which it stands; null at the end."""

    before: str | None
    place: Place


class PlacesChanged(TypedDict):
    """Changes among the places, in the same way; keys stand for ids."""

    removed: list[str]
    changed: list[Place]
    added: list[AddedPlace]


class Difference(TypedDict):
    """Makes one document from another. What is left out stays; what is given as a whole replaces
    what was there."""

    revision: int
    """That of the graph, as in the document."""
    name: NotRequired[str]
    nodes: NotRequired[NodesChanged]
    values: NotRequired[ValuesChanged]
    scopes: NotRequired[ScopesChanged]
    inputs: NotRequired[list[str]]
    outputs: NotRequired[list[str]]
    kernels: NotRequired[list[Kernel]]
    passes: NotRequired[list[Pass]]
    profile: NotRequired[Profile | None]
    error: NotRequired[GraphError | None]
    answers: NotRequired[dict[str, object]]
    overlays: NotRequired[list[Overlay]]
    panel: NotRequired[str]
    beside: NotRequired[Beside]
    places: NotRequired[PlacesChanged]
    folds: NotRequired[dict[str, bool]]
    comments: NotRequired[list[Comment]]
    drafts: NotRequired[list[Draft]]
    conflicts: NotRequired[list[Conflict]]


class Marks(TypedDict):
    """Changes in a graph since the cell that shows it ran before."""

    added: list[str]
    """Ids of nodes that had no counterpart in that run."""
    changed: list[str]
    """Ids of nodes that had a counterpart which differs."""
    removed: int
    """Nodes of that run that have no counterpart now."""
    says: NotRequired[str]
    """Says how edits by hand of that run came through."""
