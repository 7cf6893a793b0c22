"""The memory that a pipeline takes of its devices, and the batches and lengths that fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from maxlab.driver import Accelerator, Device
from maxlab.engine.times import plural, size_text
from maxlab.errors import InputError, shown
from maxlab.interfaces import fields
from maxlab.nn.kv_cache.sizes import pages_of
from maxlab.pipelines.lib import memory_showing
from maxlab.tabular import Field, Tabular, aligned

GPU_GIGABYTES = {
    "T4": 16,
    "L4": 24,
    "L40S": 48,
    "A10": 24,
    "A40": 48,
    "A100-40GB": 40,
    "A100-80GB": 80,
    "H100": 80,
    "H100-NVL": 94,
    "H200": 141,
    "B200": 180,
    "RTX-3090": 24,
    "RTX-4090": 24,
    "RTX-5090": 32,
    "RTX-A6000": 48,
    "MI210": 64,
    "MI250X": 128,
    "MI300X": 192,
    "MI325X": 256,
    "MI355X": 288,
}
"""Memory of GPUs in GB of 10**9 bytes, as the vendors' data sheets say."""
MOST_BATCH = 512
"""The largest batch that is chosen where nobody asks for one."""
_BATCHES = (1, 8, 64)
_LENGTHS = (512, 2048, 8192, 32768, 131072)


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def gpu_memory(name: str) -> tuple[str, int]:
    """The name and the bytes of GPUs, by a name such as ``"H100"`` or ``"2x A100-80GB"``.

    Raises:
        InputTypeError: ML980, it is no string.
        InputError: ML137 (a ValueError), no GPU of this name is known.

    Example:
        >>> gpu_memory("h100"), gpu_memory("2x L4")
        (('H100', 80000000000), ('2x L4', 48000000000))
    """
    fields.text("on", name)
    known = {_key(one): one for one in GPU_GIGABYTES}
    found = re.fullmatch(r"(?:(\d{1,3})\s*x\s*)?(.+)", name.strip(), re.IGNORECASE | re.DOTALL)
    count = int(found[1] or 1) if found is not None else 0
    key = _key(found[2]).removeprefix("nvidia").removeprefix("amd") if found is not None else ""
    if key not in known or count < 1:
        near = get_close_matches(key[:50], list(known), 3, 0.4)
        hint = " or ".join(known[one] for one in near) or ", ".join(GPU_GIGABYTES)
        raise InputError("ML137", f"no GPU is known by the name {shown(name)}", fix=f"try {hint}")
    told = known[key] if count == 1 else f"{count}x {known[key]}"
    return told, count * GPU_GIGABYTES[known[key]] * 10**9


def free_memory(devices: Iterable[Device]) -> int:
    """The bytes that are free now on all of ``devices`` together; CPUs share those of the host."""
    free = {
        one if isinstance(one, Accelerator) else None: int(one.stats["free_memory"])
        for one in devices
    }
    return sum(free.values())


