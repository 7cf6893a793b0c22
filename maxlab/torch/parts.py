"""Which nodes of an exported graph have to stay together, and the order in which all are built.

A value of a maxlab graph is a dense tensor of a dtype that maxlab has, whose sizes follow from
those of the inputs. A node that makes anything else, such as complex numbers or as many elements as
a mask is true, goes into one part with all that reads it, and torch runs the part as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch.fx import Node


class Groups:
    """Sets of nodes, joined as they are found to belong together."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._above = {node: node for node in nodes}
        self._place = {node: n for n, node in enumerate(nodes)}

    def of(self, node: Node) -> Node:
        """The first node of the group that ``node`` is in."""
        root = node
        while self._above[root] is not root:
            root = self._above[root]
        while self._above[node] is not root:
            self._above[node], node = root, self._above[node]
        return root

    def join(self, one: Node, other: Node) -> None:
        """Let the groups of two nodes be one."""
        first, second = sorted((self.of(one), self.of(other)), key=self._place.__getitem__)
        self._above[second] = first


def units_of(
    nodes: Sequence[Node], alone: Mapping[Node, str], pairs: Sequence[tuple[Node, Node]] = ()
) -> list[list[Node]]:
    """The nodes in an order in which each comes after what it reads, those that must stay together
    as one unit.

    Args:
        nodes: The nodes that are called, in the order of their graph.
        alone: The nodes whose values cannot be seen from outside of their unit, and why.
        pairs: Nodes that must be in one unit for another reason.
    """
    inside = set(nodes)
    groups = Groups(nodes)
    for node in alone:
        for user in node.users:
            if user in inside:
                groups.join(node, user)
    for one, other in pairs:
        groups.join(one, other)
    _close(nodes, inside, groups)
    members: dict[Node, list[Node]] = {}
    for node in nodes:
        members.setdefault(groups.of(node), []).append(node)
    return _ordered(members, groups, inside)


def _close(nodes: Sequence[Node], inside: set[Node], groups: Groups) -> None:
    """Let every node on a way out of a group and back into it belong to the group: what is between
    two of its nodes cannot run before all of it, nor after."""
    changed = True
    while changed:
        changed = False
        sizes: dict[Node, int] = {}
        for node in nodes:
            sizes[groups.of(node)] = sizes.get(groups.of(node), 0) + 1
        for root in [root for root, size in sizes.items() if size > 1]:
            below: set[Node] = set()  # has a node of the group above it
            for node in nodes:
                read = [n for n in node.all_input_nodes if n in inside]
                if any(groups.of(n) is groups.of(root) or n in below for n in read):
                    below.add(node)
            above: set[Node] = set()  # has a node of the group below it
            for node in reversed(nodes):
                users = [n for n in node.users if n in inside]
                if any(groups.of(n) is groups.of(root) or n in above for n in users):
                    above.add(node)
            for node in below & above:
                if groups.of(node) is not groups.of(root):
                    groups.join(node, root)
                    changed = True


def _ordered(
    members: Mapping[Node, list[Node]], groups: Groups, inside: set[Node]
) -> list[list[Node]]:
    """The units, each behind those it reads; otherwise in the order of their first nodes."""
    done: set[Node] = set()
    found: list[list[Node]] = []

    def needs(root: Node) -> list[Node]:
        read = [n for node in members[root] for n in node.all_input_nodes if n in inside]
        return [r for r in dict.fromkeys(groups.of(n) for n in read) if r is not root]

    for start in members:
        stack = [start]
        while stack:
            root = stack[-1]
            missing = [r for r in needs(root) if r not in done]
            if root in done:
                stack.pop()
            elif missing:
                stack.extend(missing)
            else:
                done.add(root)
                found.append(members[root])
                stack.pop()
    return found
