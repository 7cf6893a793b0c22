"""``StepRecorder``: a layer hook that records what attention, experts and adapters do."""

from __future__ import annotations

import json
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from maxlab import files, trace
from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, FileError, shown
from maxlab.graph import TensorValue, ops
from maxlab.nn.attention.cached import CachedAttention
from maxlab.nn.calls import Layer, add_layer_hook, remove_layer_hook, running_path
from maxlab.nn.kernels.attending import mask_of
from maxlab.nn.kv_cache.paged_manager import PagedKVCacheManager
from maxlab.nn.lora import LinearLoRA
from maxlab.nn.moe import MoE
from maxlab.nn.steps.attention import weights_of
from maxlab.nn.steps.packing import packed
from maxlab.nn.steps.pages import SeenPages
from maxlab.nn.steps.recording import HEADER, KIND, StepRecording
from maxlab.opset.builder import current

Array = np.ndarray[Any, Any]
_STATE = "recorded layers"


class StepRecorder:
    """Records, each time a model runs, the attention of its layers by head, the pages that they
    read, the load of experts, and the adapters of the batch.

    Make it before the graph is built: it is a layer hook, which puts operations behind each layer
    that hand its queries, and the keys of all pages of the batch, to the host. Made inside of
    ``with Graph(...):`` it belongs to that graph, otherwise to all graphs until it is removed. What
    is recorded goes through the event stream, as events of the kind ``"layer"``.

    Layers of attention are those over a paged cache of keys and values; latent attention, whose
    keys are not in the cache, is not recorded.

    Args:
        path: A file that each layer's part is appended to at once, so that
            ``StepRecording.from_file`` reads all of it when this process is gone. What was in it
            is replaced. None for no file.
        queries: The most queries of a sequence whose weights are kept, the last ones.
        layers: The paths of the layers that are recorded; all when left out.
        keep: The most steps that are kept in memory, which hold 64 MiB at most.

    Attributes:
        recording: The steps so far.

    Raises:
        ArgumentTypeError: ML475, an argument of another type.
        FileError: ML001 or ML003 (an OSError), ``path`` is no regular file, or cannot be written.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine, nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> layer = nn.moe.MoE([DeviceRef.CPU()], 4, 3, 1, 8, dtype=DType.float32)
        >>> rng = np.random.default_rng(0)
        >>> state = {name: rng.normal(size=w.shape) for name, w in layer.state_dict().items()}
        >>> layer.load_state_dict({name: one.astype(np.float32) for name, one in state.items()})
        >>> recorder = StepRecorder()
        >>> graph = Graph("experts", layer, [TensorType(DType.float32, ["tokens", 4])])
        >>> recorder.remove()
        >>> model = engine.InferenceSession().load(graph, weights_registry=layer.state_dict())
        >>> _ = model(rng.normal(size=(5, 4)).astype(np.float32))
        >>> int(recorder.recording[-1].experts().counts[""].sum())
        5
    """

    def __init__(
        self,
        path: files.AnyPath | None = None,
        *,
        queries: int = 16,
        layers: Collection[str] | None = None,
        keep: int = 256,
    ) -> None:
        for name, value in (("queries", queries), ("keep", keep)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise _unfit(name, "an int of 1 or more", value)
        if layers is not None and (isinstance(layers, str) or not isinstance(layers, Collection)):
            raise _unfit("layers", "a collection of paths", layers)
        self._queries = queries
        self._layers = None if layers is None else frozenset(layers)
        self.recording = StepRecording(keep)
        self._run = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._steps = 0
        self._now: dict[int, tuple[int, set[str]]] = {}
        self._manager: PagedKVCacheManager | None = None
        self._adapters: Callable[[], Mapping[int, str]] = dict
        self._file: BinaryIO | None = None
        self._path = path
        if path is not None:
            self._file = files.open_regular(path, "the recording of steps", "w+b")
            self._file.truncate(0)
            self._write(json.dumps(HEADER).encode())
        trace.recorder().listen(self._heard)
        self._active = True
        add_layer_hook(self)

    def follow(self, manager: PagedKVCacheManager) -> None:
        """Lets pages have the names of requests, and the counters of the cache.

        Args:
            manager: The manager of the pages that the model reads.

        Raises:
            ArgumentTypeError: ML475, it is none.
        """
        if not isinstance(manager, PagedKVCacheManager):
            raise _unfit("manager", "a PagedKVCacheManager", manager)
        self._manager = manager

    def name_adapters(self, names: Callable[[], Mapping[int, str]]) -> None:
        """Lets adapters have names.

        Args:
            names: Called in each step; gives the names of adapters by their slots.

        Raises:
            ArgumentTypeError: ML475, it cannot be called.
        """
        if not callable(names):
            raise _unfit("names", "a function without arguments", names)
        self._adapters = names

    def remove(self) -> None:
        """Removes the hook: graphs that are built from now on are not recorded. Those that were
        built still are."""
        self._active = False
        remove_layer_hook(self)

    def close(self) -> None:
        """Removes the hook, and ends the recording: models that were built with it go on without,
        and the file is complete."""
        self.remove()
        trace.recorder().unlisten(self._heard)
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = None
            self._run = ""

    # ------------------------------------------------------------ building a graph
    def __call__(
        self, layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any
    ) -> None:
        """Adds to the graph that is being built what records a call of ``layer``."""
        graph = current()
        if not self._active or graph is None:
            return
        if not isinstance(layer, (CachedAttention, MoE, LinearLoRA)):
            return
        known: _Graph = graph.state.setdefault(_STATE, {}).setdefault(self, _Graph(id(graph)))
        name = running_path()
        if self._layers is not None and name not in self._layers:
            return
        if isinstance(layer, LinearLoRA):
            known.adapted[name] = None
            self._add_adapters(layer, known)
            return
        what = layer.attended if isinstance(layer, CachedAttention) else layer
        if any(what is one for one in known.kept):  # a subclass that calls super().__call__
            return
        known.kept.append(what)
        known.calls[name] += 1
        name = name if known.calls[name] == 1 else f"{name}@{known.calls[name]}"
        if isinstance(layer, MoE):
            self._add_experts(layer, known, name)
        elif isinstance(layer, CachedAttention):
            self._add_attention(layer, known, name)

    def _watch(
        self,
        values: Mapping[str, TensorValue],
        name: str,
        then: Callable[[dict[str, Array]], object],
    ) -> None:
        """Lets ``then`` be called with the arrays of all ``values``, in each run."""
        parts: dict[int, dict[str, Array]] = {}  # by thread: a model may run on several
        last = list(values)[-1]

        def take(key: str, array: Array) -> None:
            own = parts.setdefault(threading.get_ident(), {})
            own[key] = array
            if key == last:
                then(parts.pop(threading.get_ident()))

        for key, value in values.items():
            ops.watch(value, partial(take, key), f"{name} {key}".strip())

    def _add_adapters(self, layer: LinearLoRA, known: _Graph) -> None:
        info = layer.batch_info
        if info is None or known.has_adapters:  # the batch is the same for all layers
            return
        known.has_adapters = True
        values = {"ids": info.ids, "ranks": info.ranks, "offsets": info.offsets}
        wide = {name: ops.cast(value, DType.int64) for name, value in values.items()}
        self._watch(wide, "adapters", lambda found: self._tell_adapters(known, found))

    def _add_experts(self, layer: MoE, known: _Graph, name: str) -> None:
        values, sizes = {"counts": layer.tokens_per_expert}, {}
        if layer.has_sent:
            manager = layer.ep_batch_manager
            values["sent"] = layer.tokens_sent
            sizes["dispatch_bytes"] = manager.dispatch_bytes
            sizes["combine_bytes"] = manager.combine_bytes
        self._watch(
            values, name, lambda found: self._tell(known, "experts", name, {**found, **sizes})
        )

    def _add_attention(self, layer: CachedAttention, known: _Graph, name: str) -> None:
        attended = layer.attended
        assert attended is not None  # it was called
        layer_idx, q, cache, offsets = attended
        blocks, table = cache.kv_blocks, cache.lookup_table
        batch, most = table.shape
        page, each = blocks.shape[3], most * blocks.shape[3]
        # All places of all pages of the batch; where a sequence has no page, those of the first.
        count = ops.shape_to_tensor(blocks.shape)[0].to(table.device)
        there = ops.cast(table, DType.int64)
        there = ops.where(there < ops.cast(count, DType.int64), there, 0)
        ends = ops.range(0, batch + 1, 1, out_dim=batch + 1, dtype=DType.int64, device=q.device)
        width = ops.cast(ops.shape_to_tensor([each])[0].to(q.device), DType.int64)
        keys = ops.cache_load(
            blocks,
            ops.cast(ends * width, DType.uint32),
            cache.cache_lengths - cache.cache_lengths,
            ops.cast(there, DType.uint32),
            layer_idx.to(table.device),
            part=0,
            rows=batch * each,
        )
        values = {
            "q": ops.cast(q, DType.float32),
            "keys": ops.cast(ops.reshape(keys, [batch, each, *keys.shape[1:]]), DType.float32),
            "offsets": offsets,
            "table": table,
            "count": count,
        }
        if layer.sinks is not None:
            values["sinks"] = ops.cast(layer.sinks.to(layer.device), DType.float32)
        values["lengths"] = cache.cache_lengths
        rule: dict[str, Any] = {
            **mask_of(type(layer).__name__, layer.mask_variant, layer.local_window_size),
            "scale": layer.scale,
        }
        size = int(page)
        self._watch(
            values, name, lambda found: self._tell_attention(known, name, rule, size, found)
        )

    # ------------------------------------------------------------ in a run
    def _tell_attention(
        self, known: _Graph, name: str, rule: dict[str, Any], page: int, found: dict[str, Array]
    ) -> None:
        offsets, lengths = found["offsets"].astype(np.int64), found["lengths"].astype(np.int64)
        new, keys = np.diff(offsets), found["keys"]
        weights, first = weights_of(
            found["q"], keys, offsets, lengths, sinks=found.get("sinks"), most=self._queries, **rule
        )
        bad = set()
        for number, total in enumerate((lengths + new).tolist()):
            are_nan = np.isnan(keys[number, :total]).any(axis=(1, 2))
            places = np.flatnonzero(are_nan).tolist()
            bad |= {int(found["table"][number, place // page]) for place in places}
        self._tell(
            known,
            "attention",
            name,
            {"weights": weights, "first": first, "mask": rule["mask"], "window": rule["window"],
             "poisoned": sorted(bad)},
        )  # fmt: skip
        pages = SeenPages(found["table"], lengths, new, page, int(found["count"]))
        if self._manager is not None:
            self._name(pages, self._manager)
        self._tell(known, "pages", "", pages.data(), once=True)

    @staticmethod
    def _name(pages: SeenPages, manager: PagedKVCacheManager) -> None:
        """Gives ``pages`` what the manager knows."""
        table = manager.page_table()
        named = {row.pages: row.request for row in table.rows}
        for number in range(len(pages.table)):
            own = tuple(int(page) for page in pages.table[number] if page < pages.total)
            names = [name for held, name in named.items() if held[: len(own)] == own]
            if len(names) == 1:
                pages.names[number] = names[0]
        pages.counters = asdict(table.metrics)

    def _tell_adapters(self, known: _Graph, found: dict[str, Array]) -> None:
        names = {str(slot): str(name) for slot, name in self._adapters().items()}
        self._tell(known, "adapters", "", {**found, "names": names, "layers": list(known.adapted)})

    def _tell(
        self, known: _Graph, what: str, layer: str, content: Mapping[str, Any], once: bool = False
    ) -> None:
        """Emits the event of a layer, and appends it to the file."""
        with self._lock:
            if not self._run:
                return
            number, seen = self._now.get(known.key, (-1, set()))
            key = f"{what} {layer}"
            if key in seen and once:
                return
            if number < 0 or key in seen:
                number, seen = self._steps, set()
                self._steps += 1
                self._now[known.key] = (number, seen)
            seen.add(key)
            data = {"what": what, "step": number, "layer": layer, "run": self._run}
            data |= {name: _plain(value) for name, value in content.items()}
            if self._file is not None:
                self._write(json.dumps(data).encode())
        trace.emit(KIND, layer or what, **data)

    def _heard(self, event: trace.Event) -> None:
        """Keeps an event of the stream that is of this recorder."""
        if event.kind == KIND and event.data.get("run") == self._run:
            self.recording.add(event.data, _size(event.data))

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        try:
            self._file.write(line + b"\n")
            self._file.flush()
        except OSError as error:
            raise FileError(
                "ML003",
                f"the recording of steps {str(self._path)!r} cannot be written: {error}",
                fix="make room, or record without a path",
            ) from error


class _Graph:
    """The parts of one graph that are recorded."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.calls: Counter[str] = Counter()
        self.kept: list[Any] = []
        self.has_adapters = False
        self.adapted: dict[str, None] = {}  # in order, each once: a call of super() is one too


def _plain(value: Any) -> Any:
    """A value as one of JSON."""
    if isinstance(value, np.ndarray):
        return packed(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


def _size(data: Any) -> int:
    """About how many bytes values of JSON hold."""
    if isinstance(data, dict):
        return 64 + sum(_size(one) for one in data.values())
    if isinstance(data, list):
        return 64 + sum(_size(one) for one in data)
    return len(data) if isinstance(data, str) else 32


def _unfit(name: str, wanted: str, value: object) -> ArgumentTypeError:
    return ArgumentTypeError(
        "ML475", f"StepRecorder: {name} must be {wanted}, got {shown(value)}", fix=f"pass {wanted}"
    )


__all__ = ["StepRecorder"]
