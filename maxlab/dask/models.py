"""The model that a cluster is asked for, and whether a worker has the same one."""

from __future__ import annotations

import pickle
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxlab import config, files
from maxlab.digests import blake2b
from maxlab.errors import ExecutionError
from maxlab.interfaces import fields

if TYPE_CHECKING:
    from maxlab.entrypoints.llm import LLM
    from maxlab.pipelines.lib.config import PipelineConfig

_KINDS = {".json", ".safetensors", ".gguf", ".jinja", ".model", ".txt"}
"""The endings of files that a model is read from."""
_WHOLE = 1 << 22
"""Files up to this size are compared byte by byte; larger ones, which have weights, by size."""


@dataclass(frozen=True)
class WantedModel:
    """A model as the client asks for it.

    Attributes:
        path: Its folder, or the id of its repository.
        pickled: The whole configuration, where the client made it.
        settings: The settings that workers make one with, where it did not.
        files: The files of the folder, see `files_of`; None where the client has no such folder.
        version: The version of maxlab of the client.
        host: The machine of the client.
    """

    path: str
    pickled: bytes | None
    settings: tuple[tuple[str, Any], ...]
    files: dict[str, str] | None
    version: str
    host: str

    @classmethod
    def of(cls, model: Any, settings: dict[str, Any]) -> WantedModel:
        """The model of a configuration, or of a path and settings.

        Args:
            model: A `PipelineConfig`, or a path.
            settings: Settings of `PipelineConfig`, beside a path.

        Raises:
            InputTypeError: ML980, ``model`` is neither.
            InputError: ML982, settings beside a whole configuration.
        """
        from maxlab.pipelines.lib.config import PipelineConfig

        if isinstance(model, PipelineConfig):
            if settings:
                raise fields.contradiction(
                    f"a PipelineConfig and the settings {', '.join(settings)}",
                    "put them into the PipelineConfig, or pass the path of the model",
                )
            path, pickled = str(model.model_config.model_path), pickle.dumps(model)
        else:
            fields.instance(PipelineConfig, str, Path)("model", model)
            path, pickled = str(model), None
        named = tuple(sorted(settings.items()))
        return cls(path, pickled, named, files_of(path), config.VERSION, socket.gethostname())

    @property
    def key(self) -> str:
        """Tells this model from others."""
        told = self.pickled or pickle.dumps((self.path, self.settings))
        return blake2b(told, digest_size=16).hexdigest()

    def config(self, where: str) -> PipelineConfig:
        """The configuration, as this machine can load it.

        Args:
            where: The worker.

        Raises:
            ExecutionError: ML871 (a RuntimeError), this machine has another version of maxlab, or
                other files of the model.
            MaxlabError: There is no such model, or a setting is wrong.
        """
        from maxlab.pipelines.architectures import register_all_models
        from maxlab.pipelines.lib.config import PipelineConfig

        self.require_same(where)
        register_all_models()
        if self.pickled is not None:
            made: PipelineConfig = pickle.loads(self.pickled)
            return made
        return PipelineConfig(model_path=self.path, **dict(self.settings))

    def load(self, config: PipelineConfig) -> LLM:
        """The model, loaded now.

        Args:
            config: Its configuration.

        Raises:
            MaxlabError: It cannot be loaded.
        """
        from maxlab.entrypoints.llm import LLM

        return LLM(config)

    def require_same(self, where: str) -> None:
        """Raises unless this machine has the maxlab and the files of the client.

        Args:
            where: The worker.

        Raises:
            ExecutionError: ML871 (a RuntimeError), it has not.
        """
        if self.version != config.VERSION:
            raise ExecutionError(
                "ML871",
                f"maxlab {self.version} of the client expected ≠ maxlab {config.VERSION} of "
                f"the worker {where}",
                fix="install one version on all machines",
            )
        if self.files is None:
            return
        found = files_of(self.path)
        if found is None:
            raise ExecutionError(
                "ML871",
                f"the folder {self.path} of the client ({self.host}) is not there for the worker "
                f"{where} ({socket.gethostname()})",
                fix="put the model at one path of all machines, such as a shared folder",
            )
        wrong = sorted(
            name for name in {*self.files, *found} if self.files.get(name) != found.get(name)
        )
        if wrong:
            raise ExecutionError(
                "ML871",
                f"the folder {self.path} of the worker {where} has other files than that of the "
                f"client ({self.host})",
                why=[f"{one} differs" for one in wrong[:3]],
                fix="copy the model to all machines again",
            )


def files_of(path: str) -> dict[str, str] | None:
    """The files that a model is read from: for each name, its size and the digest of a small one.
    None for what is no folder.

    Args:
        path: The folder.
    """
    folder = Path(path)
    if not folder.is_dir():
        return None
    found = {}
    for one in sorted(folder.iterdir()):
        if one.suffix in _KINDS and one.is_file():
            size = one.stat().st_size
            content = files.read_bytes(one) if size <= _WHOLE else b""
            digest = blake2b(content, digest_size=8).hexdigest() if content else ""
            found[one.name] = f"{size} {digest}"
    return found


__all__ = ["WantedModel", "files_of"]
