"""Wishes for a compilation beside the graph: ``Options``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from maxlab.errors import ArgumentTypeError
from maxlab.toolchain.flags import Accuracy

LogLevel = Literal["notset", "trace", "debug", "info", "warning", "error", "critical"]
AssertLevel = Literal["none", "warn", "safe", "all"]
SplitK = Literal["accum", "output"]
OF_SESSION = ("log_level", "assert_level", "split_k", "old_top_k")
"""The options that a session sets for all its models."""


@dataclass(frozen=True, slots=True, init=False)
class Options:
    """How a graph is compiled. Models with equal graphs and equal options have equal kernels.

    Ids are those of the graph: ``"n12"`` of an op, ``"v12"`` of a value.

    Attributes:
        fuse: Let kernels compute several ops. When False, each op of the graph is a kernel of its
            own; views stay index arithmetic of whoever reads them. An op that is written out in
            simpler ones, such as softmax, is one op.
        accuracy: How exact functions of float32 are; docs/accuracy.md has their largest errors.
            ``"default"``: no less exact than those of torch. ``"exact"``: within 1 unit in the last
            place, and a product and a sum are rounded each by itself. ``"fast"``: shorter formulas,
            of some units; divisions may be products with reciprocals, and zeros have no sign; on a
            CPU, windows of 3 × 3 are convolved by tiles, off by up to 1e-5 of the largest result;
            on a GPU, subnormals are zero too. NaN and infinities keep their meaning in all of them,
            but for tiles with such a pixel, which become NaN.
        apart: Ids of ops that begin a kernel: what they read is computed by another one.
        replaced: (symbol, text) of kernels whose generated text is replaced; see
            ``model.kernels["k3"].symbol``. The text defines a function of the same name and
            arguments.
        outline: Compile the body of a subgraph that is called twice or more once, for all of its
            calls. When False, or with ``apart`` or ``keep``, each call is compiled with what is
            around it, which kernels may compute together with it.
        keep: Ids of ops or values whose results are written to memory, even if only their own
            kernel reads them. Ranges, dims and constants are not; of a view, what it looks at is.
        log_level: The least level of the messages that kernels write, ``MX_LOG``; all others are no
            part of the compiled code. With ``"notset"`` there are none. With ``"trace"`` every
            kernel also says that it began.
        assert_level: What kernels test. ``"safe"``: indices. ``"all"``: also ``MX_ASSERT``, and
            that no result is NaN. ``"warn"``: the same as ``"all"``, but what is found is logged as
            a warning, and the run goes on: an index out of range is 0. ``"none"``: not even
            indices; one out of range reads or writes any memory.
        split_k: In which precision the parts of a long product of float16 or bfloat16 are added:
            ``"accum"``, float32, or ``"output"``: a product over a static size of 2048 or more is
            made in parts, each rounded to the dtype of the result before all are added.
        old_top_k: Let ``top_k`` sort whole rows, instead of selecting the k largest.
        at_load: Let kernels that read only weights and constants run once, when the model is
            loaded; with ``keep``, messages, or asserts of values they run in each run all the same.
            A weight that is changed later is then seen by the next load. The environment variable
            ``MAXLAB_AT_LOAD=0`` turns it off for all models.

    Raises:
        ArgumentTypeError: ML625, a field of another type.

    Example:
        >>> from maxlab.compiler import Options
        >>> Options(apart=["n3"]).apart
        frozenset({'n3'})
        >>> Options() == Options(fuse=True), Options().is_default
        (True, True)
    """

    fuse: bool
    accuracy: Accuracy
    apart: frozenset[str]
    replaced: tuple[tuple[str, str], ...]
    keep: frozenset[str]
    outline: bool
    log_level: LogLevel
    assert_level: AssertLevel
    split_k: SplitK
    old_top_k: bool
    at_load: bool

    def __init__(
        self,
        *,
        fuse: bool = True,
        accuracy: Accuracy = "default",
        apart: Iterable[str] = (),
        replaced: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        keep: Iterable[str] = (),
        outline: bool = True,
        log_level: LogLevel = "notset",
        assert_level: AssertLevel = "safe",
        split_k: SplitK = "accum",
        old_top_k: bool = False,
        at_load: bool = True,
    ) -> None:
        flags = {
            "fuse": fuse, "outline": outline, "old_top_k": old_top_k,
            "at_load": at_load,
        }  # fmt: skip
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                raise _wrong(name, "True or False", flag)
        words = {
            "accuracy": accuracy, "log_level": log_level, "assert_level": assert_level,
            "split_k": split_k,
        }  # fmt: skip
        kinds = (Accuracy, LogLevel, AssertLevel, SplitK)
        for (name, word), kind in zip(words.items(), kinds, strict=True):
            if word not in get_args(kind):
                raise _wrong(name, f"one of {', '.join(get_args(kind))}", word)
        values: dict[str, Any] = {**flags, **words, "replaced": _pairs(replaced)}
        values |= {"apart": _ids("apart", apart), "keep": _ids("keep", keep)}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def is_default(self) -> bool:
        """Whether nothing was asked for."""
        return self == DEFAULT

    def of_session(self, session: Mapping[str, Any]) -> Options:
        """These options, with what ``session`` says where they are as by default.

        Args:
            session: Values of ``OF_SESSION``.
        """
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        for name, value in session.items():
            if values[name] == getattr(DEFAULT, name):
                values[name] = value
        return Options(**values)

    def with_options(self, **values: Any) -> Options:
        """These options, but with ``values``."""
        return Options(**{one.name: getattr(self, one.name) for one in fields(self)} | values)

    def __str__(self) -> str:
        """The fields that are not as by default, such as ``fuse=False, apart={n3}``."""
        parts: list[str] = []
        for one in fields(self):
            value = getattr(self, one.name)
            if value == getattr(DEFAULT, one.name):
                continue
            if isinstance(value, frozenset):
                parts.append(f"{one.name}={{{', '.join(sorted(value))}}}")
            elif isinstance(value, tuple):
                parts.append(f"{one.name}={{{', '.join(symbol for symbol, _ in value)}}}")
            else:
                parts.append(f"{one.name}={value}")
        return ", ".join(parts) or "defaults"


def _ids(name: str, given: Any) -> frozenset[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise _wrong(name, "a set of ids", given)
    made = frozenset(given)
    if not all(isinstance(id, str) for id in made):
        raise _wrong(name, "a set of ids", given)
    return made


def _pairs(given: Any) -> tuple[tuple[str, str], ...]:
    pairs = given.items() if isinstance(given, Mapping) else given
    made = tuple(pairs) if isinstance(pairs, Iterable) else (None,)
    for pair in made:
        if not isinstance(pair, (tuple, list)) or [type(part) for part in pair] != [str, str]:
            raise _wrong("replaced", "pairs of a symbol and a text", given)
    return tuple((symbol, text) for symbol, text in made)


def _wrong(name: str, expected: str, given: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        "ML625",
        f"the option {name} must be {expected}, got {given!r}",
        fix={
            "apart": 'write Options(apart={"n3"})',
            "keep": 'write Options(keep={"n3"})',
            "accuracy": 'write Options(accuracy="fast")',
            "replaced": "write Options(replaced=((kernel.symbol, text),))",
            "log_level": 'write Options(log_level="info")',
            "assert_level": 'write Options(assert_level="all")',
            "split_k": 'write Options(split_k="output")',
        }.get(name, f"write Options({name}=False)"),
    )


DEFAULT = Options()
"""The options of a graph that is loaded without any."""
