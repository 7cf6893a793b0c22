"""A function, or a model, at every point of a grid; the results are a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxlab import progress
from maxlab.dask.generating import register_holder
from maxlab.dask.models import WantedModel
from maxlab.dask.running import Placing, in_order, require_client
from maxlab.errors import MaxlabError, shown
from maxlab.interfaces import SamplingParamsInput, fields
from maxlab.tabular import Field, Tabular, aligned, first_rows

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
"""The values of each name, all of which are combined; or the points, one by one."""


_LAST = ("seconds", "worker", "error")
"""The columns that every row may have, behind all others."""


class Sweep(Tabular):
    """The results of a sweep: a row for each point of the grid, in its order.

    The columns are the names of the grid, those of the results, the seconds that a point took and
    the worker that computed it; and ``error``, where errors are kept.

    Args:
        names: The names of the grid.
        rows: The rows, each with its columns by name.

    Attributes:
        rows: As above.

    Example:
        >>> made = Sweep(["n"], [{"n": 1, "value": 2.0}, {"n": 2, "value": 1.5}])
        >>> print(made.table())
        n  value
        1  2
        2  1.5
        >>> made.best("value")
        {'n': 2, 'value': 1.5}
    """

    __slots__ = ("_columns", "rows")

    def __init__(self, names: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
        self.rows = list(rows)
        found = dict.fromkeys(names)
        for row in rows:
            found |= dict.fromkeys(row)
        last = [one for one in _LAST if one in found]
        self._columns = [*(one for one in found if one not in last), *last]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    def column(self, name: str) -> list[Any]:
        """The values of a column; None in rows without one.

        Args:
            name: Its name.

        Raises:
            InputError: ML981 (a ValueError), there is no such column.
        """
        if name not in self._columns:
            raise fields.out_of_range("column", name, f"one of {', '.join(self._columns)}")
        return [row.get(name) for row in self.rows]

    def best(self, name: str, *, largest: bool = False) -> dict[str, Any]:
        """The row with the smallest value of a column, the first of several.

        Args:
            name: The column, of numbers.
            largest: Whether the largest value is the best one.

        Raises:
            InputError: ML981 (a ValueError), there is no such column, or no row with a value.
        """
        known = [
            row for row, one in zip(self.rows, self.column(name), strict=True) if one is not None
        ]
        if not known:
            raise fields.out_of_range("column", name, "one with values")
        return (max if largest else min)(known, key=lambda row: row[name])

    def table(self, count: int | None = 20) -> str:
        """The first rows as text.

        Args:
            count: How many; None for all.
        """
        shown_rows = first_rows(self.rows, count)
        cells = [
            self._columns,
            *([_text(row.get(name)) for name in self._columns] for row in shown_rows),
        ]
        lines = aligned(cells)
        left = len(self.rows) - len(cells) + 1
        return "\n".join([*lines, *([f"… {left} more"] if left else [])])

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self.rows[place]

    def __repr__(self) -> str:
        return self.table()

    def _heads(self) -> Sequence[str]:
        return [f"{name} [s]" if name == "seconds" else name for name in self._columns]

    def _records(self) -> Iterator[Sequence[Field]]:
        for row in self.rows:
            yield [_field(row.get(name)) for name in self._columns]


def sweep(
    client: Any,
    function: Callable[..., Any] | PipelineConfig | str | Path,
    grid: Grid,
    *,
    prompts: str | Sequence[str] | None = None,
    max_new_tokens: int | None = 100,
    keep_errors: bool = False,
    workers: list[str] | None = None,
    resources: dict[str, float] | None = None,
    retries: int = 3,
    **settings: Any,
) -> Sweep:
    """The table of what a function gives, or a model writes, at every point of a grid, computed by
    the workers of a cluster.

    A function is called with a point as keywords, such as the sizes and options of a graph that it
    compiles and times. What it returns becomes columns: those of a dict by their names, anything
    else as ``value``. A model writes behind each of ``prompts`` with the sampling parameters of a
    point; the columns are ``prompt`` and ``answer``.

    Args:
        client: A `distributed.Client`.
        function: A function; or a model, as for `generate`.
        grid: The values of each keyword, all of which are combined, the last one fastest; or a
            list of points, each a dict.
        prompts: The prompts, for a model alone.
        max_new_tokens: The most tokens of an answer of a model, where no point says.
        keep_errors: Whether an error at a point becomes its ``error``, in place of being raised.
        workers: The addresses or hosts of the workers that may be asked; None for all.
        resources: What a point takes of the resources that workers were started with. Times are
            true where a worker computes one point at a time, as with one thread each.
        retries: How often a point is sent again when the workers that computed it died.
        settings: Settings of `PipelineConfig`, with the path of a model.

    Raises:
        InputError: ML981, a grid without points, or with names that a row has; ML982, arguments
            that contradict each other (each a ValueError).
        InputTypeError: ML980, an argument of another type (a TypeError).
        ExecutionError: ML882, the function raised, and what; ML870, ML871 as by `generate` (each a
            RuntimeError).
        MaxlabError: What a function raised, with the worker among its reasons.

    Example:
        >>> found = sweep(client, timed, {"n": [64, 128], "threads": [1, 2]})  # doctest: +SKIP
        >>> found.best("ms")["n"]  # doctest: +SKIP
        64
    """
    require_client(client)
    fields.flag("keep_errors", keep_errors)
    fields.integer(0)("retries", retries)
    names, points = _points(grid)
    placing = Placing(workers, resources, retries)
    if callable(function):
        if prompts is not None or settings:
            raise fields.contradiction(
                "a function, and prompts or settings of a model",
                "pass them to a model, or as points of the grid to the function",
            )
        tasks = [(1, (function, point, keep_errors)) for point in points]
        return _computed(client, call, tasks, placing, names)
    texts = [prompts] if isinstance(prompts, str) else prompts
    fields.listed(fields.word, kinds=(list, tuple))("prompts", texts)
    wanted = WantedModel.of(function, settings)
    asked = [(point, SamplingParamsInput(**point)) for point in points]  # raises here, not there
    register_holder(client)
    asking = [
        (1, (wanted, point, params, text, max_new_tokens, keep_errors))
        for point, params in asked
        for text in texts or ()
    ]
    return _computed(client, ask, asking, placing, [*names, "prompt"])


def _computed(
    client: Any,
    function: Callable[..., Any],
    tasks: Sequence[tuple[int, tuple[Any, ...]]],
    placing: Placing,
    names: Sequence[str],
) -> Sweep:
    if not tasks:
        raise fields.out_of_range("grid", tasks, "points and prompts, one at least of each,")
    with progress.working(f"sweep {len(tasks)} points"):
        return Sweep(
            names, list(in_order(client, function, tasks, placing, "computing", len(tasks)))
        )


def _points(grid: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """The names of a grid, and its points."""
    if isinstance(grid, Mapping):
        for name, values in grid.items():
            fields.instance(Sequence)(f"grid[{name!r}]", values)
        found = [dict(zip(grid, one, strict=True)) for one in product(*grid.values())]
    else:
        fields.listed(fields.instance(Mapping), kinds=(list, tuple))("grid", grid)
        found = [dict(one) for one in grid]
    names = list(dict.fromkeys(name for point in found for name in point))
    if not found or not names:
        raise fields.out_of_range("grid", grid, "a grid with points")
    for name in names:
        if not isinstance(name, str) or name in _LAST:
            raise fields.out_of_range("grid", name, "names other than those of the table's columns")
    return names, found


def call(function: Callable[..., Any], point: dict[str, Any], keep_errors: bool) -> dict[str, Any]:
    """The row of a point of a function; what a worker runs.

    Args:
        function: The function.
        point: The point.
        keep_errors: Whether an error becomes a part of the row.

    Raises:
        MaxlabError: The function raised.
    """

    def compute() -> dict[str, Any]:
        found = function(**point)
        return (
            {str(key): one for key, one in found.items()}
            if isinstance(found, Mapping)
            else {"value": found}
        )

    return _row(point, compute, keep_errors)


def ask(
    wanted: WantedModel,
    point: dict[str, Any],
    params: SamplingParamsInput,
    prompt: str,
    max_new_tokens: int | None,
    keep_errors: bool,
) -> dict[str, Any]:
    """The row of a point of a model; what a worker runs.

    Args:
        wanted: The model.
        point: The point.
        params: The same as sampling parameters.
        prompt: The prompt.
        max_new_tokens: The most tokens of the answer, where ``params`` do not say.
        keep_errors: Whether an error becomes a part of the row.

    Raises:
        MaxlabError: The model raised.
    """
    from maxlab.dask.holding import held

    def compute() -> dict[str, Any]:
        with held(wanted) as llm:
            (text,) = llm.generate(prompt, max_new_tokens, False, sampling_params=params)
        return {"answer": text}

    return _row({**point, "prompt": prompt}, compute, keep_errors)


def _row(
    point: dict[str, Any], compute: Callable[[], dict[str, Any]], keep_errors: bool
) -> dict[str, Any]:
    from distributed import get_worker

    from maxlab.dask.holding import told_where

    started, row = time.perf_counter(), dict(point)
    try:
        with told_where():
            row |= compute()
    except MaxlabError as error:
        if not keep_errors or error.code == "ML142":  # that one is sent again
            raise
        row["error"] = str(error)
    row["seconds"] = time.perf_counter() - started
    row["worker"] = str(get_worker().address)
    return row


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return shown(value, 40)[1:-1] if len(value) > 40 or "\n" in value else value
    return "" if value is None else shown(value, 40)


def _field(value: Any) -> Field:
    item = getattr(value, "item", None)  # a number of NumPy
    if item is not None and getattr(value, "shape", None) == ():
        value = item()
    known = value is None or isinstance(value, (str, int, float, bool))
    return value if known else shown(value)


__all__ = ["Grid", "Sweep", "ask", "call", "sweep"]
