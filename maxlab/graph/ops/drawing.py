"""Tokens that are drawn from logits, penalties of logits, and counts of tokens."""

from __future__ import annotations

from typing import Final

from maxlab.graph.build import add as add_op
from maxlab.graph.build import buffer, staged, tensor
from maxlab.graph.value import BufferValue, TensorValue
from maxlab.ir import Dim, DimLike
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "reduce"
"""Of the functions here that are no rows of the op table themselves."""


@staged
def sample_uniform(seeds: TensorValue, count: DimLike = 1) -> TensorValue:
    """Uniform numbers in [0, 1) of each row, float64 [rows, count], from the seed of the row.

    They are those of NumPy, ``Generator(Philox(key=seed)).random(count)``, on every device. Equal
    seeds make equal numbers.

    Args:
        seeds: A seed of each row, uint64 [rows].
        count: How many numbers a row gets.

    Raises:
        DTypeError: ML666, the seeds are not uint64.
        ShapeError: ML659, they are not of rank 1.

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import Graph, ops
        >>> with Graph("dice", input_types=[]) as graph:
        ...     graph.output(ops.sample_uniform(np.array([7, 8], np.uint64)))
        >>> InferenceSession().load(graph)()[0].to_numpy().round(3).tolist()
        [[0.872], [0.996]]
    """
    return add_op("sample.uniform", [tensor(seeds, "sample_uniform: the seeds")], count=Dim(count))


@staged
def sample_token(
    logits: TensorValue,
    top_k: TensorValue,
    temperature: TensorValue,
    top_p: TensorValue,
    min_p: TensorValue,
    uniform: TensorValue,
    allowed: TensorValue | None = None,
) -> TensorValue:
    """A token of each row, int64 [rows], drawn by the uniform number of the row.

    The logits are divided by the temperature; ``top_k`` leaves the most probable tokens, then
    ``top_p`` those before which less than ``top_p`` stands, then ``min_p`` those with that part of
    the largest probability. Of equally probable tokens the one with the smaller id comes first. All
    is computed in float64. NaN or plus infinity ends the run with ML183, a row without any token
    with ML185.

    Args:
        logits: Floats [rows, tokens]; minus infinity for tokens that cannot be.
        top_k: How many tokens stay, int64 [rows]; all where it is below 1.
        temperature: float64 [rows]; where it is not above 0, the most probable token is taken.
        top_p: float64 [rows]; 1 leaves all.
        min_p: float64 [rows]; 0 leaves all.
        uniform: float64 [rows], in [0, 1).
        allowed: Which tokens may be drawn, bool [rows, width]; those beyond its width may not.

    Raises:
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks.

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import Graph, ops
        >>> row = lambda x: np.array([x, x], np.float64)
        >>> logits = np.log([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
        >>> with Graph("draw", input_types=[]) as graph:
        ...     graph.output(ops.sample_token(
        ...         logits, np.array([2, 2]), row(1), row(1), row(0), row(0.7)))
        >>> InferenceSession().load(graph)()[0].to_numpy().tolist()
        [1, 2]
    """
    given = _numbers("sample_token", logits, top_k, temperature, top_p, min_p)
    given.append(tensor(uniform, "sample_token: the uniform numbers"))
    if allowed is not None:
        given.append(tensor(allowed, "sample_token: the allowed tokens"))
    return add_op("sample.token", given)


@staged
def sample_scores(
    logits: TensorValue,
    top_k: TensorValue,
    temperature: TensorValue,
    top_p: TensorValue,
    min_p: TensorValue,
    allowed: TensorValue | None = None,
) -> TensorValue:
    """The logits of the probabilities that `sample_token` draws by, [rows, tokens]: their softmax
    is that distribution, and tokens that are not drawn have minus infinity.

    The largest is 0. float32, or float64 for logits of float64.

    Args:
        logits: Floats [rows, tokens]; minus infinity for tokens that cannot be.
        top_k: How many tokens stay, int64 [rows]; all where it is below 1.
        temperature: float64 [rows]; where it is not above 0, the most probable token stays.
        top_p: float64 [rows]; 1 leaves all.
        min_p: float64 [rows]; 0 leaves all.
        allowed: Which tokens may be drawn, bool [rows, width]; those beyond its width may not.

    Raises:
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks.

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import Graph, ops
        >>> one = np.ones(1)
        >>> with Graph("scores", input_types=[]) as graph:
        ...     graph.output(ops.sample_scores(
        ...         np.array([[1.0, 3.0, 2.0]]), np.array([2]), 0.5 * one, one, 0 * one))
        >>> InferenceSession().load(graph)()[0].to_numpy().tolist()
        [[-inf, 0.0, -2.0]]
    """
    given = _numbers("sample_scores", logits, top_k, temperature, top_p, min_p)
    if allowed is not None:
        given.append(tensor(allowed, "sample_scores: the allowed tokens"))
    return add_op("sample.scores", given)


