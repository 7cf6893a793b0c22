"""Log probabilities of tokens: of those that were drawn, and of a prompt's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.driver import CPU, Device, Tensor
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.interfaces import LogProbabilities, fields

Integers = npt.NDArray[np.integer[Any]]
_MOST_LEVELS = 16


def log_probabilities_ragged_graph(device: DeviceRef, *, levels: int) -> Graph:
    """The graph of a model that `compute_log_probabilities_ragged` needs.

    Its inputs are logits, float32 [all rows, tokens], the rows that are wanted, int64 [rows], and a
    token of each, int64 [rows]. Its outputs are the log probabilities of these tokens, float32
    [rows], those of the ``2**levels - 1`` most probable tokens, float32 [rows, count], and these
    tokens, int64 [rows, count]; of equally probable ones the smaller come first.

    Args:
        device: Where it runs.
        levels: The logarithm to base 2 of one more than the largest number of most probable tokens
            that can be asked for, in [0, 16]: 3 for up to 7.

    Raises:
        InputTypeError, InputError: ML980, ML981, an argument of another type or out of its range.

    Example:
        >>> graph = log_probabilities_ragged_graph(DeviceRef.CPU(), levels=3)
        >>> [str(type.shape) for type in graph.output_types]
        ['[rows]', '[rows, 7]', '[rows, 7]']
    """
    fields.instance(DeviceRef)("device", device)
    fields.integer(0, _MOST_LEVELS)("levels", levels)
    types = [
        TensorType(DType.float32, ["all_rows", "vocab_size"], device),
        TensorType(DType.int64, ["rows"], device),
        TensorType(DType.int64, ["rows"], device),
    ]
    with Graph("log_probabilities", input_types=types) as graph:
        logits, rows, tokens = (x.tensor for x in graph.inputs)
        wanted = ops.gather(logits, rows, 0)
        wide = ops.cast(wanted, DType.float64)
        most = ops.max(wide, axis=1)
        total = most + ops.log(ops.sum(ops.exp(wide - most), axis=1))
        found = ops.gather_nd(wide, ops.unsqueeze(ops.unsqueeze(tokens, 1), 1), batch_dims=1)
        values, places = ops.top_k(wanted, (1 << levels) - 1)
        graph.output(
            ops.cast(ops.squeeze(found - total, 1), DType.float32),
            ops.cast(ops.cast(values, DType.float64) - total, DType.float32),
            places,
        )
    return graph


def compute_log_probabilities_ragged(
    device: Device,
    model: Model,
    *,
    input_row_offsets: Integers,
    logits: Tensor | None,
    next_token_logits: Tensor,
    tokens: Integers,
    sampled_tokens: Integers,
    batch_top_n: Sequence[int],
    batch_echo: Sequence[bool],
) -> list[LogProbabilities | None]:
    """The log probabilities of each request of a ragged batch; None where its ``batch_top_n`` is 0.

    A request has an entry for the token that was sampled. With echo, entries for its tokens from
    the second one on come first: as many in all as it has tokens. An entry has the ``top_n`` most
    probable tokens, the most probable one first, and the token that is there, if it is none of
    these. They are of the softmax of the logits that are passed.

    Args:
        device: Where the model runs.
        model: A model of `log_probabilities_ragged_graph`.
        input_row_offsets: Where the tokens of each request begin, and the end, integers
            [batch + 1].
        logits: The logits behind each token, [tokens, vocabulary]; None without echo.
        next_token_logits: The logits by which the next token of each request was sampled,
            [batch, vocabulary].
        tokens: The tokens of all requests, integers [tokens].
        sampled_tokens: The sampled tokens, integers [batch].
        batch_top_n: How many of the most probable tokens each request is told.
        batch_echo: Whether a request is told of its tokens too.

    Raises:
        InputTypeError, InputError: ML980, ML981, an argument of another type, of another size, or
            out of its range, such as a ``top_n`` that is larger than the model's (a ValueError).

    Example:
        >>> from maxlab.engine import InferenceSession
        >>> model = InferenceSession().load(
        ...     log_probabilities_ragged_graph(DeviceRef.CPU(), levels=2))
        >>> logits = Tensor.from_numpy(np.log(np.array([[0.5, 0.3, 0.2]], np.float32)))
        >>> (found,) = compute_log_probabilities_ragged(
        ...     CPU(), model, input_row_offsets=np.array([0, 1]), logits=None,
        ...     next_token_logits=logits, tokens=np.array([1]), sampled_tokens=np.array([2]),
        ...     batch_top_n=[1], batch_echo=[False])
        >>> {token: round(value, 3) for token, value in found.top_log_probabilities[0].items()}
        {0: -0.693, 2: -1.609}
    """
    ends = [int(end) for end in _integers("input_row_offsets", input_row_offsets)]
    given = _integers("tokens", tokens)
    drawn = _integers("sampled_tokens", sampled_tokens)
    count = len(drawn)
    size = int(next_token_logits.shape[1])
    most = min(_most(model), size)
    for name, length in (
        ("input_row_offsets", len(ends) - 1),
        ("next_token_logits", int(next_token_logits.shape[0])),
        ("batch_top_n", len(batch_top_n)),
        ("batch_echo", len(batch_echo)),
    ):
        if length != count:
            raise fields.out_of_range(
                f"the requests of {name}", length, f"{count}, as many as sampled_tokens"
            )
    for top_n in batch_top_n:
        fields.integer(0, most)("batch_top_n", top_n)
    if ends[0] != 0 or ends != sorted(ends) or ends[-1] != len(given):
        raise fields.out_of_range("input_row_offsets", ends, f"from 0 up to {len(given)} tokens")
    told = [n for n in range(count) if batch_top_n[n]]
    echoed = [n for n in told if batch_echo[n]]
    if echoed and (logits is None or tuple(logits.shape) != (len(given), size)):
        raise fields.out_of_range(
            "logits",
            None if logits is None else list(logits.shape),
            f"the shape [{len(given)}, {size}], as a request has echo",
        )
    entries: dict[int, list[tuple[float, dict[int, float]]]] = {n: [] for n in told}
    if echoed and logits is not None:
        rows = [row for n in echoed for row in range(ends[n], ends[n + 1] - 1)]
        owners = [n for n in echoed for _ in range(ends[n], ends[n + 1] - 1)]
        _tell(
            device,
            model,
            logits,
            rows,
            given[[row + 1 for row in rows]],
            owners,
            batch_top_n,
            entries,
        )
    _tell(device, model, next_token_logits, told, drawn[told], told, batch_top_n, entries)
    return [
        LogProbabilities(
            token_log_probabilities=[value for value, _ in entries[n]],
            top_log_probabilities=[tops for _, tops in entries[n]],
        )
        if n in entries
        else None
        for n in range(count)
    ]


def _tell(
    device: Device,
    model: Model,
    logits: Tensor,
    rows: Sequence[int],
    tokens: Integers,
    owners: Sequence[int],
    batch_top_n: Sequence[int],
    entries: dict[int, list[tuple[float, dict[int, float]]]],
) -> None:
    """Adds an entry for each of ``rows`` to those of its owner."""
    if not rows:
        return
    size = int(logits.shape[1])
    bad = [int(token) for token in tokens if not 0 <= token < size]
    if bad:
        raise fields.out_of_range("tokens", bad[0], f"a token from 0 to {size - 1}")
    made = model.execute(
        _prepared(logits, _most(model), device),
        Tensor.from_numpy(np.array(rows, np.int64)).to(device),
        Tensor.from_numpy(tokens.astype(np.int64)).to(device),
    )
    own, values, places = (x.to(CPU()).to_numpy() for x in made)
    for row, owner in enumerate(owners):
        top_n, token = batch_top_n[owner], int(tokens[row])
        tops = dict(zip(places[row, :top_n].tolist(), values[row, :top_n].tolist(), strict=True))
        tops.setdefault(token, float(own[row]))
        entries[owner].append((float(own[row]), tops))


def _most(model: Model) -> int:
    """How many of the most probable tokens ``model`` tells."""
    count = model.output_metadata[1].shape[1] if len(model.output_metadata) == 3 else None
    if not isinstance(count, int):
        raise fields.out_of_range(
            "model",
            [str(one) for one in model.output_metadata],
            "the outputs of log_probabilities_ragged_graph",
        )
    return count


def _prepared(logits: Tensor, least: int, device: Device) -> Tensor:
    """``logits`` as the model takes them: float32, and with ``least`` tokens or more."""
    missing = least - int(logits.shape[1])
    if logits.dtype is DType.float32 and missing <= 0:
        return logits.to(device)
    wide = np.asarray(logits.to(CPU()).to_ml_numpy()).astype(np.float32)
    none = np.full((len(wide), max(missing, 0)), -np.inf, np.float32)
    return Tensor.from_numpy(np.concatenate([wide, none], axis=1)).to(device)


def _integers(name: str, array: Integers) -> Integers:
    found = np.asarray(array)
    if found.dtype.kind not in "iu":
        raise fields.wrong_type(name, array, "an array of integers")
    if found.ndim != 1:
        raise fields.out_of_range(name, list(found.shape), "an array of rank 1")
    return found


__all__ = ["compute_log_probabilities_ragged", "log_probabilities_ragged_graph"]
