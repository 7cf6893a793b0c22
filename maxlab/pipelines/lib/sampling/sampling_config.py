"""The configuration of the sampler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from maxlab.dtype import DType
from maxlab.interfaces import SamplingParamsGenerationConfigDefaults
from maxlab.interfaces.fields import instance
from maxlab.pipelines.lib.max_config import MAXConfig, help_of
from maxlab.pipelines.lib.settings import Origin, dtype, setting, switch

_LIKE_NONE = (None, 0, 1.0)
"""Values of penalties that change nothing."""


@dataclass(repr=False)
class SamplingConfig(MAXConfig):
    """The features that the sampler of a pipeline is built with.

    Example:
        >>> SamplingConfig(do_penalties=True)
        SamplingConfig(do_penalties=True)
    """

    section: ClassVar[str] = "sampling_config"

    in_dtype: DType = setting(dtype(), DType.float32, "The dtype of the logits.", is_read=False)
    out_dtype: DType = setting(
        dtype(), DType.float32, "The dtype that the sampler computes in.", is_read=False
    )
    enable_structured_output: bool = setting(
        switch(),
        False,
        "Whether requests may give a JSON schema that the output must keep to.",
        is_read=False,
    )
    enable_variable_logits: bool = setting(
        switch(),
        False,
        "Whether the sampler takes the logits of several tokens of a sequence, as echo and "
        "speculative decoding need.",
        is_read=False,
    )
    enable_min_tokens: bool = setting(
        switch(),
        False,
        "Whether requests may keep the model from ending before a number of tokens.",
        is_read=False,
    )
    do_penalties: bool = setting(
        switch(),
        False,
        "Whether requests may have penalties of frequency, presence and repetition.",
        is_read=False,
    )

    @classmethod
    def from_generation_config_sampling_defaults(
        cls, sampling_params_defaults: SamplingParamsGenerationConfigDefaults, **kwargs: Any
    ) -> SamplingConfig:
        """The configuration that a model's own defaults need.

        ``do_penalties`` and ``enable_min_tokens`` are set where the model's defaults penalise
        tokens or ask for a least number of them, unless ``kwargs`` say otherwise.

        Args:
            sampling_params_defaults: What the model's generation config sets.
            kwargs: Settings of the class.

        Raises:
            InputTypeError: ML980, the defaults are of another class.
            InputError: ML125, a setting that there is not.

        Example:
            >>> SamplingConfig.from_generation_config_sampling_defaults(
            ...     SamplingParamsGenerationConfigDefaults(repetition_penalty=1.1)).do_penalties
            True
        """
        instance(SamplingParamsGenerationConfigDefaults)(
            "sampling_params_defaults", sampling_params_defaults
        )
        made = cls(**kwargs)
        made.adapt_to(sampling_params_defaults)
        return made

    def adapt_to(self, defaults: SamplingParamsGenerationConfigDefaults) -> None:
        """Sets what a model's own defaults need and nobody decided: see
        ``from_generation_config_sampling_defaults``."""
        values = defaults.values_to_update
        names = ("frequency_penalty", "presence_penalty", "repetition_penalty")
        with self._setting_as(Origin.resolved):
            if self.is_open("do_penalties"):
                self.do_penalties = any(values.get(name) not in _LIKE_NONE for name in names)
            if self.is_open("enable_min_tokens"):
                self.enable_min_tokens = bool(values.get("min_new_tokens"))

    @staticmethod
    def help() -> dict[str, str]:
        """The settings with their descriptions."""
        return dict(help_of(SamplingConfig))


__all__ = ["SamplingConfig"]
