"""The part of the registry of architectures that configurations ask. It is made above them.

The registry hands itself over with `use_registry` when it is imported. An architecture can be
registered only after that, so a configuration that finds no registry has no architecture either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from maxlab.pipelines.lib.custom_modules import module_of, refused

if TYPE_CHECKING:
    from maxlab.graph.weights import WeightsFormat
    from maxlab.nn.kv_cache import KVCacheStrategy
    from maxlab.pipelines.lib.config_enums import RopeType, SupportedEncoding
    from maxlab.pipelines.lib.hf_utils import HuggingFaceRepo


class Architecture(Protocol):
    """The parts of an architecture that a configuration is resolved by."""

    @property
    def name(self) -> str:
        """The name of the class of Hugging Face's models."""

    @property
    def default_encoding(self) -> SupportedEncoding:
        """The encoding that is taken where nobody asks for one."""

    @property
    def supported_encodings(self) -> Mapping[SupportedEncoding, Sequence[KVCacheStrategy]]:
        """The encodings that it can run, and the layouts of the cache that go with each."""

    @property
    def pipeline_model(self) -> Any:
        """The class of its models."""

    @property
    def task(self) -> Any:
        """The task of its pipelines."""

    @property
    def default_weights_format(self) -> WeightsFormat:
        """The format of weight files that is taken first."""

    @property
    def rope_type(self) -> RopeType:
        """How its rotary embeddings pair numbers."""

    @property
    def multi_gpu_supported(self) -> bool:
        """Whether it runs on several GPUs."""

    @property
    def required_arguments(self) -> Mapping[str, Any]:
        """Settings that it needs, with their values."""

    @property
    def supports_empty_batches(self) -> bool:
        """Whether a batch may be empty."""


class Registry(Protocol):
    """The registry, as a configuration uses it."""

    def retrieve_architecture(self, huggingface_repo: HuggingFaceRepo) -> Architecture | None:
        """The architecture of a model; None where none is registered."""

    def get_active_huggingface_config(self, huggingface_repo: HuggingFaceRepo) -> Any:
        """The configuration of Hugging Face of a model."""

    def register_custom(self, specs: Iterable[str]) -> None:
        """Adds the architectures of modules."""


_registry: Registry | None = None


def use_registry(registry: Registry | None) -> None:
    """Sets the registry that configurations ask from now on."""
    global _registry
    _registry = registry


def registry() -> Registry | None:
    """The registry that configurations ask; None where none was imported."""
    return _registry


def import_custom(specs: Sequence[str]) -> None:
    """Imports modules of architectures and registers what they expose.

    Args:
        specs: A module's name each, or ``folder/path:module``. Each module has a list
            ``ARCHITECTURES``. They run as any code that is imported.

    Raises:
        InputError: ML133, a module that cannot be imported, or that exposes no such list; ML171,
            another architecture of a name is registered.
    """
    for spec in specs:
        module_of(spec)  # brings the registry along, if it has an architecture
        if _registry is None:
            raise refused(
                spec,
                "exposes no list ARCHITECTURES of SupportedArchitecture",
                "import SupportedArchitecture from maxlab.pipelines.lib.registry",
            )
        _registry.register_custom([spec])


__all__ = ["Architecture", "Registry", "import_custom", "registry", "use_registry"]
