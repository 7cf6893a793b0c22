"""Small caches, and sequences whose keys and values say of which token they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.driver import CPU
from maxlab.dtype import DType
from maxlab.interfaces import RequestID
from maxlab.nn.kv_cache import KVCacheParams, PagedKVCacheManager
from maxlab.nn.kv_cache.paged_cache import PagedCache
from maxlab.pipelines.core import TextContext

PAGE = 4
LAYERS = 2
HEADS = 2
DIM = 3


def params(**changed: Any) -> KVCacheParams:
    """The parameters of a small cache."""
    given: dict[str, Any] = {
        "dtype": DType.float32,
        "n_kv_heads": HEADS,
        "head_dim": DIM,
        "page_size": PAGE,
        "enable_prefix_caching": True,
    }
    return KVCacheParams(**{**given, **changed})


def cache(count: int, host_count: int = 0, **changed: Any) -> PagedCache:
    """A cache of small pages that checks its tables after every change, its free pages poisoned."""
    return PagedCache(
        params(**changed), LAYERS, [CPU()], count, host_count=host_count, checks=True, poison=True
    )


def manager(count: int | None = None, **changed: Any) -> PagedKVCacheManager:
    """A manager of one head of one number, with ``count`` pages of 128 tokens a replica."""
    own = params(**{"page_size": 128, "head_dim": 1, "n_kv_heads": 1, **changed})
    page = own.bytes_per_block(1) * own.n_devices
    return PagedKVCacheManager(
        own,
        max_batch_size=8,
        max_seq_len=1024,
        num_layers=1,
        devices=[CPU() for _ in range(own.n_devices)],
        available_cache_memory=None if count is None else count * page,
        enable_runtime_checks=True,
    )


def context(tokens: Sequence[int] | np.ndarray[Any, Any], **more: Any) -> TextContext:
    """The state of a request with these tokens."""
    return TextContext(max_length=8192, tokens=np.array(tokens, np.int64), **more)


def begin(one: PagedCache, tokens: Sequence[int], **more: Any) -> TextContext:
    """A claimed request with pages for its prompt."""
    made = context(tokens, **more)
    one.blocks.claim(made.request_id)
    assert one.blocks.reserve(made, 1)
    return made


def expected(made: TextContext) -> np.ndarray[Any, Any]:
    """The keys and values of a sequence, [tokens, 2, layers, heads, dim]: each depends on the
    adapter, on its token and on all before it, as in a model."""
    tokens = made.all_tokens
    hashed = np.zeros(len(tokens))
    state = 1 + len(made.model_name)
    for place, token in enumerate(tokens.tolist()):
        state = (state * 31 + token + 7) % 65521
        hashed[place] = state
    parts = np.arange(2 * LAYERS * HEADS * DIM).reshape(2, LAYERS, HEADS, DIM) / 64
    return (hashed[:, None, None, None, None] + parts).astype(np.float32)


def write(one: PagedCache, made: TextContext) -> None:
    """Writes the keys and values of the next tokens by the table, as a kernel does."""
    (inputs,) = one.inputs([made], 1)
    blocks = inputs.blocks.to_numpy()
    table, length = inputs.lookup_table.to_numpy()[0], int(inputs.cache_lengths.to_numpy()[0])
    values = expected(made)
    for place in range(length, made.active_idx):
        blocks[table[place // PAGE], :, :, place % PAGE] = values[place]


def read(one: PagedCache, made: TextContext) -> np.ndarray[Any, Any]:
    """The keys and values of the computed tokens, [tokens, 2, layers, heads, dim]."""
    pages = one.blocks.of(made.request_id).pages
    blocks = one.memory.blocks[0].to_numpy()
    places = [blocks[pages[at // PAGE], :, :, at % PAGE] for at in range(made.start_idx)]
    return np.array(places, np.float32).reshape(-1, 2, LAYERS, HEADS, DIM)


def run(one: PagedCache, made: TextContext, token: int) -> None:
    """A step of the model: reserves, writes, adds a token, and keeps full pages."""
    assert one.blocks.reserve(made, 1)
    write(one, made)
    made.update(token)
    one.blocks.commit(made)


def name(number: int) -> RequestID:
    """The id of a request."""
    return RequestID(f"r{number}")
