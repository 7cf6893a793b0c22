"""The declarations of a kernel library, as plain values: see ``declared``, which reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from maxlab.dtype import DType
from maxlab.errors import Location
from maxlab.opset.conditions import Condition
from maxlab.opset.kernel import Target
from maxlab.opset.macros import Macro
from maxlab.opset.opaques import Opaque

ParameterKind = Literal["bool", "int", "float", "ints", "str", "DType"]
Parameter = bool | int | float | str | DType | tuple[int, ...]

DTYPES = {d.name: d for d in DType if not d.name.startswith(("float8", "float4"))}
"""The dtypes of tensors that kernels read and write, by their names."""
RESERVED = frozenset({"i", "load", "store", "shared", "scratch"})
"""Names that a body has anyway, so that no argument, dim or parameter is called so."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An operand or a result as it is declared.

    Attributes:
        element: The name of a dtype, of a type variable, or of a ``DType`` parameter.
        dims: Names, numbers, in results expressions; ``*name`` stands for any number of dims.
        inout: Whether the op changes this operand, a buffer or what a handle holds, in place.
        opaque: Whether it is a handle; ``element`` is the name of its type then.
    """

    name: str
    element: str
    dims: tuple[str, ...]
    inout: bool = False
    opaque: bool = False

    def __str__(self) -> str:
        word = "inout " if self.inout else ""
        if self.opaque:
            return f"{word}{self.name}: {self.element}"
        return f"{word}{self.name}: {self.element}[{', '.join(self.dims)}]"


@dataclass(frozen=True, slots=True)
class ParameterRule:
    """The values that a parameter may have; ``default`` is None when it must be given."""

    name: str
    kind: ParameterKind
    default: Parameter | None = None
    choices: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """The statements for one target, from line ``line`` of the file on.

    Attributes:
        before: What runs once, in front of the loop over items, and the line where it begins.
    """

    line: int
    text: str
    options: Mapping[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    before: tuple[int, str] = (0, "")


@dataclass(frozen=True, slots=True)
class Part:
    """One launch of an op: parts run one after another.

    Attributes:
        name: What it does; empty where the op has one part only.
        condition: Whether it runs, decided when the op is compiled; None when it always does.
        expressions: What ``@items``, ``@work`` and ``@flops`` say.
        bodies: Its statements, by target; it is not run where it has none.
    """

    name: str = ""
    condition: Condition | None = None
    expressions: Mapping[str, str] = field(default_factory=dict)
    bodies: Mapping[Target, Body] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True, slots=True)
class Temporary:
    """Memory that the parts of an op share.

    Attributes:
        element: As that of an ``Argument``.
        count: The expression of how many elements it has.
        condition: Whether there is such memory; None when there always is.
    """

    name: str
    element: str
    count: str
    condition: Condition | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class Declaration:
    """One op of a kernel library.

    Attributes:
        source: Its text, from ``@op`` on, which is all that is needed to declare it again.
        file: Where that text stands; ``line`` is the line of ``@op``, counted from 1.
        opaques: The types of the handles that it makes and takes, and what they are declared with.
        macros: Those that its text uses.
        sizes: Named sizes, with their expressions; None of one that Python gives.
    """

    name: str
    operands: tuple[Argument, ...]
    results: tuple[Argument, ...]
    types: Mapping[str, tuple[DType, ...]]
    parameters: Mapping[str, ParameterRule]
    parts: tuple[Part, ...]
    source: str
    file: str
    line: int
    opaques: tuple[Opaque, ...] = ()
    macros: tuple[Macro, ...] = ()
    temporaries: tuple[Temporary, ...] = ()
    sizes: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def targets(self) -> frozenset[Target]:
        """The targets that it has bodies for."""
        return frozenset(target for part in self.parts for target in part.bodies)

    def bodies(self, target: Target) -> Iterator[tuple[Part, Body]]:
        """The parts that ``target`` runs, in order, each with its body."""
        for part in self.parts:
            if target in part.bodies:
                yield part, part.bodies[target]

    @property
    def declared_at(self) -> str:
        """Where it stands, for the reasons of an error."""
        return f"it is declared at {self.file}:{self.line}: {self}"

    @property
    def has_handles(self) -> bool:
        """Whether an operand or a result is an opaque handle."""
        return any(argument.opaque for argument in (*self.operands, *self.results))

    @property
    def changed(self) -> tuple[int, ...]:
        """The numbers of the operands that are buffers the op changes in place."""
        found = enumerate(self.operands)
        return tuple(n for n, operand in found if operand.inout and not operand.opaque)

    @property
    def location(self) -> Location:
        """The line that declares the op."""
        return Location(self.file, self.line, 0, self.source.partition("\n")[0])

    def __str__(self) -> str:
        head = f"{self.name}({', '.join(map(str, self.operands))})"
        return f"{head} -> ({', '.join(map(str, self.results))})" if self.results else head


__all__ = [
    "DTYPES",
    "RESERVED",
    "Argument",
    "Body",
    "Declaration",
    "Parameter",
    "ParameterKind",
    "ParameterRule",
    "Part",
    "Temporary",
]
