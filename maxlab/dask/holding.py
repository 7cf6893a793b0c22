"""The worker's side: a plugin that holds one loaded model for all tasks of a worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin, get_worker

from maxlab.errors import ExecutionError, MaxlabError

if TYPE_CHECKING:
    from maxlab.dask.models import WantedModel
    from maxlab.entrypoints.llm import LLM

NAME = "maxlab-model"
"""The name of the plugin."""


class ModelHolder(WorkerPlugin):
    """Holds the model of a worker: it is loaded by the first task that asks for it, used by all
    that run at a time, and gives way when one asks for another model."""

    name = NAME
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Begins without a model.

        Args:
            worker: The worker.
        """
        self._address = str(worker.address)
        self._free = threading.Condition()
        self._key = ""
        self._llm: LLM | None = None
        self._users = 0

    async def teardown(self, worker: Any) -> None:
        """Ends the process of the model.

        Args:
            worker: The worker.
        """
        del worker
        await asyncio.to_thread(self.close)

    @contextmanager
    def using(self, wanted: WantedModel) -> Iterator[LLM]:
        """The model, which stays for the block.

        Args:
            wanted: What the client asks for.

        Raises:
            ExecutionError: ML871 (a RuntimeError), this machine does not have it as the client has.
            MaxlabError: It cannot be loaded.
        """
        with self._free:
            while self._users and self._key != wanted.key:
                self._free.wait()
            if self._key != wanted.key:
                config = wanted.config(self._address)  # what cannot be loaded ends no other model
                self.close()
                self._llm = wanted.load(config)
                self._key = wanted.key
            self._users += 1
            llm = self._llm
        assert llm is not None
        try:
            yield llm
        except ExecutionError as error:
            if error.code == "ML142":  # its process has ended: the next task loads it again
                with self._free:
                    if self._llm is llm:
                        self.close()
            raise
        finally:
            with self._free:
                self._users -= 1
                self._free.notify_all()

    def close(self) -> None:
        """Ends the process of the model, if there is one."""
        with self._free:
            llm, self._llm, self._key = self._llm, None, ""
        if llm is not None:
            llm.close()


def held(wanted: WantedModel) -> Any:
    """The model of the worker that runs this task, as a context manager.

    Args:
        wanted: What the client asks for.
    """
    holder: Any = get_worker().plugins[NAME]
    return holder.using(wanted)


@contextmanager
def told_where() -> Iterator[None]:
    """Adds the worker to errors of the block, and makes errors of maxlab of all others.

    Raises:
        MaxlabError: What was raised, with the worker among its reasons.
        ExecutionError: ML882 (a RuntimeError), something else was raised.
    """
    try:
        yield
    except MaxlabError as error:
        error.because(f"it was raised by the Dask worker {_address()}")
        raise
    except Exception as error:
        raise ExecutionError(
            "ML882",
            f"the Dask worker {_address()} raised {type(error).__name__}: {error}",
            fix="run the function here with the same arguments",
        ) from error


def _address() -> str:
    return str(get_worker().address)


__all__ = ["NAME", "ModelHolder", "held", "told_where"]
