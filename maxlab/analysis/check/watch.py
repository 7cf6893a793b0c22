"""``watch``: expressions over the values of a graph, run after run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from maxlab.analysis.check.values import Edges
from maxlab.analysis.target import model_behind
from maxlab.driver import Tensor
from maxlab.engine.model import Model
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.tabular import Field, Tabular, aligned

Array = np.ndarray[Any, Any]
Expression = str | Callable[[Mapping[str, Array]], Any]
_NAME = re.compile(r"(?<![\w.])(?:n\d+|v\d+|a\d+|input\d+)\b")


class Watch(Tabular):
    """Expressions over values of a model, and what they were in each run. ``watch`` makes it.

    Attributes:
        model: The model.
        names: What the expressions are called, in order.
        history: For each name, its result in each run, the oldest first.
        keep: How many runs are remembered; None for all.
    """

    def __init__(
        self, model: Model, expressions: Mapping[str, Expression], nodes: Sequence[str], keep: int
    ) -> None:
        self.model = model
        self.names = list(expressions)
        self.history: dict[str, list[Any]] = {name: [] for name in expressions}
        self.keep = keep
        self._expressions = dict(expressions)
        self._code = {
            name: compile(text, f"<watch {name}>", "eval")
            for name, text in self._expressions.items()
            if isinstance(text, str)
        }
        self._nodes = list(nodes)
        self._edges = Edges(model, self._nodes)

    def __call__(self, *inputs: Any) -> list[Tensor]:
        """The outputs of the model on ``inputs``; the expressions are evaluated on the way.

        Raises:
            InputError: Inputs that the model does not take.
            ArgumentError: ML665, an expression failed.
        """
        found, walk = self._edges.run(inputs)
        arrays = {name: value.array for name, value in zip(self._nodes, found, strict=True)}
        results = {name: self._evaluated(name, arrays) for name in self.names}
        for name, result in results.items():
            self.history[name].append(result)
            del self.history[name][: -self.keep]
        return walk.outputs

    @contextmanager
    def attached(self) -> Iterator[Watch]:
        """Within the ``with`` block every run of the model is watched, whoever calls it."""
        with self.model.runner.replaced(lambda inputs: self(*inputs)):
            yield self

    @property
    def last(self) -> dict[str, Any]:
        """The value of each expression in the newest run; empty before the first."""
        return {name: made[-1] for name, made in self.history.items() if made}

    def _evaluated(self, name: str, arrays: Mapping[str, Array]) -> Any:
        expression = self._expressions[name]
        try:
            with np.errstate(all="ignore"):
                if callable(expression):
                    made = expression(arrays)
                else:
                    made = eval(self._code[name], {"np": np, **_FUNCTIONS}, dict(arrays))
        except Exception as error:  # whatever the user's expression raises
            raise ArgumentError(
                "ML665",
                f"the watched expression {name!r} failed: {type(error).__name__}: {error}",
                fix="it may use np and the arrays of " + ", ".join(self._nodes),
            ) from error
        if isinstance(made, np.ndarray) and made.ndim == 0:
            return made[()]
        return made

    def _heads(self) -> Sequence[str]:
        return ("run", *self.names)

    def _records(self) -> Iterator[Sequence[Field]]:
        columns = [[_field(made) for made in self.history[name]] for name in self.names]
        for run, row in enumerate(zip(*columns, strict=True)):
            yield run, *row

    def table(self) -> str:
        """The last runs as text, a column for each expression."""
        count = max((len(made) for made in self.history.values()), default=0)
        first = max(count - 20, 0)
        cells = [("run", *self.names)]
        cells += [
            (str(run), *(_text(self.history[n][run]) for n in self.names))
            for run in range(first, count)
        ]
        return "\n".join(aligned(cells, right=range(len(cells[0]))))

    def __repr__(self) -> str:
        last = ", ".join(f"{name} = {_text(made)}" for name, made in self.last.items())
        return f"Watch({self.model.name!r}: {last or ', '.join(self.names)})"


_FUNCTIONS = {
    name: getattr(np, name)
    for name in (
        "abs", "isnan", "isinf", "isfinite", "mean", "std", "sum", "max", "min", "nanmean",
        "nanstd", "nanmax", "nanmin", "sqrt", "log", "exp", "median", "quantile", "percentile",
        "count_nonzero", "argmax", "argmin",
    )
}  # fmt: skip
"""Functions that the texts of watched expressions may call by name alone; all else is in ``np``."""


def watch(
    target: Model | Profile,
    *expressions: Expression,
    nodes: Sequence[str] = (),
    keep: int = 1000,
) -> Watch:
    """A `Watch`, which runs ``target`` and evaluates ``expressions`` over values of its graph.

    Args:
        target: The model, or a profile of it.
        *expressions: Python text over ids of ops, with NumPy's functions and ``np``, such as
            ``"abs(n12).max()"``; or functions of a mapping from ids to arrays.
        nodes: Ids that functions read. Those of texts are found in them.
        keep: How many runs are remembered.

    Raises:
        ArgumentError: ML805, an id that the graph does not have; ML665, a text that is no
            expression, nothing to watch, or a ``keep`` below 1.
        ArgumentTypeError: ML674, ``target`` is no model.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output((graph.inputs[0].tensor * 2) + 1)
        >>> model = engine.InferenceSession().load(graph)
        >>> seen = watch(model, "abs(n1).max()")
        >>> for size in (3, 5):
        ...     _ = seen(np.arange(size, dtype=np.float32))
        >>> [float(x) for x in seen.history["abs(n1).max()"]]
        [4.0, 8.0]
    """
    model = model_behind(target, "watch")
    if not expressions or keep < 1:
        raise ArgumentError(
            "ML665",
            f"watch takes expressions and a keep of 1 or more, got {len(expressions)} and {keep}",
            fix='write maxlab.watch(model, "n12.mean()")',
        )
    named: dict[str, Expression] = {}
    wanted = list(nodes)
    for number, expression in enumerate(expressions):
        if callable(expression):
            name = getattr(expression, "__name__", "")
            name = name if name and name != "<lambda>" else f"watch{number}"
        else:
            name = expression
            wanted += _NAME.findall(expression)
            try:
                compile(expression, "<watch>", "eval")
            except SyntaxError as error:
                raise ArgumentError(
                    "ML665",
                    f"the watched text {expression!r} is no expression: {error.msg}",
                    fix="write one Python expression over ids of ops, such as 'n12.mean()'",
                ) from None
        named[name] = expression
    return Watch(model, named, list(dict.fromkeys(wanted)), keep)


def _field(made: Any) -> Field:
    """A result as a place of a table has it: a number as it is, an array as text."""
    plain = made.item() if isinstance(made, np.generic) else made
    return plain if isinstance(plain, (str, int, float, bool)) else str(plain)


def _text(made: Any) -> str:
    if isinstance(made, (float, np.floating)):
        return f"{float(made):.6g}"
    if isinstance(made, np.ndarray):
        return f"{made.dtype}{list(made.shape)}"
    return str(made)


__all__ = ["Watch", "watch"]
