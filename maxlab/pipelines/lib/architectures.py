"""What configurations ask of the registry of architectures, which is made above them.

The registry hands itself over with `use_registry` when it is imported. An architecture can be
registered only after that, so a configuration that finds no registry has no architecture either.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from maxlab.errors import InputError, shown

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
        """What its pipelines do."""

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

    def register(self, architecture: Any, *, allow_override: bool = False) -> None:
        """Adds an architecture."""


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
        InputError: ML133, a module that cannot be imported, or that exposes no such list.
    """
    for spec in specs:
        module = _imported(spec)
        found = getattr(module, "ARCHITECTURES", None)
        if not isinstance(found, list) or not found:
            raise InputError(
                "ML133",
                f"the module {shown(spec)} exposes no list ARCHITECTURES, got {shown(found)}",
                fix="write ARCHITECTURES = [SupportedArchitecture(...)] in it",
            )
        if _registry is None:
            raise InputError(
                "ML133",
                f"the list ARCHITECTURES of {shown(spec)} holds no SupportedArchitecture",
                fix="import it from maxlab.pipelines.lib.registry",
            )
        for architecture in found:
            _registry.register(architecture, allow_override=True)


def _imported(spec: str) -> ModuleType:
    """The module that ``spec`` names. A module of a folder is imported by its file, and found by
    its name afterwards; ``sys.path`` stays as it is."""
    folder, colon, name = spec.rpartition(":")
    if not name or ":" in folder or (colon and not folder):
        raise InputError(
            "ML133",
            f"{shown(spec)} names no module",
            fix="write my_module, or folder/path:my_module",
        )
    try:
        return (
            _of_folder(Path(folder).expanduser(), name) if colon else importlib.import_module(name)
        )
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            "ML133",
            f"the module {shown(spec)} of architectures cannot be imported",
            why=[f"{type(error).__name__}: {error}"],
            fix="write my_module, or folder/path:my_module, and see that Python imports it",
        ) from error


def _of_folder(folder: Path, name: str) -> ModuleType:
    places = [folder / name / "__init__.py", folder / f"{name}.py"]
    place = next((one for one in places if one.is_file()), None)
    if place is None or not name.isidentifier():
        raise ImportError(f"neither {places[0]} nor {places[1].name} is there")
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(place.resolve()):
        return known
    inner = [str(place.parent)] if place.name == "__init__.py" else None
    found = importlib.util.spec_from_file_location(
        name, place.resolve(), submodule_search_locations=inner
    )
    if found is None or found.loader is None:
        raise ImportError(f"{place} is no module")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


__all__ = ["Architecture", "Registry", "import_custom", "registry", "use_registry"]