@dataclass(frozen=True)
class MemoryEstimate(Tabular):
    """The memory that a pipeline takes, in bytes, for a batch of sequences of one length.

    Weights are those of the files. The cache holds whole pages. Activations are those of a step
    that reads prompts, with every value of the widest layer alive at once.

    Attributes:
        device: The name of the devices.
        free: Bytes of them that are free.
        budget: Bytes of those that the pipeline may take.
        weights: Bytes of the weights, and of the slots for adapters (LoRA).
        fixed_activations: Bytes of activations that do not depend on the batch.
        per_active_token: Bytes of activations of each token of a step.
        per_sequence: Bytes of each sequence's logits.
        active_tokens: The most tokens that a step computes; None for all of the batch.
        per_token: Bytes that the cache holds of each token.
        page: Tokens of a page of the cache.
        batch: Sequences of the batch.
        length: Tokens of each.
        most_length: The most tokens that the model takes of a sequence; None if it does not say.

    Example:
        >>> small = MemoryEstimate("H100", 80 * 10**9, 72 * 10**9, 16 * 10**9, 0, 2**18, 2**19,
        ...                        8192, 2**17, 128, batch=8, length=4096, most_length=131072)
        >>> small.cache, small.fits, small.largest_batch(4096), small.longest_length(8)
        (4294967296, True, 100, 51328)
    """

    device: str
    free: int
    budget: int
    weights: int
    fixed_activations: int
    per_active_token: int
    per_sequence: int
    active_tokens: int | None
    per_token: int
    page: int
    batch: int
    length: int
    most_length: int | None

    def cache_of(self, batch: int, length: int) -> int:
        """Bytes of the cache for ``batch`` sequences of ``length`` tokens, in whole pages."""
        return batch * pages_of(length, self.page) * self.page * self.per_token

    def activations_of(self, batch: int, length: int) -> int:
        """Bytes of the activations for ``batch`` sequences of ``length`` tokens."""
        tokens = batch * length
        if self.active_tokens is not None:
            tokens = min(tokens, self.active_tokens)
        return self.fixed_activations + tokens * self.per_active_token + batch * self.per_sequence

    def needed_for(self, batch: int, length: int) -> int:
        """Bytes of all for ``batch`` sequences of ``length`` tokens."""
        return self.weights + self.activations_of(batch, length) + self.cache_of(batch, length)

    @property
    def cache(self) -> int:
        """Bytes of the cache of keys and values."""
        return self.cache_of(self.batch, self.length)

    @property
    def activations(self) -> int:
        """Bytes of the activations."""
        return self.activations_of(self.batch, self.length)

    @property
    def needed(self) -> int:
        """Bytes of all."""
        return self.needed_for(self.batch, self.length)

    @property
    def fits(self) -> bool:
        """True if the budget is enough."""
        return self.needed <= self.budget

    @property
    def cache_budget(self) -> int:
        """Bytes that weights and activations leave to the cache; 0 or more."""
        return max(self.budget - self.weights - self.activations, 0)

    def largest_batch(self, length: int, most: int = fields.INT32) -> int:
        """The most sequences of ``length`` tokens that fit, up to ``most``; 0 where none does."""
        return _largest(lambda batch: self.needed_for(batch, length) <= self.budget, most)

    def longest_length(self, batch: int) -> int:
        """The most tokens of each of ``batch`` sequences that fit, and that the model takes; 0
        where not one does."""
        most = self.most_length or fields.INT32
        return _largest(lambda length: self.needed_for(batch, length) <= self.budget, most)

    # ------------------------------------------------------------ showing
    def parts(self) -> list[tuple[str, int]]:
        """The names and the bytes of what is taken, and of what is left of the budget."""
        left = max(self.budget - self.needed, 0)
        return [
            ("weights", self.weights),
            ("activations", self.activations),
            ("cache", self.cache),
            ("left", left),
        ]

    def _heads(self) -> Sequence[str]:
        return ("part", "memory [B]", "share of the budget")

    def _records(self) -> Iterable[Sequence[Field]]:
        for name, nbytes in self.parts():
            yield (name, nbytes, nbytes / self.budget if self.budget else None)

    def lengths(self) -> list[int]:
        """Lengths for which a table tells the largest batch."""
        most = self.most_length
        found = {one for one in _LENGTHS if most is None or one < most}
        return sorted(found | {self.length} | ({most} if most is not None else set()))

    def batches(self) -> list[int]:
        """Batches for which a table tells the longest length."""
        return sorted({*_BATCHES, self.batch})

    def title(self) -> str:
        """The devices, the budget, and whether it is enough."""
        told = f"{size_text(self.needed)} of {size_text(self.budget)}"
        verdict = "fits" if self.fits else f"{size_text(self.needed - self.budget)} too much"
        return f"Memory on {self.device}: {told}, {verdict}"

    def __str__(self) -> str:
        rows = [("part", "memory", "share")]
        for name, nbytes, share in self._records():
            told = "" if share is None else f"{float(share):.1%}"
            rows.append((str(name), size_text(int(nbytes or 0)), told))
        fits = [("tokens each", "largest batch")]
        fits += [(str(one), str(self.largest_batch(one))) for one in self.lengths()]
        longest = [("sequences", "most tokens each")]
        longest += [(str(one), str(self.longest_length(one))) for one in self.batches()]
        return "\n".join(
            [
                self.title(),
                f"{plural(self.batch, 'sequence')} of {plural(self.length, 'token')}",
                *aligned(rows, right=(1, 2)),
                *aligned(fits, right=(0, 1)),
                *aligned(longest, right=(0, 1)),
            ]
        )

    def _repr_html_(self) -> str:
        """A bar of what is taken, and tables of it and of what would fit."""
        return memory_showing.page(
            self.title(),
            f"{plural(self.batch, 'sequence')} of {plural(self.length, 'token')}",
            [(name, nbytes, size_text(nbytes)) for name, nbytes in self.parts()],
            self.budget,
            size_text(self.budget),
            [(one, self.largest_batch(one)) for one in self.lengths()],
            [(one, self.longest_length(one)) for one in self.batches()],
        )


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest number up to ``most`` that fits, where all smaller ones fit too."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


__all__ = [
    "GPU_GIGABYTES",
    "MOST_BATCH",
    "MemoryEstimate",
    "free_memory",
    "gpu_memory",
]
