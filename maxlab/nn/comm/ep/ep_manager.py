"""``EPBatchManager``: brings tokens to the devices that have their experts, and results back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ModuleError, ShapeError, shown
from maxlab.graph import Dim, StaticDim, TensorValue, ops
from maxlab.graph.ops.dynamic import bind_dim
from maxlab.nn.comm.ep.ep_batch import Batch, Received, Sent, cuts, joined, sizes_of
from maxlab.nn.comm.ep.ep_config import EPConfig
from maxlab.opset.builder import current

_STATE, _NUMBERS = "batches of experts", "numbers of batches of experts"
_ID = DType.int32


_BEFORE = {"received": "sent", "made": "received", "home": "made"}
"""The step that all devices, or for results the same one, have taken before another."""
_CALLS = {
    "sent": "ep_dispatch_async",
    "received": "ep_dispatch_wait",
    "made": "ep_combine_async",
    "home": "ep_combine_wait",
}


class EPBatchManager:
    """Brings the tokens of several devices to the devices that have their experts, and the results
    back.

    While a graph is built, each step is called for all devices before the next one:
    ``ep_dispatch_async`` with the tokens of a device, ``ep_dispatch_wait`` for what the others
    sent, ``ep_combine_async`` with the results of its experts, ``ep_combine_wait`` for the results
    of its tokens. ``nn.moe.MoE`` does so for its experts. Layers of one model may share a manager.

    A vector goes once to each of its experts, and only the vectors that a device has experts for
    go there: how many that are is counted in each run, and transfers are of that size.

    Args:
        config: How experts are divided.

    Attributes:
        config: As above.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.driver import Tensor, virtual_cpus
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> f32, i64 = DType.float32, DType.int64
        >>> manager = EPBatchManager(EPConfig(f32, f32, 4, 1, 2, None, 2))
        >>> types = [
        ...     type
        ...     for n in range(2)
        ...     for type in (
        ...         TensorType(f32, [f"tokens_{n}", 4], DeviceRef.CPU(n)),
        ...         TensorType(i64, [f"tokens_{n}", 1], DeviceRef.CPU(n)),
        ...     )
        ... ]
        >>> with virtual_cpus(2) as cpus:
        ...     with Graph("twice", input_types=types) as graph:
        ...         values = [value.tensor for value in graph.inputs]
        ...         for n in range(2):
        ...             manager.ep_dispatch_async(values[2 * n], values[2 * n + 1], n)
        ...         rows = [manager.ep_dispatch_wait(n)[0] for n in range(2)]
        ...         for n in range(2):
        ...             manager.ep_combine_async(rows[n] * (n + 1), n)
        ...         graph.output(*(manager.ep_combine_wait(n) for n in range(2)))
        ...     model = engine.InferenceSession(devices=cpus).load(graph)
        ...     x, ids = np.ones((3, 4), np.float32), np.array([[1], [0], [1]])
        ...     given = [Tensor.from_numpy(a).to(cpu) for cpu in cpus for a in (x, ids)]
        ...     [y.to(cpus[0]).to_numpy()[:, 0, 0].tolist() for y in model(*given)]
        [[2.0, 1.0, 2.0], [2.0, 1.0, 2.0]]
    """

    config: EPConfig

    def __init__(self, config: EPConfig) -> None:
        self.config = config

    # ------------------------------------------------------------ to the experts
    def ep_dispatch_async(
        self,
        input_tokens: TensorValue,
        topk_ids: TensorValue,
        device_id: int,
        router_weight: TensorValue | None = None,
    ) -> None:
        """Sends the vectors of a device's tokens to the devices that have their experts.

        Args:
            input_tokens: The vectors, ``[tokens, hidden_size]``.
            topk_ids: The experts of each token, integers ``[tokens, top_k]``, on the same device.
            device_id: The number of the device.
            router_weight: Weights that vectors are multiplied with before, ``[tokens, top_k]``.

        Raises:
            ArgumentError: ML521, no such device; ML525, more tokens than ``max_tokens_per_rank``.
                Where the number of tokens is symbolic, the run ends with ML727.
            ModuleError: ML522, the device has sent already.
            ShapeError: ML659, shapes that do not fit (a ValueError).
        """
        config, what = self.config, "ep_dispatch_async"
        batch = self._step("sent", device_id)
        _require_shape(what, "input_tokens", input_tokens, (None, config.hidden_size))
        tokens = input_tokens.shape[0]
        for name, value in (("topk_ids", topk_ids), ("router_weight", router_weight)):
            if value is not None:
                _require_shape(what, name, value, (tokens, config.top_k))
        self._require_room(what, device_id, input_tokens)
        flat = ops.reshape(ops.cast(topk_ids, DType.int32), [-1])
        order, _, restore, _, _ = ops.expert_indices(flat, config.n_experts)
        counts = self._counts(flat)
        sizes = sizes_of(counts, f"experts_{batch.number}_from_{device_id}", what)
        rows, ids = [], []
        for cut in cuts(sizes):
            entry = ops.cast(order[cut], DType.int64)
            x = ops.gather(input_tokens, entry if config.top_k == 1 else entry // config.top_k, 0)
            if router_weight is not None:
                factors = ops.reshape(ops.cast(router_weight, x.dtype), [-1, 1])
                x = x * ops.gather(factors, entry, 0)
            rows.append(ops.cast(x, config.dispatch_dtype))
            ids.append(ops.gather(flat, entry, 0))
        batch.sent[device_id] = Sent(
            tokens, input_tokens.dtype, input_tokens.device, rows, ids, restore, counts, sizes
        )

    def ep_dispatch_wait(
        self, device_id: int
    ) -> tuple[TensorValue, TensorValue, TensorValue, TensorValue]:
        """The vectors that all devices sent to a device, in the order of its experts.

        Args:
            device_id: The number of the device.

        Returns:
            Four tensors, as ``ops.grouped_matmul`` takes them: the vectors, ``[entries,
            hidden_size]``; where the group of each expert begins, and the end, uint32 ``[experts +
            1]``; the experts of the groups, counted from the first of the device, int32
            ``[experts]``; the rows of the largest group with the number of groups, uint32 ``[2]``.

        Raises:
            ArgumentError: ML521, no such device.
            ModuleError: ML522, some device has not sent, or this one has received already.
        """
        found = self.received(device_id)
        return found.rows, found.starts, found.ids, found.usage

    def received(self, device_id: int) -> Received:
        """The same as ``ep_dispatch_wait``, with the order of the entries too.

        Args:
            device_id: The number of the device.

        Raises:
            ArgumentError: ML521, no such device.
            ModuleError: ML522, some device has not sent, or this one has received already.
        """
        batch = self._step("received", device_id)
        own = batch.sent[device_id]
        place, experts = own.device, self.config.experts_of(device_id)
        sent = [batch.sent[n] for n in range(self.config.n_gpus_per_node)]
        rows = joined([ops.transfer_to(one.rows[device_id], place) for one in sent])
        ids = joined([ops.transfer_to(one.ids[device_id], place) for one in sent]) - experts.start
        order, starts, restore, groups, usage = ops.expert_indices(ids, len(experts))
        made = Received(
            rows=ops.cast(ops.gather(rows, order, 0), own.dtype),
            indices=ops.unsqueeze(ids, 1),
            order=order,
            starts=starts,
            restore=restore,
            ids=groups,
            usage=usage,
        )
        batch.received[device_id] = made
        return made

    # ------------------------------------------------------------ and back
    def ep_combine_async(self, input_tokens: TensorValue, device_id: int) -> None:
        """Sends the results of a device's experts to the devices that have their tokens.

        Args:
            input_tokens: The results, ``[entries, hidden_size]``, in the order of what
                ``ep_dispatch_wait`` gave.
            device_id: The number of the device.

        Raises:
            ArgumentError: ML521, no such device.
            ModuleError: ML522, the device has not received, or has sent its results already.
            ShapeError: ML659, not a result for each vector (a ValueError).
        """
        what = "ep_combine_async"
        batch = self._step("made", device_id)
        got = batch.received[device_id]
        shape = (got.rows.shape[0], self.config.hidden_size)
        _require_shape(what, "input_tokens", input_tokens, shape)
        made = ops.gather(input_tokens, got.restore, 0)  # in the order of arrival
        batch.made[device_id] = ops.cast(made, self.config.combine_dtype)

    def ep_combine_wait(
        self, device_id: int, router_weight: TensorValue | None = None
    ) -> TensorValue:
        """The results for the tokens of a device.

        Args:
            device_id: The number of the device.
            router_weight: The weights of results, ``[tokens, top_k]``.

        Returns:
            The weighted sums, ``[tokens, hidden_size]``; without weights all results, ``[tokens,
            top_k, hidden_size]``; of the dtype of the tokens.

        Raises:
            ArgumentError: ML521, no such device.
            ModuleError: ML522, some device has not sent its results, or this one has them already.
            ShapeError: ML659, weights of another shape (a ValueError).
        """
        what, config = "ep_combine_wait", self.config
        batch = self._step("home", device_id)
        own = batch.sent[device_id]
        if router_weight is not None:
            shape = (own.tokens, config.top_k)
            _require_shape(what, "router_weight", router_weight, shape)
        parts = []
        for n in range(config.n_gpus_per_node):
            arrived = [batch.sent[d].sizes[n] for d in range(config.n_gpus_per_node)]
            part = batch.made[n][cuts(arrived)[device_id]]
            parts.append(ops.transfer_to(part, own.device))
        made = ops.gather(joined(parts), own.restore, 0)
        made = ops.cast(
            ops.reshape(made, [own.tokens, config.top_k, config.hidden_size]), own.dtype
        )
        batch.home[device_id] = made
        if len(batch.home) == config.n_gpus_per_node:
            del self._batches()[self]
        if router_weight is None:
            return made
        weighted = made * ops.unsqueeze(ops.cast(router_weight, own.dtype), -1)
        return ops.squeeze(ops.sum(weighted, axis=1), 1)

    # ------------------------------------------------------------ numbers
    def counts(self, device_id: int) -> TensorValue:
        """How many vectors a device sent to each in the batch that is on its way, int64
        ``[devices]``; those for its own experts stay where they are.

        Args:
            device_id: The number of the device.

        Raises:
            ModuleError: ML522, it has not sent.
        """
        batch = self._batches().get(self)
        if batch is None or device_id not in batch.sent:
            raise _out_of_order("counts", f"device {shown(device_id)} has not sent")
        return batch.sent[device_id].counts

    @property
    def dispatch_bytes(self) -> int:
        """The bytes of a vector on its way to an expert, with the number of the expert."""
        config = self.config
        return config.hidden_size * config.dispatch_dtype.size_in_bytes + _ID.size_in_bytes

    @property
    def combine_bytes(self) -> int:
        """The bytes of a result on its way back."""
        return self.config.hidden_size * self.config.combine_dtype.size_in_bytes

    def _counts(self, flat: TensorValue) -> TensorValue:
        """How many of the entries with the experts ``flat`` go to each device, int64."""
        many = range(self.config.n_gpus_per_node)
        firsts = np.array([self.config.experts_of(n).start for n in many], np.int32)
        ends = np.array([self.config.experts_of(n).stop for n in many], np.int32)
        ids = ops.reshape(flat, [-1, 1])
        first, end = (ops.constant(each, _ID, flat.device) for each in (firsts, ends))
        here = ops.logical_and(ids >= first, ids < end)
        return ops.squeeze(ops.sum(ops.cast(here, DType.int64), axis=0), 0)

    # ------------------------------------------------------------ checks
    def _batches(self) -> dict[EPBatchManager, Batch]:
        """The batches of the graph that is being built, by manager."""
        graph = current()
        if graph is None:
            raise _out_of_order("EPBatchManager", "no graph is being built")
        found: dict[EPBatchManager, Batch] = graph.state.setdefault(_STATE, {})
        return found

    def _step(self, step: str, device_id: int) -> Batch:
        """The batch that is on its way, in which a device takes a step.

        Raises:
            ArgumentError: ML521, no such device.
            ModuleError: ML522, it is not its turn.
        """
        what, many, batches = _CALLS[step], self.config.n_gpus_per_node, self._batches()
        is_number = isinstance(device_id, int) and not isinstance(device_id, bool)
        if not is_number or not 0 <= device_id < many:
            raise ArgumentError(
                "ML521",
                f"{what}: device_id must be an int from 0 to {many - 1}, got {shown(device_id)}",
                fix="pass the place of the device among those of the config",
            )
        graph: Any = current()
        if step == "sent" and self not in batches:
            batches[self] = Batch(next(graph.state.setdefault(_NUMBERS, count())))
        batch = batches.get(self)
        if batch is None:
            raise _out_of_order(what, "no device has sent tokens")
        if device_id in getattr(batch, step):
            raise _out_of_order(what, f"it was called for device {device_id} already")
        before = _BEFORE.get(step)
        wanted = [device_id] if step == "made" else range(many)
        missing = [n for n in wanted if before and n not in getattr(batch, before)]
        if before and missing:
            raise _out_of_order(what, f"{_CALLS[before]} was not called for device {missing[0]}")
        return batch

    def _require_room(self, what: str, device_id: int, tokens: TensorValue) -> None:
        """Raises, or lets the run end, where there are too many tokens."""
        most, dim = self.config.max_tokens_per_rank, tokens.shape[0]
        if most is None:
            return
        said = f"device {device_id} has more tokens than max_tokens_per_rank={most}"
        if isinstance(dim, StaticDim):
            if int(dim) > most:
                raise ArgumentError(
                    "ML525",
                    f"{what}: {said}: {dim}",
                    fix="pass a larger max_tokens_per_rank, or None, or a smaller batch",
                )
            return
        graph: Any = current()
        room = most - ops.shape_to_tensor([dim])[0]
        name = f"room_{next(graph.state.setdefault(_NUMBERS, count()))}_of_{device_id}"
        bind_dim(ops.cast(room, DType.int64), Dim(name), what, said)


def _require_shape(
    what: str, name: str, value: TensorValue, shape: Sequence[Dim | int | None]
) -> None:
    """Raises unless ``value`` has these dims; None is any.

    Raises:
        ShapeError: ML659.
    """
    dims = [Dim(dim) if dim is not None else dim for dim in shape]
    fits = value.rank == len(dims) and all(
        wanted is None or dim == wanted for dim, wanted in zip(value.shape, dims, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if dim is None else str(dim) for dim in dims)
        raise ShapeError(
            "ML659", f"{what}: {name} must be [{wanted}], got {value.type}", fix="see EPConfig"
        )


def _out_of_order(what: str, why: str) -> ModuleError:
    return ModuleError(
        "ML522",
        f"{what}: {why}",
        fix="inside of a graph, call ep_dispatch_async for all devices, then ep_dispatch_wait, "
        "ep_combine_async and ep_combine_wait",
    )


__all__ = ["EPBatchManager"]
