"""The configuration of pipelines that speak."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from maxlab.errors import InputError, UnsupportedError
from maxlab.interfaces import fields
from maxlab.pipelines.lib.config_flags import value as flag_value
from maxlab.pipelines.lib.max_config import help_of, unknown_setting
from maxlab.pipelines.lib.pipeline_config import PipelineConfig
from maxlab.pipelines.lib.settings import (
    Kind,
    Origin,
    mapping,
    maybe,
    member,
    setting,
    settings_of,
    several,
    switch,
    text,
    whole,
)


class PrependPromptSpeechTokens(str, enum.Enum):  # noqa: UP042 - as MAX prints it
    """When the speech tokens of the prompt go to the audio decoder."""

    NEVER = "never"
    """Never."""
    ONCE = "once"
    """With the first block."""
    ROLLING = "rolling"
    """With the first block, and with later ones until the buffer has its size."""


class PrometheusMetricsMode(str, enum.Enum):  # noqa: UP042 - as MAX prints it
    """Which process tells Prometheus the metrics."""

    INSTRUMENT_ONLY = "instrument_only"
    """The application; the pipeline counts only."""
    LAUNCH_SERVER = "launch_server"
    """A server of metrics that the pipeline starts."""
    LAUNCH_MULTIPROC_SERVER = "launch_multiproc_server"
    """A server of metrics of several processes that the pipeline starts."""


def _chunks() -> Kind:
    """The kind of the sizes of chunks: a list with one or more, or an int for one."""
    listed = several(whole(1))

    def settle(value: Any) -> Any:
        is_one = isinstance(value, int) and not isinstance(value, bool)
        return [value] if is_one else listed.settle(value)

    def rule(field: str, value: Any) -> None:
        listed.rule(field, value)
        if not value:
            raise fields.out_of_range(field, value, "a list with a size")

    return Kind(rule, listed.parse, settle, listed.write, told="N", one=listed.one)


@dataclass(init=False, repr=False)
class AudioGenerationConfig(PipelineConfig):
    """The configuration of a pipeline that makes speech tokens, and sound of them.

    Args:
        audio_decoder: The name of the architecture of the audio decoder.
        audio_decoder_weights: The path of its weights.
        chunk_size: The sizes of the chunks of sound; an int makes all of one size.
        buffer: Speech tokens of earlier steps that the decoder gets again at each step.
        block_causal: Not in this version.
        prepend_prompt_speech_tokens: When the prompt's speech tokens go to the decoder.
        prepend_prompt_speech_tokens_causal: Not in this version.
        run_model_test_mode: Whether the pipeline runs with parameters of tests.
        prometheus_metrics_mode: Which process tells Prometheus the metrics.
        kwargs: ``audio_decoder_config``, and the settings of `PipelineConfig`.

    Raises:
        UnsupportedError: ML127 (a NotImplementedError), one of the two causal modes.
        InputError, InputTypeError: As by `PipelineConfig`.
    """

    audio_decoder: str = setting(
        text(filled=True), "", "The name of the architecture of the audio decoder.", is_read=False
    )
    audio_decoder_weights: str = setting(
        text(), "", "The path of the audio decoder's weights.", is_read=False
    )
    chunk_size: list[int] | None = setting(
        maybe(_chunks()),
        None,
        "The sizes of the chunks of sound, in speech tokens; one makes all of that size.",
        is_read=False,
    )
    buffer: int = setting(
        whole(0),
        0,
        "Speech tokens of earlier steps that the decoder gets again at each step.",
        is_read=False,
    )
    block_causal: bool = setting(
        switch(),
        False,
        "Whether earlier tokens see those of the block. Not in this version.",
        is_read=False,
    )
    prepend_prompt_speech_tokens: PrependPromptSpeechTokens = setting(
        member(PrependPromptSpeechTokens),
        PrependPromptSpeechTokens.ONCE,
        "When the prompt's speech tokens go to the decoder.",
        is_read=False,
    )
    prepend_prompt_speech_tokens_causal: bool = setting(
        switch(),
        False,
        "Whether the prompt's speech tokens see those of the block. Not in this version.",
        is_read=False,
    )
    audio_decoder_config: dict[str, Any] = setting(
        mapping(), help="Parameters of the audio decoder.", factory=dict, is_read=False
    )
    run_model_test_mode: bool = setting(
        switch(), False, "Whether the pipeline runs with parameters of tests.", is_read=False
    )
    prometheus_metrics_mode: PrometheusMetricsMode = setting(
        member(PrometheusMetricsMode),
        PrometheusMetricsMode.INSTRUMENT_ONLY,
        "Which process tells Prometheus the metrics.",
        is_read=False,
    )

    def __init__(
        self,
        audio_decoder: str,
        audio_decoder_weights: str = "",
        chunk_size: list[int] | int | None = None,
        buffer: int = 0,
        block_causal: bool = False,
        prepend_prompt_speech_tokens: PrependPromptSpeechTokens = PrependPromptSpeechTokens.ONCE,
        prepend_prompt_speech_tokens_causal: bool = False,
        run_model_test_mode: bool = False,
        prometheus_metrics_mode: PrometheusMetricsMode = PrometheusMetricsMode.INSTRUMENT_ONLY,
        **kwargs: Any,
    ) -> None:
        for name, asked in (
            ("block_causal", block_causal),
            ("prepend_prompt_speech_tokens_causal", prepend_prompt_speech_tokens_causal),
        ):
            if asked:
                raise UnsupportedError(
                    "ML127",
                    f"AudioGenerationConfig.{name} is {asked!r}, and no pipeline does so",
                    fix="leave it at its default, False",
                )
        own = {
            "audio_decoder": audio_decoder,
            "audio_decoder_weights": audio_decoder_weights,
            "chunk_size": chunk_size,
            "buffer": buffer,
            "block_causal": block_causal,
            "prepend_prompt_speech_tokens": prepend_prompt_speech_tokens,
            "prepend_prompt_speech_tokens_causal": prepend_prompt_speech_tokens_causal,
            "run_model_test_mode": run_model_test_mode,
            "prometheus_metrics_mode": prometheus_metrics_mode,
        }
        super().__init__(**own, **kwargs)

    @classmethod
    def _argument_names(cls) -> list[str]:
        return list(inspect.signature(cls.__init__).parameters)[1:-1]

    @staticmethod
    def help() -> dict[str, str]:
        """Every keyword of the constructor with its description."""
        return dict(help_of(AudioGenerationConfig))

    @classmethod
    def from_flags(
        cls, audio_flags: Mapping[str, str], **config_flags: Any
    ) -> AudioGenerationConfig:
        """The configuration that flags ask for.

        Args:
            audio_flags: Texts of this class's own settings, by name; ``chunk_size`` with commas.
            config_flags: Settings of `PipelineConfig`, with their values.

        Raises:
            InputError: ML129 (a ValueError), no ``audio_decoder``; ML125, a flag that there is
                not; ML126, a text that is no value of it.

        Example:
            >>> AudioGenerationConfig.from_flags({"buffer": "4"})
            Traceback (most recent call last):
            maxlab.errors.InputError: audio generation needs the flag audio_decoder [ML129]
              fix: give --audio-decoder NAME
        """
        inherited = settings_of(PipelineConfig)
        known = {name: one for name, one in settings_of(cls).items() if name not in inherited}
        found: dict[str, Any] = {}
        for name, written in audio_flags.items():
            fields.text(f"audio_flags[{name!r}]", written)
            if name not in known:
                raise unknown_setting(name, cls.__name__, known)
            kind = known[name].kind
            found[name] = (
                flag_value(kind, name, written.split(",") if written else "")
                if kind.one is not None
                else kind.read(name, written)
            )
        if not found.get("audio_decoder"):
            raise InputError(
                "ML129",
                "audio generation needs the flag audio_decoder",
                fix="give --audio-decoder NAME",
            )
        return cls(**found, **config_flags)._told_as(dict.fromkeys(found, Origin.flags))


__all__ = ["AudioGenerationConfig", "PrependPromptSpeechTokens", "PrometheusMetricsMode"]
