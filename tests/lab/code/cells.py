"""Cells at random, and edits at random of the graphs that they build."""

from __future__ import annotations

import linecache
import random
from dataclasses import dataclass
from itertools import count
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import Editor, Graph, TensorType, ops
from maxlab.ir import DeviceRef, Function, Op
from maxlab.ir.edit_log import at_revision

NAMESPACE: dict[str, Any] = {
    "Graph": Graph,
    "TensorType": TensorType,
    "ops": ops,
    "DType": DType,
    "DeviceRef": DeviceRef,
}
UNARY = ["relu", "exp", "tanh", "sigmoid", "neg", "abs", "gelu", "silu"]
BINARY = ["add", "mul", "sub", "maximum"]
_numbers = count()


@dataclass
class Built:
    """A cell that ran.

    Attributes:
        text: Its text.
        file: What its code is called.
        namespace: The variables after it.
        graph: The graph that it built.
        revision: That of the graph when it had.
    """

    text: str
    file: str
    namespace: dict[str, Any]
    graph: Graph
    revision: int

    @property
    def base(self) -> Function:
        """The graph as the cell built it."""
        found = at_revision(self.graph.function, self.revision)
        assert found is not None
        return found

    def made(self, op: Op) -> bool:
        """Whether the cell has made ``op``."""
        return op.loc is not None and op.loc.file == self.file


def run(text: str, more: dict[str, Any] | None = None) -> Built:
    """Run ``text`` as a kernel runs a cell."""
    file = f"<cell {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace = {**NAMESPACE, **(more or {})}
    exec(compile(text, file, "exec"), namespace)
    graph = namespace["graph"]
    return Built(text, file, namespace, graph, graph.log.revision)


