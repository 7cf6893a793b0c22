"""The parameters of a cache of keys and values, and the sizes of its blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, shown


class KVCacheStrategy(StrEnum):
    """The ways to lay out a cache of keys and values in memory."""

    MODEL_DEFAULT = "model_default"
    """The way that the model's architecture names."""
    PAGED = "paged"
    """Pages of a fixed number of tokens, which sequences take and give back."""

    def kernel_substring(self) -> str:
        """The part of a kernel's name that stands for this strategy.

        Example:
            >>> KVCacheStrategy.PAGED.kernel_substring()
            'paged'
        """
        return self.value

    def uses_opaque(self) -> bool:
        """True: kernels take the cache as one object and find keys and values in it themselves."""
        return True


@dataclass
class KVCacheParams:
    """The parameters of a cache of keys and values.

    With tensor parallelism, the default for several devices, the heads are divided among the
    devices. With data parallelism each device holds all heads of its own sequences. The latent
    vectors of multi-latent attention are never divided.

    Args:
        dtype: The dtype of keys and values.
        n_kv_heads: The number of heads of keys and values, of all devices.
        head_dim: The size of a head.
        enable_prefix_caching: Whether sequences that begin alike share pages.
        enable_kvcache_swapping_to_host: Whether pages move to the host when a device is full.
        host_kvcache_swap_space_gb: The memory on the host for such pages, in GB.
        cache_strategy: How the cache is laid out.
        page_size: The number of tokens of a page. The manager of a cache takes multiples of 128;
            kernels take any size.
        n_devices: The number of devices.
        is_mla: Whether the model has multi-latent attention, whose cache holds one latent vector
            for key and value together.
        data_parallel_degree: 1, or ``n_devices`` for data parallelism.
        n_kv_heads_per_device: The number of heads on one device. It is computed; what is given for
            it is not read.

    Raises:
        ArgumentError: ML165, a number is out of its range; ML166, two parameters cannot both hold
            (each a ValueError).
        ArgumentTypeError: ML167, a value of another type (a TypeError).

    Example:
        >>> params = KVCacheParams(DType.bfloat16, n_kv_heads=8, head_dim=128, page_size=128,
        ...                        n_devices=2)
        >>> params.n_kv_heads_per_device
        4
        >>> params.shape_per_block(num_layers=32)
        (2, 32, 128, 4, 128)
        >>> params.bytes_per_token(num_layers=32)
        65536
    """

    dtype: DType
    n_kv_heads: int
    head_dim: int
    enable_prefix_caching: bool = False
    enable_kvcache_swapping_to_host: bool = False
    host_kvcache_swap_space_gb: float | None = None
    cache_strategy: KVCacheStrategy = KVCacheStrategy.PAGED
    page_size: int | None = None
    n_devices: int = 1
    is_mla: bool = False
    data_parallel_degree: int = 1
    n_kv_heads_per_device: int = 0

    def __post_init__(self) -> None:
        self._check_types()
        for name in ("n_kv_heads", "head_dim", "n_devices", "data_parallel_degree"):
            _count(name, getattr(self, name))
        if self.page_size is not None:
            _count("page_size", self.page_size)
        elif self.cache_strategy is KVCacheStrategy.PAGED:
            raise _out_of_range("page_size", "a number of tokens", None, "pass page_size=128")
        space = self.host_kvcache_swap_space_gb
        if space is not None and not 0 < space < math.inf:
            raise _out_of_range(
                "host_kvcache_swap_space_gb",
                "a finite number above 0",
                space,
                "pass the GB of memory on the host, or None without swapping",
            )
        self.n_kv_heads_per_device = self._heads_per_device()
        self._check_features()

    def _check_types(self) -> None:
        """Raises for a value of another type; makes a strategy of its value."""
        try:
            self.cache_strategy = KVCacheStrategy(self.cache_strategy)
        except ValueError:
            known = " or ".join(repr(one.value) for one in KVCacheStrategy)
            raise _wrong_type("cache_strategy", known, self.cache_strategy) from None
        if not isinstance(self.dtype, DType):
            raise _wrong_type("dtype", "a DType", self.dtype)
        for name in ("enable_prefix_caching", "enable_kvcache_swapping_to_host", "is_mla"):
            if not isinstance(getattr(self, name), bool):
                raise _wrong_type(name, "True or False", getattr(self, name))
        space = self.host_kvcache_swap_space_gb
        if isinstance(space, bool) or not isinstance(space, (int, float, type(None))):
            raise _wrong_type("host_kvcache_swap_space_gb", "a number or None", space)

    def _heads_per_device(self) -> int:
        """The number of heads on one device; raises where it is none."""
        devices, degree = self.n_devices, self.data_parallel_degree
        if degree > 1:
            if degree != devices:
                raise ArgumentError(
                    "ML166",
                    f"KVCacheParams: data_parallel_degree 1 or n_devices = {devices} expected ≠ "
                    f"{degree} given",
                    why=["data and tensor parallelism cannot be combined in this version"],
                    fix=f"data_parallel_degree={devices}, or 1 to divide the heads",
                )
            return self.n_kv_heads
        if self.is_mla:
            return self.n_kv_heads
        if self.n_kv_heads % devices:
            raise ArgumentError(
                "ML166",
                f"KVCacheParams: {self.n_kv_heads} heads cannot be divided among {devices} devices",
                fix="take a number of devices that divides n_kv_heads, or data_parallel_degree="
                f"{devices}",
            )
        return self.n_kv_heads // devices

    def _check_features(self) -> None:
        """Raises when a feature lacks what it needs."""
        paged = self.cache_strategy is KVCacheStrategy.PAGED
        swaps = self.enable_kvcache_swapping_to_host
        needs = (
            (self.enable_prefix_caching, "enable_prefix_caching", paged, "cache_strategy='paged'"),
            (swaps, "enable_kvcache_swapping_to_host", paged, "cache_strategy='paged'"),
            (
                swaps,
                "enable_kvcache_swapping_to_host",
                self.enable_prefix_caching,
                "enable_prefix_caching=True",
            ),
            (
                swaps,
                "enable_kvcache_swapping_to_host",
                self.host_kvcache_swap_space_gb is not None,
                "host_kvcache_swap_space_gb",
            ),
        )
        for asked, feature, met, need in needs:
            if asked and not met:
                raise ArgumentError(
                    "ML166",
                    f"KVCacheParams: {feature} needs {need}",
                    fix=f"pass {need} too, or leave {feature} at False",
                )

    @property
    def dtype_shorthand(self) -> str:
        """``"bf16"`` for bfloat16, and ``"f32"`` for every other dtype, as kernels are named."""
        return "bf16" if self.dtype is DType.bfloat16 else "f32"

    @property
    def static_cache_shape(self) -> tuple[str, str, str, str, str]:
        """The names of the dims of a cache that is one tensor."""
        return ("num_layers", "batch_size", "seq_len", "n_kv_heads", "head_dim")

    def copy_as_dp_1(self) -> KVCacheParams:
        """A copy for the devices of one data-parallel group: ``data_parallel_degree`` is 1.

        Raises:
            ArgumentError: ML166, ``n_devices`` is no multiple of ``data_parallel_degree``.
        """
        if self.n_devices % self.data_parallel_degree:
            raise ArgumentError(
                "ML166",
                f"KVCacheParams: {self.n_devices} devices cannot be divided into "
                f"{self.data_parallel_degree} groups",
                fix="take a multiple of data_parallel_degree as n_devices",
            )
        devices = self.n_devices // self.data_parallel_degree
        return replace(self, n_devices=devices, data_parallel_degree=1)

    def shape_per_block(self, num_layers: int) -> tuple[int, int, int, int, int]:
        """The shape of a page on one device.

        It is [2 for keys and values, or 1 for latent vectors; layers; tokens; heads; head's size].

        Args:
            num_layers: The number of layers of the model.

        Raises:
            ArgumentError: ML165, ``num_layers`` is below 1, or there are no pages.
            ArgumentTypeError: ML167, ``num_layers`` is no int.
        """
        _count("num_layers", num_layers)
        if self.page_size is None:
            raise _out_of_range("page_size", "a number of tokens", None, "pass page_size=128")
        return (
            1 if self.is_mla else 2,
            num_layers,
            self.page_size,
            self.n_kv_heads_per_device,
            self.head_dim,
        )

    def bytes_per_block(self, num_layers: int) -> int:
        """The bytes of a page on one device.

        Args:
            num_layers: The number of layers of the model.

        Raises:
            ArgumentError, ArgumentTypeError: As by `shape_per_block`.
        """
        return math.prod(self.shape_per_block(num_layers)) * self.dtype.size_in_bytes

    def bytes_per_token(self, num_layers: int) -> int:
        """The bytes that a token takes in the cache of one device.

        Args:
            num_layers: The number of layers of the model.

        Raises:
            ArgumentError, ArgumentTypeError: ML165, ML167, ``num_layers`` is no int of 1 or more.
        """
        _count("num_layers", num_layers)
        parts = 1 if self.is_mla else 2
        size = parts * num_layers * self.n_kv_heads_per_device * self.head_dim
        return size * self.dtype.size_in_bytes


def _wrong_type(name: str, expected: str, given: object) -> ArgumentTypeError:
    return ArgumentTypeError(
        "ML167",
        f"KVCacheParams.{name}: {expected} expected ≠ {shown(given)} ({type(given).__name__}) "
        "given",
    )


def _out_of_range(name: str, expected: str, given: object, fix: str) -> ArgumentError:
    return ArgumentError(
        "ML165", f"KVCacheParams.{name}: {expected} expected ≠ {shown(given)} given", fix=fix
    )


def _count(name: str, value: object) -> None:
    """Raises unless ``value`` is an int of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(name, "an int of 1 or more", value)
    if value < 1:
        raise _out_of_range(name, "an int of 1 or more", value, "pass 1 or more")


__all__ = ["KVCacheParams", "KVCacheStrategy"]
