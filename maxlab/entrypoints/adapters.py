"""The adapters (LoRA) of a model in a process of its own: which there are, loaded and unloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxlab.errors import InputError, shown
from maxlab.interfaces import LoRAOperation, LoRARequest, fields
from maxlab.pipelines.lib.lora_names import NoAdapterError, base_names, name_and_path

if TYPE_CHECKING:
    from maxlab.entrypoints.worker import Worker
    from maxlab.pipelines.lib.config import PipelineConfig


class Adapters:
    """The adapters of a model that another process runs.

    Any thread may load and unload them, while texts are written. The process does one after the
    other, and tells of them in this order, so that the names here are those that it has.

    Args:
        config: The configuration of the pipeline.
        worker: The process.
    """

    def __init__(self, config: PipelineConfig, worker: Worker) -> None:
        lora, model = config.lora_config, config.model_config
        self._worker = worker
        self._is_on = lora is not None
        self._names = [] if lora is None else [name_and_path(told)[0] for told in lora.lora_paths]
        self._base = base_names([model.model_name, model.model_path, model.served_model_name])

    @property
    def names(self) -> list[str]:
        """The adapters that are loaded, in the order in which they were."""
        return list(self._names)

    def load(self, path: str, name: str | None = None) -> str:
        """The name of an adapter that is loaded now; requests may name it from then on.

        Args:
            path: A folder as ``peft`` writes it, the id of a repository in the cache, or
                ``NAME=PATH``.
            name: What requests call it; when left out, what ``path`` says, or the whole path.

        Raises:
            InputError: ML139, the model was made without ``enable_lora``; ML537, files that cannot
                be used; ML538, an adapter that does not fit the model; ML539, the name is taken
                (each a ValueError). Nothing changes then.
            ExecutionError: ML142 (a RuntimeError), the process of the model has ended.
        """
        fields.word("path", path)
        fields.optional(fields.word)("name", name)
        if name is None:
            name, path = name_and_path(path)
        self._require_on()
        taken = name
        self._worker.adapt(
            LoRARequest(LoRAOperation.LOAD, name, path), lambda: self._names.append(taken)
        )
        return name

    def unload(self, name: str) -> None:
        """Forgets an adapter. New requests for it are refused; the batch that runs is completed,
        and requests for it that have more to write end with an error.

        Args:
            name: What requests call it.

        Raises:
            InputError: ML139, the model was made without ``enable_lora``; ML539, there is none of
                this name (each a ValueError).
            ExecutionError: ML142 (a RuntimeError), the process of the model has ended.
        """
        fields.word("name", name)
        self._require_on()
        self._worker.adapt(
            LoRARequest(LoRAOperation.UNLOAD, name), lambda: self._names.remove(name)
        )

    def require(self, name: str) -> None:
        """Raises unless requests can name an adapter, or the base, so.

        Args:
            name: The name.

        Raises:
            InputError: ML539 (a ValueError), there is none.
        """
        known = self.names
        if name not in known and name not in self._base:
            raise NoAdapterError(
                "ML539",
                f"there is no adapter {shown(name)}",
                why=[f"there are {', '.join(known)}" if known else "none is loaded"],
                fix="load it first, or leave it out for the base",
            )

    def _require_on(self) -> None:
        if not self._is_on:
            raise InputError(
                "ML139",
                "the model takes no adapters: it was made without enable_lora",
                fix="make the PipelineConfig with enable_lora=True, and with max_num_loras and "
                "max_lora_rank as large as its adapters need",
            )


__all__ = ["Adapters"]
