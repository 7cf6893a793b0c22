"""The configuration of LoRA adapters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxlab.interfaces.fields import contradiction
from maxlab.pipelines.lib.max_config import MAXConfig, help_of
from maxlab.pipelines.lib.settings import setting, several, switch, text, whole


@dataclass(repr=False)
class LoRAConfig(MAXConfig):
    """Which LoRA adapters a pipeline serves beside its model.

    Raises:
        InputError: ML982, more adapters than there may be, or adapters without ``enable_lora``.

    Example:
        >>> LoRAConfig(enable_lora=True, lora_paths=["poems=adapters/poems"]).max_num_loras
        1
    """

    section: ClassVar[str] = "lora_config"

    enable_lora: bool = setting(switch(), False, "Whether requests may ask for an adapter.")
    lora_paths: list[str] = setting(
        several(text(filled=True), hint='write a list, also for one: ["path"]'),
        help="Adapters that are loaded at the start: a path, or NAME=PATH.",
        factory=list,
    )
    max_lora_rank: int = setting(whole(1), 16, "The largest rank that an adapter may have.")
    max_num_loras: int = setting(whole(1), 1, "How many adapters may be active in a batch.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.lora_paths) > self.max_num_loras:
            raise contradiction(
                f"LoRAConfig.lora_paths names {len(self.lora_paths)} adapters, above "
                f"max_num_loras, {self.max_num_loras}",
                "raise max_num_loras, or name fewer adapters",
            )
        if self.lora_paths and not self.enable_lora:
            raise contradiction(
                "LoRAConfig.lora_paths names adapters, and enable_lora is False",
                "set enable_lora=True, or leave lora_paths out",
            )

    @staticmethod
    def help() -> dict[str, str]:
        """The settings with their descriptions."""
        return dict(help_of(LoRAConfig))


__all__ = ["LoRAConfig"]
