"""The manager of a paged cache of keys and values, on one device or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.driver import Device, Tensor
from maxlab.errors import ArgumentError, InputError, InsufficientBlocksError
from maxlab.graph import DeviceRef
from maxlab.interfaces import RequestID, TextGenerationContext, fields
from maxlab.nn.kv_cache.advancing import Advance
from maxlab.nn.kv_cache.cache_counts import CacheCounts
from maxlab.nn.kv_cache.cache_params import KVCacheParams
from maxlab.nn.kv_cache.manager import RaggedKVCacheInputs
from maxlab.nn.kv_cache.paged_cache import PagedCache
from maxlab.nn.kv_cache.sizes import check_paged, host_pages_of_replica, pages_of_replica
from maxlab.nn.kv_cache.values import PagedCacheInputSymbols

if TYPE_CHECKING:
    from maxlab.engine import InferenceSession


_NUMBER = fields.integer(1)
"""The rule of a number of steps."""


class PagedKVCacheManager(CacheCounts):
    """Keeps the keys and values of sequences in pages, and says to kernels which pages are whose.

    For each request: `claim` it; before each run of the model `alloc` the pages for it, and
    `get_runtime_inputs` of the batch; after it update the contexts, and `step`; at last `release`.

    With ``params.enable_prefix_caching`` full pages are kept when their sequence is over. One that
    begins like them takes them, and `alloc` moves its context's ``start_idx`` behind them. With
    ``params.enable_kvcache_swapping_to_host`` a kept page that gives way to others is copied to
    the host, and back when it is asked for. With ``params.data_parallel_degree`` above 1 each
    replica has its own pages and its own requests.

    As the last value of a cell it is a picture of its pages, see `page_table`.

    Args:
        params: The parameters of the cache; a page has a multiple of 128 tokens.
        max_batch_size: The most sequences of a batch of one replica.
        max_seq_len: The most tokens of a sequence.
        num_layers: The number of layers that have keys and values.
        devices: The devices, as many as ``params.n_devices``.
        session: The session that runs what advances lengths between steps on accelerators; made
            when it is needed first, where it is None.
        available_cache_memory: The bytes that the pages of all devices may take; enough for
            ``max_batch_size`` sequences of ``max_seq_len`` tokens where it is None.
        enable_runtime_checks: Whether every change is followed by a check of all tables, which
            takes time in proportion to the number of pages.
        poison_free_pages: Whether pages that hold nothing are filled with NaN, which shows in the
            outputs of a kernel that reads what was never written.

    Raises:
        ArgumentError: ML644, the size of a page; ML646, the memory is not enough for a page; ML648,
            other than ``n_devices`` devices; ML650, nothing to fill pages with (each a ValueError).
        InputError, InputTypeError: ML980, ML981, an argument of another type or out of its range.
        DeviceError: ML403, a device has not the memory.

    Example:
        >>> from maxlab.driver import CPU
        >>> from maxlab.dtype import DType
        >>> from maxlab.pipelines.core import TextContext
        >>> params = KVCacheParams(DType.float32, n_kv_heads=2, head_dim=4, page_size=128,
        ...                        enable_prefix_caching=True)
        >>> manager = PagedKVCacheManager(params, max_batch_size=2, max_seq_len=512, num_layers=1,
        ...                               devices=[CPU()])
        >>> for _ in range(2):
        ...     context = TextContext(max_length=512, tokens=np.arange(300))
        ...     manager.claim(context.request_id)
        ...     manager.alloc(context)
        ...     print(context.start_idx, manager.get_req_blocks(context.request_id))
        ...     context.update(7)  # after the model has run
        ...     manager.step([context])
        ...     manager.release(context.request_id)
        0 [0, 1, 2]
        256 [0, 1, 2]
        >>> round(manager.metrics.cache_hit_rate, 3), manager.num_free_blocks
        (0.427, 8)
    """

    def __init__(
        self,
        params: KVCacheParams,
        max_batch_size: int,
        max_seq_len: int,
        num_layers: int,
        devices: Sequence[Device],
        session: InferenceSession | None = None,
        available_cache_memory: int | None = None,
        enable_runtime_checks: bool = False,
        poison_free_pages: bool = False,
    ) -> None:
        check_paged(params)
        fields.integer(1)("max_batch_size", max_batch_size)
        fields.integer(1)("max_seq_len", max_seq_len)
        fields.optional(fields.integer(0))("available_cache_memory", available_cache_memory)
        fields.flag("enable_runtime_checks", enable_runtime_checks)
        fields.flag("poison_free_pages", poison_free_pages)
        if len(devices) != params.n_devices:
            raise ArgumentError(
                "ML648",
                f"PagedKVCacheManager: n_devices = {params.n_devices} devices expected ≠ "
                f"{len(devices)} given",
                fix=f"pass params with n_devices={len(devices)}, or other devices",
            )
        self.params = params
        self.max_batch_size = max_batch_size
        self.max_seq_len = max_seq_len
        self.num_layers = num_layers
        self.devices = list(devices)
        total = pages_of_replica(
            params, max_batch_size, max_seq_len, num_layers, available_cache_memory
        )
        if not total:
            needed = params.bytes_per_block(num_layers) * params.n_devices
            raise ArgumentError(
                "ML646",
                f"a cache of at least one page expected ≠ {available_cache_memory} bytes given",
                why=[f"a page takes {needed} bytes of all devices together"],
                fix="give the cache more memory, or take a smaller page_size",
            )
        own = params.copy_as_dp_1()
        per_replica = own.n_devices
        replicas = [
            PagedCache(
                own,
                num_layers,
                self.devices[number * per_replica : (number + 1) * per_replica],
                total,
                host_count=host_pages_of_replica(params, num_layers),
                checks=enable_runtime_checks,
                poison=poison_free_pages,
            )
            for number in range(params.data_parallel_degree)
        ]
        super().__init__(replicas)
        self._replica_of: dict[RequestID, int] = {}
        self._advance = Advance(self.devices, self.num_replicas, session)

    # ------------------------------------------------------------ sizes
    @classmethod
    def estimated_memory_size(
        cls,
        params: KVCacheParams,
        max_batch_size: int,
        max_seq_len: int,
        num_layers: int,
        available_cache_memory: int,
        devices: Sequence[Device],
    ) -> int:
        """The bytes that the pages of such a manager take on all devices.

        Args:
            params: The parameters of the cache.
            max_batch_size: The most sequences of a batch of one replica.
            max_seq_len: The most tokens of a sequence.
            num_layers: The number of layers.
            available_cache_memory: The bytes that the pages may take.
            devices: The devices, as many as ``params.n_devices``.

        Raises:
            ArgumentError: ML644, the size of a page; ML648, another number of devices.

        Example:
            >>> from maxlab.driver import CPU
        >>> from maxlab.dtype import DType
            >>> params = KVCacheParams(DType.float32, 8, 64, page_size=128)
            >>> PagedKVCacheManager.estimated_memory_size(params, 1, 1000, 2, 10**9, [CPU()])
            8388608
        """
        check_paged(params)
        if len(devices) != params.n_devices:
            raise ArgumentError(
                "ML648",
                f"estimated_memory_size: n_devices = {params.n_devices} devices expected ≠ "
                f"{len(devices)} given",
                fix=f"pass params with n_devices={len(devices)}, or other devices",
            )
        pages = pages_of_replica(
            params, max_batch_size, max_seq_len, num_layers, available_cache_memory
        )
        return pages * params.bytes_per_block(num_layers) * params.n_devices

    def get_pct_used_blocks_after_allocation(
        self, ctx: TextGenerationContext, num_steps: int = 1
    ) -> float:
        """The part of the pages of a request's replica that `alloc` would leave with users; at
        most 1, which may mean that they are not enough.

        Args:
            ctx: The state of the request.
            num_steps: The number of steps.

        Raises:
            InputError: ML621 (a ValueError), the request was not claimed.
        """
        _steps(num_steps)
        with self._lock:
            blocks = self._cache_of(ctx.request_id).blocks
            used = blocks.pool.count - blocks.pool.free_count + blocks.missing(ctx, num_steps)
            return min(used / blocks.pool.count, 1.0)

    # ------------------------------------------------------------ requests
    def contains(self, request_id: RequestID) -> bool:
        """True while a request is claimed.

        Args:
            request_id: The request.
        """
        return request_id in self._replica_of

    def get_replica(self, request_id: RequestID) -> int:
        """The number of the replica that a request was claimed for.

        Args:
            request_id: The request.

        Raises:
            InputError: ML621 (a ValueError), it was not claimed.
        """
        found = self._replica_of.get(request_id)
        if found is None:
            raise self._replicas[0].blocks.unknown(request_id)
        return found

    def get_or_recommend_replica(self, context: TextGenerationContext) -> int:
        """The number of the request's replica, or of the one with the fewest requests.

        Args:
            context: The state of the request.
        """
        with self._lock:
            found = self._replica_of.get(context.request_id)
            if found is not None:
                return found
            counts = [len(one.blocks.claimed) for one in self._replicas]
            return counts.index(min(counts))

    def get_data_parallel_splits(self, batch: Sequence[TextGenerationContext]) -> Tensor:
        """The places in a batch at which each replica's requests begin, and its end: int64
        [replicas + 1], on the host.

        Args:
            batch: The states of requests, those of the first replica first.

        Raises:
            InputError: ML621, a request was not claimed; ML649, they are in another order (each a
                ValueError).
        """
        replicas = [self.get_replica(one.request_id) for one in batch]
        if replicas != sorted(replicas):
            raise InputError(
                "ML649",
                f"a batch in the order of its replicas expected ≠ {replicas} given",
                fix="batch.sort(key=lambda context: manager.get_replica(context.request_id))",
            )
        starts = np.searchsorted(replicas, np.arange(self.num_replicas + 1)).astype(np.int64)
        return Tensor.from_numpy(starts)

    def claim(self, request_id: RequestID, replica_idx: int | None = None) -> None:
        """Makes a place for a request, which has no pages yet.

        Args:
            request_id: The request.
            replica_idx: The number of the replica that computes it. It may be left out where there
                is one.

        Raises:
            InputError: ML621, it is claimed already; ML981, no such replica (each a ValueError).
            InputTypeError: ML980, a value of another type.
        """
        fields.instance(RequestID)("request_id", request_id)
        if replica_idx is None and self.num_replicas == 1:
            replica_idx = 0
        fields.integer(0, self.num_replicas - 1)("replica_idx", replica_idx)
        assert replica_idx is not None
        with self._lock:
            if request_id in self._replica_of:
                raise InputError(
                    "ML621",
                    f"the request {request_id} is claimed already, for the replica "
                    f"{self._replica_of[request_id]}",
                    fix="release(request_id) when it is over; contains(request_id) asks for it",
                )
            self._replicas[replica_idx].blocks.claim(request_id)
            self._replica_of[request_id] = replica_idx

    external_claim = claim

    def release(self, request_id: RequestID) -> None:
        """Gives the pages of a request back.

        Prefixes that they keep are found until the pages are needed for others.

        Args:
            request_id: The request.

        Raises:
            InputError: ML621 (a ValueError), it was not claimed, or is released already.
        """
        with self._lock:
            self._cache_of(request_id).blocks.release(request_id)
            del self._replica_of[request_id]

    def get_req_blocks(self, request_id: RequestID) -> list[int]:
        """The pages of a request in the order of its tokens, numbered within its replica.

        Args:
            request_id: The request.

        Raises:
            InputError: ML621 (a ValueError), it was not claimed.
        """
        with self._lock:
            return list(self._cache_of(request_id).blocks.of(request_id).pages)

    def _cache_of(self, request_id: RequestID) -> PagedCache:
        return self._replicas[self.get_replica(request_id)]

    # ------------------------------------------------------------ runs
    def maybe_reserve(self, data: TextGenerationContext, num_steps: int = 1) -> bool:
        """Gives a request the pages that steps of the model write to; False where too few are free.

        The caller may then release another request, and try again.

        Args:
            data: The state of the request. Where its next tokens are found in shared pages,
                ``start_idx`` moves behind them; at least one token is left to be computed.
            num_steps: The number of steps.

        Raises:
            InputError: ML621, the request was not claimed; ML981, ``num_steps`` is below 1 (each a
                ValueError).
            InsufficientBlocksError: ML647 (a RuntimeError), all pages would not be enough.
        """
        _steps(num_steps)
        with self._lock:
            return self._cache_of(data.request_id).blocks.reserve(data, num_steps)

    def alloc(self, data: TextGenerationContext, num_steps: int = 1) -> None:
        """Gives a request pages, as `maybe_reserve` does, and raises where too few are free.

        Args:
            data: The state of the request.
            num_steps: The number of steps.

        Raises:
            InputError: As by `maybe_reserve`.
            InsufficientBlocksError: ML620, too few pages are free; ML647, all would not be enough
                (each a RuntimeError).
        """
        with self._lock:
            if self.maybe_reserve(data, num_steps):
                return
            blocks = self._cache_of(data.request_id).blocks
            raise InsufficientBlocksError(
                "ML620",
                f"the request {data.request_id} needs {blocks.missing(data, num_steps)} more "
                f"pages, and {blocks.pool.free_count} of {blocks.pool.count} are free",
                why=[f"{len(blocks.claimed)} requests have pages"],
                fix="release a request, reset() its context, and try again later",
            )

    def get_runtime_inputs(
        self, batch: Sequence[TextGenerationContext], num_steps: int = 1
    ) -> list[RaggedKVCacheInputs]:
        """The inputs of the model for a batch, for each device in the order of the devices.

        Each replica gets the requests that were claimed for it, in the order of the batch.

        Args:
            batch: The states of the requests, whose pages were reserved for so many steps.
            num_steps: The number of steps.

        Raises:
            InputError: ML621, a request was not claimed; ML645, its pages are too few; ML649, more
                than ``max_batch_size`` requests of a replica, or one twice (each a ValueError).
        """
        _steps(num_steps)
        with self._lock:
            parts: list[list[TextGenerationContext]] = [[] for _ in self._replicas]
            for context in batch:
                parts[self.get_replica(context.request_id)].append(context)
            if len({context.request_id for context in batch}) < len(batch):
                raise InputError("ML649", "a request is in the batch twice")
            for number, part in enumerate(parts):
                if len(part) > self.max_batch_size:
                    raise InputError(
                        "ML649",
                        f"at most max_batch_size = {self.max_batch_size} requests of a replica "
                        f"expected ≠ {len(part)} of the replica {number} given",
                    )
            found: list[RaggedKVCacheInputs] = []
            for cache, part in zip(self._replicas, parts, strict=True):
                found += cache.inputs(part, num_steps)
            return found

    fetch = get_runtime_inputs

    def increment_cache_lengths(
        self, kv_cache_inputs: Sequence[RaggedKVCacheInputs], prev_model_inputs: Any
    ) -> list[RaggedKVCacheInputs]:
        """The inputs for the next of several steps: the tokens of the last one are cached now.

        The tables of the manager stay as they are; `step` comes after the last of the steps. On
        accelerators the lengths are added there, without a copy to the host.

        Args:
            kv_cache_inputs: The inputs of the step before, of each device.
            prev_model_inputs: What the model took then, with ``input_row_offsets``, the places in
                the tokens at which each sequence begins, uint32 [batch + 1], or a list of it for
                each device. With several replicas also ``data_parallel_splits``, see
                `get_data_parallel_splits`.

        Raises:
            InputError: ML649 (a ValueError), no step is left, or the offsets are not those of the
                batch.
        """
        return self._advance.after(kv_cache_inputs, prev_model_inputs)

    def step(self, batch: Sequence[TextGenerationContext]) -> None:
        """Keeps the pages of requests that are full by now, so that others find them.

        Args:
            batch: The states of the requests, updated after the model has run.

        Raises:
            InputError: ML621, a request was not claimed; ML645, more tokens were computed than its
                pages hold (each a ValueError).
        """
        with self._lock:
            for context in batch:
                self._cache_of(context.request_id).blocks.commit(context)

    def reset_prefix_cache(self) -> None:
        """Forgets the prefixes that no request uses, on the devices and on the host."""
        with self._lock:
            for cache in self._replicas:
                cache.blocks.forget_prefixes()

    def key_prefixes_by(self, prefix_key: Callable[[TextGenerationContext], str]) -> None:
        """Shares prefixes only among requests of one key; without this call it is the
        ``model_name`` of a request. Prefixes that were found before are forgotten.

        Args:
            prefix_key: What keys and values of a request depend on besides its tokens and images,
                such as the content of an adapter.
        """
        with self._lock:
            for cache in self._replicas:
                cache.blocks.prefix_key = prefix_key
                cache.blocks.forget_prefixes()

    def input_symbols(self) -> list[PagedCacheInputSymbols]:
        """The types of what `get_runtime_inputs` returns, for the inputs of a graph."""
        own = self.params.copy_as_dp_1()
        several = self.num_replicas > 1
        return [
            PagedCacheInputSymbols.of(
                own,
                self.num_layers,
                DeviceRef.from_device(device),
                f"replica_{number // own.n_devices}_" if several else "",
            )
            for number, device in enumerate(self.devices)
        ]

    def check_tables(self) -> None:
        """Raises unless every page is where it is counted.

        Raises:
            ExecutionError: ML643 (a RuntimeError), the tables do not hold together.
        """
        with self._lock:
            for cache in self._replicas:
                cache.blocks.check()


def _steps(num_steps: int) -> None:
    _NUMBER("num_steps", num_steps)


__all__ = ["PagedKVCacheManager"]
