"""Names of values, functions and files in the code of a graph."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from maxlab.graph import ops
from maxlab.ir import Value
from maxlab.opset import OPSET

MOST: Final = 40
"""Characters of a name; longer ones are cut."""

_WORDS: Final = {
    "add": "total",
    "sub": "difference",
    "mul": "product",
    "div": "ratio",
    "floordiv": "ratio",
    "mod": "rest",
    "pow": "power",
    "matmul": "product",
    "equal": "mask",
    "not_equal": "mask",
    "greater": "mask",
    "greater_equal": "mask",
    "logical_and": "mask",
    "logical_or": "mask",
    "logical_xor": "mask",
    "logical_not": "mask",
    "where": "chosen",
    "slice": "part",
    "gather": "rows",
    "concat": "joined",
    "cast": "converted",
    "constant": "value",
    "constant.external": "weight",
    "buffer.create": "buffer",
    "buffer.load": "loaded",
    "buffer.load_slice": "loaded",
    "transfer": "moved",
    "reduce.sum": "total",
    "reduce.max": "largest",
    "reduce.min": "smallest",
    "max": "larger",
    "min": "smaller",
    "cond": "chosen",
    "while": "last",
    "softmax": "probabilities",
    "dim": "size",
    "iota": "places",
    "range": "places",
    "argsort": "order",
    "top_k": "top",
    "random": "noise",
    "custom": "made",
    "custom.inplace": "made",
    "host": "made",
    "bind_dim": "size",
    "nonzero": "places",
    "layer_norm": "normed",
    "conv": "image",
    "conv_transpose": "image",
    "reshape": "reshaped",
    "transpose": "transposed",
    "permute": "transposed",
    "broadcast_to": "wide",
}
"""Names for the result of an operation whose own name is a verb."""


def word_of(op: str) -> str:
    """A name for the result of the operation ``op``, such as ``mo.exp``."""
    short = op.removeprefix("mo.")
    return _WORDS.get(short) or identifier(short) or "value"


def identifier(text: str) -> str:
    """``text`` as a name of Python; empty where nothing of it is left.

    Example:
        >>> identifier("layers.0.attn-out"), identifier("0"), identifier("class")
        ('layers_0_attn_out', '', 'class_')
    """
    made = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:MOST].rstrip("_")
    made = made.lstrip("0123456789_")
    if not made:
        return ""
    return f"{made}_" if keyword.iskeyword(made) or keyword.issoftkeyword(made) else made


def snake(text: str) -> str:
    """The name of a class as that of a function.

    Example:
        >>> snake("BertSelfAttention"), snake("MLP"), snake("Conv1D")
        ('bert_self_attention', 'mlp', 'conv1d')
    """
    made = re.sub(r"([a-z0-9])([A-Z][a-z])|([A-Z])([A-Z][a-z])", r"\1\3_\2\4", text)
    return re.sub(r"([a-z])([A-Z]{2,})", r"\1_\2", made).lower()


def one_of(text: str) -> str:
    """The name of one of ``text``, a name of several.

    Example:
        >>> one_of("layers"), one_of("h"), one_of("class"), one_of("entries")
        ('layer', 'h', 'class', 'entry')
    """
    if text.endswith("ies") and len(text) > 4:
        return text[:-3] + "y"
    plural = text.endswith("s") and not text.endswith(("ss", "us", "is")) and len(text) > 3
    return text[:-1] if plural else text


# ---------------------------------------------------------------- the names of a graph
_NUMBERED: Final = re.compile(r"_?(.*?)(?:_default)?(?:_\d+)?")


@cache
def _words_of_ops() -> frozenset[str]:
    """The names of operations, here and in PyTorch: names of values that say only that."""
    found = {name for name in dir(ops) if not name.startswith("_")}
    for name, row in OPSET.items():
        short = name.removeprefix("mo.")
        found |= {short, short.rpartition(".")[2], short.replace(".", "_")}
        found |= {other.removeprefix("aten.").lstrip("_") for other in row.foreign.get("aten", ())}
    return frozenset(found | {"getitem", "native_layer_norm_default", "alias", "to", "select"})


def given_name(value: Value) -> str:
    """The name that people gave to ``value``; empty where nobody named it, and for a name that an
    importer gave, which is that of its operation with a number.
    """
    name = value.name
    op = value.op
    if not name or op is None:
        return ""
    if op.attrs.get("name") == name:  # a weight
        return ""
    found = _NUMBERED.fullmatch(name)
    return "" if found is not None and found[1] in _words_of_ops() else name


def input_name(value: Value, told: str) -> str:
    """The name of the input ``value``: its own, or the one that the program told."""
    named = "" if value.name == f"input{value.index}" else value.name
    return identifier(named) or identifier(told)


RESERVED: Final = frozenset(
    {"graph", "ops", "np", "weights", "Path", *dir(builtins), *keyword.kwlist, *keyword.softkwlist}
)
"""Names that no value may have: what they stand for is needed, or confuses."""


class Names:
    """The names of one function of the code.

    Args:
        outside: Names that are taken.
    """

    def __init__(self, outside: Iterable[str] = ()) -> None:
        self.taken = set(outside) | RESERVED

    def new(self, wanted: str) -> str:
        """``wanted``, or that with a number where it is taken; nothing else gets it."""
        tried, count = wanted, 1
        while tried in self.taken:
            count += 1
            tried = f"{wanted}_{count}" if wanted[-1:].isdigit() else f"{wanted}{count}"
        self.taken.add(tried)
        return tried


__all__ = [
    "RESERVED",
    "Names",
    "given_name",
    "identifier",
    "input_name",
    "one_of",
    "snake",
    "word_of",
]