class Cells:
    """Makes cells; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names: list[str] = []

    def text(self) -> str:
        """The text of a cell that builds a graph called ``graph``."""
        choose = self.random.choice
        self.pad = choose(["    ", "\t", "  "])
        self.names = []
        style = choose(["with", "with", "with", "forward", "lambda", "called"])
        head = choose(["", "# a note\n", "limit = 3  # of turns\n\n", '"""What it is."""\n'])
        types = '[TensorType(DType.float32, ["n", 8]), TensorType(DType.float32, [1, 8])]'
        if choose([True, False]):
            types = types.replace("), ", "),\n    ", 1).replace("])]", "]),\n]")
        if style == "lambda":
            self.names = ["x", "y"]
            body = f"lambda x, y: {self.expression(3)}"
            text = f'{head}graph = Graph("net", {body}, input_types={types})\n'
        elif style == "with":
            lines = [choose(["x, y = graph.inputs", "x, y = (v.tensor for v in graph.inputs)"])]
            self.names = ["x", "y"]
            lines += self.lines()
            lines.append(f"graph.output({self.outputs()})")
            inner = "\n".join(self.pad + line.replace("\n", f"\n{self.pad}") for line in lines)
            text = f'{head}with Graph("net", input_types={types}) as graph:\n{inner}\n'
        else:
            self.names = ["x", "y"]
            lines = self.lines()
            lines.append(f"return {self.outputs()}")
            inner = "\n".join(self.pad + line.replace("\n", f"\n{self.pad}") for line in lines)
            function = f"def forward(x, y):\n{inner}\n"
            if style == "called":
                function += (
                    f'with Graph("net", input_types={types}) as graph:\n'
                    f"{self.pad}graph.output(*forward(*graph.inputs))\n"
                )
            else:
                function += f'graph = Graph("net", forward, input_types={types})\n'
            text = head + function
        text += choose(["", "graph\n", "graph  # shown"])
        return text.replace("\n", "\r\n") if self.random.random() < 0.15 else text

    def outputs(self) -> str:
        """What the graph gives."""
        found = [
            self.expression(self.random.randint(0, 2)) for _ in range(self.random.randint(1, 2))
        ]
        return ", ".join(found) + ("," if len(found) == 1 and self.random.random() < 0.1 else "")

    def lines(self) -> list[str]:
        """Statements that bind names."""
        found: list[str] = []
        for _ in range(self.random.randint(1, 5)):
            kind = self.random.random()
            name = self.random.choice(["a", "b", "c", "größe", "x", "λ"])
            if kind < 0.1:
                found.append(self.random.choice(["# nothing", "", "assert True  # é"]))
                continue
            if kind < 0.2:
                loop = f"for _ in range({self.random.randint(1, 2)}):"
                found.append(f"{loop}\n{self.pad}x = ops.tanh(x)")
                continue
            if kind < 0.3:
                known = self.random.choice(self.names)
                found.append(f"{known} {self.random.choice('+*-')}= {self.expression(1)}")
                continue
            line = f"{name} = {self.expression(self.random.randint(1, 3))}"
            if (
                self.random.random() < 0.1
                and found
                and "\n" not in found[-1]
                and "#" not in found[-1]
            ):
                found[-1] += f"; {line}" if found[-1] else line
            else:
                found.append(line + self.random.choice(["", "", "  # ok", "  # größer"]))
            if name not in self.names:
                self.names.append(name)
        return found

    def expression(self, depth: int) -> str:
        """An expression of float32[n, 8]."""
        choose = self.random.choice
        if depth == 0:
            return choose(self.names)
        kind = self.random.random()
        if kind < 0.3:
            gap = choose(["", "", " "])
            return f"ops.{choose(UNARY)}({gap}{self.expression(depth - 1)}{gap})"
        if kind < 0.45:
            operands = f"{self.expression(depth - 1)}, {self.expression(depth - 1)}"
            return f"ops.{choose(BINARY)}({operands})"
        if kind < 0.6:
            left, right = self.expression(depth - 1), self.expression(depth - 1)
            text = f"{left} {choose('+-*')} {right}"
            return choose([text, f"({text})", f"({text})"]) if depth == 1 else f"({text})"
        if kind < 0.7:
            return f"({self.expression(depth - 1)} {choose('+*')} {choose(['2', '0.5', '1e-3'])})"
        if kind < 0.85:
            axis = choose(["0", "-1", "1"])
            inner = self.expression(depth - 1)
            form = choose(
                [
                    "ops.softmax({})",
                    "ops.softmax({}, {})",
                    "ops.softmax({}, axis={})",
                    "ops.softmax(\n    {},\n    axis={},\n)",
                ]
            )
            return form.format(inner, axis)
        if kind < 0.92:
            inner = self.expression(depth - 1)
            return f"ops.concat([{inner}, {self.expression(depth - 1)}], axis=0)[:1] + x"
        return f"-{self.expression(depth - 1)}"


def edit(built: Built, seed: int) -> list[str]:
    """What was done to the graph: a few steps at random, those that are refused left out."""
    chance = random.Random(seed)
    editor = Editor(built.graph)
    done: list[str] = []
    for _ in range(20):
        if len(done) >= chance.choice([1, 1, 2, 3]):
            break
        function = built.graph.function
        plain = [op for op in function.ops if not op.ends_block and op.operands]
        if not plain:
            break
        op, other = chance.choice(plain), chance.choice(plain)
        readers = [*plain, function.output]
        reader = chance.choice([r for r in readers if r is not None])
        number = chance.randrange(len(reader.operands))
        unary, binary = chance.choice(UNARY), chance.choice(BINARY)
        value, another = op.results[0].id, other.results[0].id
        steps: list[tuple[Any, ...]] = [
            ("replace", op, unary),
            ("replace", op, binary),
            ("remove", op),
            ("insert", unary, reader, number),
            ("insert", binary, reader, number, another),
            ("insert", binary, reader, number, 2.0),
            ("connect", reader, number, another),
            ("set_attribute", op, "axis", chance.choice([0, 1])),
            ("add", unary, value),
            ("set_type", "input0", TensorType(DType.float32, [chance.choice([1, 5]), 8])),
            ("set_outputs", value, another),
            ("set_attribute", op, "starts", (chance.choice([0, 1]), chance.choice([0, 1]))),
            ("remove_input", chance.choice(["input0", "input1"])),
            ("add", "top_k", value, 2),
        ]
        name, *given = chance.choice(steps)
        before = built.graph.log.revision
        try:
            getattr(editor, name)(*given)
        except MaxlabError:
            continue
        if built.graph.log.revision != before:
            done.append(f"{name} {given}")
    return done
