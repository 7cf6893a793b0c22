"""Facts of a row that are more than one word: roles, families and spellings.

They are plain data. A pass, a code generator or a view reads them where it would otherwise ask for
an op by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypedDict, get_args

Role = Literal[
    "compute",
    "data",
    "weight",
    "dim",
    "bind",
    "cast",
    "reshape",
    "transfer",
    "custom",
    "host",
    "chain",
    "branch",
    "loop",
    "call",
    "output",
]
"""The role of an op for those that read a graph.

``compute``   nothing but what its kind says
``data``      data that stands in the graph
``weight``    data that the weights registry has under a name
``dim``       the size of a dim
``bind``      a number that becomes, or must be, the size of a dim
``cast``      the same numbers in another dtype
``reshape``   the same elements in the same order, in any shape
``transfer``  the operand on another device
``custom``    a kernel that a user wrote
``host``      a function of Python that an importer put there
``chain``     the beginning of an order of effects
``branch``    one of several regions
``loop``      a region, as long as another one says so
``call``      a subgraph
``output``    the end of a graph, a subgraph or a region
"""

Chapter = Literal[
    "contract",
    "control",
    "custom",
    "data",
    "device",
    "effect",
    "elementwise",
    "host",
    "index",
    "quantized",
    "random",
    "reduce",
    "scan",
    "sort",
    "spatial",
    "spectral",
    "view",
]
"""The chapter of the op's page in the docs."""

Family = Literal[
    "contract",
    "elementwise",
    "activation",
    "reduce",
    "norm",
    "view",
    "index",
    "source",
    "spectral",
    "control",
    "effect",
    "device",
    "custom",
]
"""The family by which views colour an op."""

FAMILIES: Final[Mapping[Chapter, Family]] = {
    "contract": "contract",
    "control": "control",
    "custom": "custom",
    "data": "source",
    "device": "device",
    "effect": "effect",
    "elementwise": "elementwise",
    "host": "custom",
    "index": "index",
    "quantized": "contract",
    "random": "source",
    "reduce": "reduce",
    "scan": "reduce",
    "sort": "index",
    "spatial": "contract",
    "spectral": "spectral",
    "view": "view",
}
"""The family of a chapter's ops; a row may say another one."""


# ---------------------------------------------------------------- scalar text
Language = Literal["c", "cuda"]
"""The languages of generated kernels."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a language spells a scalar operator.

    A template names the operands ``{0}``, ``{1}``, ``{2}``, the type in which they are computed
    ``{k}`` (``f32``, ``i64``, …), the unsigned type in which integers wrap ``{u}``, and constants
    of their type ``{zero}``, ``{one}``, ``{minus_one}``, ``{infinity}`` (the latter of floats).

    Attributes:
        floats: The template for floats; empty if the operator takes none.
        integers: The template for integers and bools; empty if the operator takes none.
        rounds: Whether the result may need rounding to a half-precision float.
    """

    floats: str = ""
    integers: str = ""
    rounds: bool = True


class ScalarText(TypedDict):
    """The spelling of a scalar operator in each language."""

    c: Spelling
    cuda: Spelling


def everywhere(floats: str = "", integers: str = "", *, rounds: bool = True) -> ScalarText:
    """The same spelling in all languages.

    Example:
        >>> everywhere("{0} / {1}")["cuda"].floats
        '{0} / {1}'
    """
    spelling = Spelling(floats, integers, rounds)
    return {"c": spelling, "cuda": spelling}


def function(name: str, *, operands: int = 1, integers: bool = False) -> ScalarText:
    """The call of ``mx_<name>_<type>``, which the headers of both languages have.

    Example:
        >>> function("pow", operands=2)["c"].floats
        'mx_pow_{k}({0}, {1})'
    """
    call = f"mx_{name}_{{k}}({', '.join(f'{{{n}}}' for n in range(operands))})"
    return everywhere(call, call if integers else "")


def wrapping(symbol: str) -> ScalarText:
    """An infix operator; integers go through the unsigned type, so that they wrap.

    Example:
        >>> wrapping("+")["c"].integers
        '({k})(({u}){0} + ({u}){1})'
    """
    return everywhere(f"{{0}} {symbol} {{1}}", f"({{k}})(({{u}}){{0}} {symbol} ({{u}}){{1}})")


# ---------------------------------------------------------------- foreign names
class Foreign(TypedDict, total=False):
    """The names of the same operation elsewhere: the first is the closest, the others differ in
    defaults or in how they take their arguments."""

    aten: tuple[str, ...]
    onnx: tuple[str, ...]


def foreign_names(aten: str = "", onnx: str = "") -> Foreign:
    """One name of torch and one of ONNX, without those that are empty.

    Example:
        >>> foreign_names("neg", "Neg"), foreign_names(onnx="Erf")
        ({'aten': ('aten.neg',), 'onnx': ('Neg',)}, {'onnx': ('Erf',)})
    """
    made: Foreign = {}
    if aten:
        made["aten"] = (f"aten.{aten}",)
    if onnx:
        made["onnx"] = (onnx,)
    return made


LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