@staged
def sample_penalise(
    logits: BufferValue,
    counts: TensorValue,
    offsets: TensorValue,
    frequency: TensorValue,
    presence: TensorValue,
    repetition: TensorValue,
) -> None:
    """Changes the logits of tokens that have been there.

    A positive logit is divided by ``repetition``, a negative one multiplied; then the count of the
    token times ``frequency``, and ``presence``, are taken away. What exceeds the dtype becomes its
    largest number; minus infinity stays. Tokens with a count of 0 keep their logits. Offsets beyond
    the counts, or a token that is not there, end the run with ML652.

    Args:
        logits: A buffer of floats [rows, tokens].
        counts: Tokens and how often each is there, int32 [entries, 2], each token once a row; the
            token -1 is a free place.
        offsets: Where the counts of each row begin, and the end, uint32 [rows + 1].
        frequency: float64 [rows].
        presence: float64 [rows].
        repetition: float64 [rows].

    Raises:
        ArgumentTypeError: ML776, ``logits`` are not a buffer.
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.

    Example:
        >>> import numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import BufferType, Graph, ops
        >>> counts, offsets = np.array([[2, 3]], np.int32), np.array([0, 1], np.uint32)
        >>> with Graph("less", input_types=[BufferType(DType.float32, [1, 3])]) as graph:
        ...     ops.sample_penalise(graph.inputs[0].buffer, counts, offsets, np.array([0.5]),
        ...                         np.array([1.0]), np.array([2.0]))
        ...     graph.output()
        >>> logits = np.ones((1, 3), np.float32)
        >>> _ = InferenceSession().load(graph)(logits)
        >>> logits.tolist()
        [[1.0, 1.0, -2.0]]
    """
    what = "sample_penalise"
    named = (
        ("counts", counts), ("offsets", offsets), ("frequency", frequency),
        ("presence", presence), ("repetition", repetition),
    )  # fmt: skip
    given = [tensor(x, f"{what}: {name}") for name, x in named]
    add_op("sample.penalise", [buffer(logits, f"{what}: the logits"), *given])


@staged
def sample_count(counts: BufferValue, offsets: TensorValue, tokens: TensorValue) -> None:
    """Counts the token of each row: in the place of that token, else in the first free one.

    A token without a place is not counted. Offsets beyond the counts, or a negative token, end the
    run with ML652.

    Args:
        counts: A buffer of tokens and how often each is there, int32 [entries, 2]; the token -1 is
            a free place.
        offsets: Where the counts of each row begin, and the end, uint32 [rows + 1].
        tokens: A token of each row, int64 [rows].

    Raises:
        ArgumentTypeError: ML776, ``counts`` are not a buffer.
        DTypeError: ML666, other dtypes.
        ShapeError: ML659, other ranks or sizes.

    Example:
        >>> import numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import BufferType, Graph, ops
        >>> offsets = np.array([0, 2, 3], np.uint32)
        >>> with Graph("count", input_types=[BufferType(DType.int32, [3, 2])]) as graph:
        ...     ops.sample_count(graph.inputs[0].buffer, offsets, np.array([4, 9]))
        ...     graph.output()
        >>> counts = np.array([[4, 1], [-1, 0], [-1, 0]], np.int32)
        >>> _ = InferenceSession().load(graph)(counts)
        >>> counts.tolist()
        [[4, 2], [-1, 0], [9, 1]]
    """
    what = "sample_count"
    given = [tensor(x, f"{what}: {name}") for name, x in (("offsets", offsets), ("tokens", tokens))]
    add_op("sample.count", [buffer(counts, f"{what}: the counts"), *given])


def _numbers(what: str, *given: TensorValue) -> list[TensorValue]:
    names = ("the logits", "top_k", "temperature", "top_p", "min_p")
    return [tensor(x, f"{what}: {name}") for name, x in zip(names, given, strict=True)]


__all__ = ["sample_count", "sample_penalise", "sample_scores", "sample_token", "sample_uniform"]
