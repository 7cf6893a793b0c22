"""Models that write at once, and may end by themselves."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxlab.errors import ExecutionError, InputError


class FakeLLM:
    """Writes each prompt in capitals. Of the prompts with a word it dies, by way of ``model``."""

    def __init__(self, model: FakeModel) -> None:
        self.model = model
        self.is_closed = False

    def generate(self, prompts: list[str], count: int, bar: bool, **given: Any) -> list[str]:
        for prompt in prompts:
            if "kill" in prompt and self.model.begins_first("kill"):
                os.kill(os.getpid(), signal.SIGKILL)
            if "end" in prompt and self.model.begins_first("end"):
                raise ExecutionError("ML142", "the process that runs the model ended")
            if "always" in prompt:
                raise ExecutionError("ML142", "the process that runs the model ended")
            if "wrong" in prompt:
                raise InputError("ML160", "too long")
            time.sleep(0.01)
        return [prompt.upper() for prompt in prompts]

    def close(self) -> None:
        self.is_closed = True


@dataclass(frozen=True)
class FakeModel:
    """A model that loads at once.

    Attributes:
        key: Tells it from others.
        folder: Where it marks what it did.
    """

    key: str
    folder: Path

    def config(self, where: str) -> str:
        if self.key == "none":
            raise InputError("ML981", f"no model for {where}")
        return self.key

    def load(self, config: str) -> Any:
        assert config == self.key
        return FakeLLM(self)

    def begins_first(self, name: str) -> bool:
        """Whether this is the first time, of all processes, that ``name`` happens."""
        try:
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
