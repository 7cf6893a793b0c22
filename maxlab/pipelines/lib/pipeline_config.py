"""The configuration of a pipeline: how a model is served, and with what memory.

Settings are keywords of `PipelineConfig`, also those of the configurations that it is made of:
``PipelineConfig(model_path=..., kv_cache_page_size=256)`` routes the second to the cache. Settings
of a draft model begin with ``draft_``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from maxlab import files
from maxlab.errors import InputError, MaxlabError, shown
from maxlab.interfaces import fields
from maxlab.pipelines.lib import config_resolving
from maxlab.pipelines.lib.architectures import import_custom
from maxlab.pipelines.lib.config_enums import PipelineRole
from maxlab.pipelines.lib.endpoints import endpoint, endpoint_base
from maxlab.pipelines.lib.kv_cache_config import KVCacheConfig
from maxlab.pipelines.lib.lora_config import LoRAConfig
from maxlab.pipelines.lib.max_config import MAXConfig, Place, help_of, unknown_setting
from maxlab.pipelines.lib.memory_estimation import MemoryEstimate
from maxlab.pipelines.lib.model_config import MAXModelConfig
from maxlab.pipelines.lib.profiling_config import ProfilingConfig
from maxlab.pipelines.lib.sampling import SamplingConfig
from maxlab.pipelines.lib.settings import (
    Origin,
    default_of,
    maybe,
    member,
    number,
    path,
    setting,
    settings_of,
    several,
    switch,
    text,
    whole,
    words,
)

if TYPE_CHECKING:
    from maxlab.engine import InferenceSession
    from maxlab.graph.quantization import QuantizationEncoding

_LOG = logging.getLogger("maxlab.pipelines")
DEFAULT_PREFILL_CHUNK_SIZE = 8192
"""Tokens of prompts that a batch takes, where nobody says otherwise."""
DRAFT = "draft_"
"""How keywords of the draft model begin."""
_WHOLE = {
    "model_config": MAXModelConfig,
    "draft_model_config": MAXModelConfig,
    "sampling_config": SamplingConfig,
    "profiling_config": ProfilingConfig,
    "lora_config": LoRAConfig,
}
"""Keywords that take a whole configuration, in place of its settings."""
_Part = TypeVar("_Part", bound=MAXConfig)


@dataclass(init=False, repr=False)
class PipelineConfig(MAXConfig):
    """The configuration of a pipeline.

    It is resolved when it is made: the encoding, the weight files, the batch size and the length
    are chosen by the model, its architecture if one is registered, and the free memory.

    Args:
        kwargs: The settings of this class, and those of `MAXModelConfig`, `KVCacheConfig`,
            `SamplingConfig`, `ProfilingConfig` and `LoRAConfig`; with ``draft_`` before the name,
            those of the draft model. ``help()`` tells them all. A part may be given whole too:
            ``model_config=MAXModelConfig(...)``.

    Raises:
        InputError: ML125, a setting that there is not (a ValueError); ML981, a value out of its
            range; ML982, settings that contradict each other; ML130 to ML136, a model that cannot
            be run so.
        InputTypeError: ML980, a value of the wrong type (a TypeError).
    """

    section: ClassVar[str] = "pipeline_config"

    max_length: int | None = setting(
        maybe(whole(1)),
        None,
        "The most tokens of a sequence, its prompt among them. As many as the model and the memory "
        "allow where none is given.",
    )
    pipeline_role: PipelineRole = setting(
        member(PipelineRole),
        PipelineRole.prefill_and_decode,
        "Whether the pipeline reads prompts, makes the tokens that follow, or both.",
        is_read=False,
    )
    max_batch_size: int | None = setting(
        maybe(whole(1)),
        None,
        "The most sequences of a batch. As many as the memory allows where none is given.",
    )
    max_ce_batch_size: int = setting(
        whole(1),
        192,
        "The most prompts that a batch reads; max_batch_size where that is less.",
        is_read=False,
    )
    max_queue_size_tg: int | None = setting(
        maybe(whole(1)),
        None,
        "The most requests that wait for their next token; max_batch_size by default.",
        is_read=False,
    )
    min_batch_size_tg: int | None = setting(
        maybe(whole(1)),
        None,
        "Below this size of a batch of next tokens, prompts go first; max_queue_size_tg by "
        "default. For the scheduler of speech.",
        is_read=False,
    )
    ep_size: int = setting(
        whole(1),
        1,
        "How many devices share the experts of a model: 1, or all GPUs.",
        is_read=False,
    )
    ce_delay_ms: float = setting(
        number(0),
        0.0,
        "Milliseconds that the scheduler waits before it reads prompts. For the scheduler of "
        "speech.",
        is_read=False,
    )
    enable_prioritize_first_decode: bool = setting(
        switch(),
        False,
        "Whether next tokens follow right after a batch of prompts. For the scheduler of speech.",
        is_read=False,
    )
    experimental_background_queue: bool = setting(
        switch(), False, "Whether a thread of its own drains the queues.", is_read=False
    )
    enable_chunked_prefill: bool = setting(
        switch(),
        True,
        "Whether long prompts are read in parts of prefill_chunk_size tokens.",
        is_read=False,
    )
    enable_in_flight_batching: bool = setting(
        switch(),
        False,
        "Whether prompts and next tokens share a batch: a small part of a prompt at a time, so "
        "that no answer pauses for it.",
        is_read=False,
    )
    max_num_steps: int = setting(
        whole(-1),
        -1,
        "Tokens that are made between two decisions of the scheduler; -1 is 1 on a CPU and 10 on "
        "a GPU.",
        is_read=False,
    )
    prefill_chunk_size: int = setting(
        whole(1),
        DEFAULT_PREFILL_CHUNK_SIZE,
        "Tokens of prompts that a batch takes. The memory of activations follows from it.",
    )
    enable_echo: bool = setting(
        switch(),
        False,
        "Whether requests may ask for the probabilities of their prompt's tokens.",
        is_read=False,
    )
    pool_embeddings: bool = setting(
        switch(),
        True,
        "Whether the embeddings of a text's tokens are made into one.",
        is_read=False,
    )
    chat_template: Path | None = setting(
        maybe(path()),
        None,
        "A file with a chat template, in Jinja or as the chat_template of a JSON object, which "
        "replaces that of the model.",
    )
    use_experimental_kernels: str = setting(
        words("false", "true"),
        "false",
        "Whether sessions use kernels that are not finished.",
        env="USE_EXPERIMENTAL_KERNELS",
    )
    use_vendor_blas: str = setting(
        words("false", "true"),
        "false",
        "Whether sessions multiply matrices with the vendor's library.",
        env="MAX_SERVE_USE_VENDOR_BLAS",
    )
    pdl_level: str = setting(
        words("0", "1", "2", "3"),
        "0",
        "How far launches of kernels of a GPU overlap.",
        env="PDL_LEVEL",
    )
    custom_architectures: list[str] = setting(
        several(text(filled=True), hint='write a list, also for one: ["my_module"]'),
        help="Modules of architectures, which are imported and so run: my_module, or "
        "folder/path:my_module. Each has a list ARCHITECTURES.",
        factory=list,
    )
    zmq_endpoint_base: str = setting(
        endpoint(),
        help="How the endpoints of the processes of a server begin; random by default.",
        factory=endpoint_base,
        compare=False,
        is_read=False,
    )
    execute_empty_batches: bool = setting(
        switch(),
        False,
        "Whether the scheduler runs batches without requests.",
        is_read=False,
    )
    max_batch_context_length: int | None = setting(
        maybe(whole(1)),
        None,
        "The most tokens of all sequences of a batch together; no limit by default.",
        is_read=False,
    )
    force: bool = setting(
        switch(), False, "Whether settings stand that the architecture would replace."
    )

    _model_config: MAXModelConfig = field(default_factory=MAXModelConfig)
    _draft_model_config: MAXModelConfig | None = None
    _sampling_config: SamplingConfig = field(default_factory=SamplingConfig)
    _profiling_config: ProfilingConfig = field(default_factory=ProfilingConfig)
    _lora_config: LoRAConfig | None = None

    _all_places: ClassVar[dict[str, Place]]

    def __init__(self, **kwargs: Any) -> None:
        self._fill(kwargs)
        self.resolve()

    def _fill(self, kwargs: dict[str, Any]) -> None:
        """Sets every setting, of the class and of its parts, without resolving."""
        given: dict[str, dict[str, Any]] = {}
        places = self._places()
        for keyword, value in kwargs.items():
            if keyword in _WHOLE:
                fields.instance(_WHOLE[keyword])(f"PipelineConfig.{keyword}", value)
            else:
                given.setdefault(places[keyword].section, {})[places[keyword].name] = value
        for name in settings_of(type(self)):
            own = given.get(self.section, {})
            setattr(self, name, own[name] if name in own else default_of(type(self), name))
        self._model_config = self._model(kwargs, given, "")
        self._draft_model_config = None
        if "draft_model_config" in kwargs or any(name.startswith(DRAFT) for name in given):
            self._draft_model_config = self._model(kwargs, given, DRAFT)
        self._sampling_config = _whole(SamplingConfig, kwargs, given)
        self._profiling_config = _whole(ProfilingConfig, kwargs, given)
        asked = "lora_config" in kwargs or given.get(LoRAConfig.section)
        lora = _whole(LoRAConfig, kwargs, given) if asked else None
        self._lora_config = lora if lora is not None and lora.enable_lora else None
        if lora is not None and not lora.enable_lora and lora != LoRAConfig():
            raise fields.contradiction(
                f"{lora!r} is set up, and enable_lora is False", "set enable_lora=True"
            )
        self._asked_max_length: int | None = None
        self._read_environment()

    @staticmethod
    def _model(
        kwargs: dict[str, Any], given: dict[str, dict[str, Any]], prefix: str
    ) -> MAXModelConfig:
        """The configuration of the model, or of the draft model."""
        section = f"{prefix}{MAXModelConfig.section}"
        cached = given.get(f"{prefix}{KVCacheConfig.section}", {})
        own = given.get(section, {})
        if section in kwargs:
            if own or cached:
                told = ", ".join([*own, *cached])
                raise fields.contradiction(
                    f"PipelineConfig has {section} whole, and {told} of it too",
                    f"give {told} to it",
                )
            whole_one: MAXModelConfig = kwargs[section]
            return whole_one
        if prefix and not (own.get("model_path") or own.get("model")):
            raise fields.contradiction(
                f"PipelineConfig has settings of a draft model, {', '.join([*own, *cached])}, and "
                "no draft_model_path",
                "give draft_model_path, or leave them out",
            )
        return MAXModelConfig(**own, _kv_cache_config=KVCacheConfig(**cached))

    @classmethod
    def _refuse_unknown(cls, names: Iterable[str]) -> None:
        places = cls._places()
        for name in names:
            if name not in places and name not in _WHOLE:
                raise unknown_setting(name, cls.__name__, [*places, *_WHOLE])

    @classmethod
    def _places(cls) -> dict[str, Place]:
        found: dict[str, Place] | None = vars(cls).get("_all_places")
        if found is None:
            found = _places_of(cls)
            cls._all_places = found
        return found

    def _parts(self) -> list[tuple[str, MAXConfig]]:
        found: list[tuple[str, MAXConfig]] = [(self.section, self)]
        if "_lora_config" not in vars(self):  # not filled yet
            return found
        found += self._model_config._parts()
        found += [("sampling_config", self._sampling_config)]
        found += [("profiling_config", self._profiling_config)]
        if self._lora_config is not None:
            found.append(("lora_config", self._lora_config))
        if self._draft_model_config is not None:
            found += [(f"{DRAFT}{one}", part) for one, part in self._draft_model_config._parts()]
        return found

    # ------------------------------------------------------------ parts
    @property
    def model_config(self) -> MAXModelConfig:
        """The configuration of the model."""
        return self._model_config

    @property
    def draft_model_config(self) -> MAXModelConfig | None:
        """The configuration of the draft model; None without speculative decoding."""
        return self._draft_model_config

    @property
    def sampling_config(self) -> SamplingConfig:
        """The configuration of the sampler."""
        return self._sampling_config

    @property
    def profiling_config(self) -> ProfilingConfig:
        """The configuration of profiling."""
        return self._profiling_config

    @property
    def lora_config(self) -> LoRAConfig | None:
        """The configuration of LoRA adapters; None where requests may not ask for one."""
        return self._lora_config

    @property
    def graph_quantization_encoding(self) -> QuantizationEncoding | None:
        """The encoding of quantised weights in graphs; None for plain numbers.

        Raises:
            InputError: ML131 (a ValueError), no encoding is chosen yet.
        """
        return self._model_config.graph_quantization_encoding

    # ------------------------------------------------------------ resolving
    def resolve(self) -> None:
        """Checks the settings together and chooses those that nobody decided.

        The constructor calls it. Called again, it chooses anew what it chose before, such as the
        batch size after memory became free.

        Raises:
            InputError: ML130 to ML136, ML138, a model that cannot be run so; ML982, settings that
                contradict each other.
            DeviceError: ML410, a device that is not there.
        """
        import_custom(self.custom_architectures)
        self._resolve_chat_template()
        self._model_config.resolve()
        self._sampling_config.adapt_to(self._model_config.sampling_params_defaults)
        with self._setting_as(Origin.resolved):
            if self.max_num_steps < 1:
                on_cpu = self._model_config.default_device_spec.device_type == "cpu"
                self.max_num_steps = 1 if on_cpu else 10
            if self.enable_echo or self._draft_model_config is not None:
                self._sampling_config.enable_variable_logits = True
        config_resolving.check_experts(self.ep_size, self._model_config.device_specs)
        architecture = config_resolving.resolve_model(self, self._model_config)
        if self._draft_model_config is not None:
            self._draft_model_config.resolve()
            config_resolving.resolve_model(self, self._draft_model_config)
            config_resolving.check_draft(self, self._draft_model_config)
        config_resolving.resolve_memory(self, architecture)

    def _resolve_chat_template(self) -> None:
        if self.chat_template is None:
            return
        full = self.chat_template.expanduser().absolute()
        if not full.is_file():
            raise InputError(
                "ML136",
                f"PipelineConfig.chat_template: a file expected ≠ {shown(str(full))} given",
                fix="give the path of a file with a template",
            )
        vars(self)["chat_template"] = full  # the same file: its origin stays

    def retrieve_chat_template(self) -> str | None:
        """The text of the chat template; None where the model's own is used.

        A file that holds a JSON object with ``chat_template`` gives that text.

        Raises:
            InputError: ML136 (a ValueError), the file cannot be read.
        """
        if self.chat_template is None:
            return None
        try:
            found = files.read_text(self.chat_template, "the chat template", most=1 << 20)
        except MaxlabError as error:
            raise InputError(
                "ML136",
                f"the chat template {shown(str(self.chat_template))} cannot be read",
                why=[error.what],
                fix="give a file of UTF-8 text of at most 1 MiB",
            ) from error
        try:
            document = json.loads(found)
        except (ValueError, RecursionError):
            return found
        inner = document.get("chat_template") if isinstance(document, dict) else None
        return inner if isinstance(inner, str) else found

    def estimate_memory(self, on: str | None = None) -> MemoryEstimate:
        """The memory that the pipeline takes, and the batches and lengths that fit.

        Args:
            on: The name of a GPU, such as ``"H100"``; by default the pipeline's own devices, with
                the memory that is free now.

        Raises:
            InputError: ML137 (a ValueError), no GPU of this name is known.
        """
        return config_resolving.estimate(self, on)

    def configure_session(self, session: InferenceSession) -> None:
        """Sets on a session what the configuration asks for: ``gpu_profiling``.

        For ``use_experimental_kernels``, ``use_vendor_blas`` and ``pdl_level`` sessions have no
        option in this version. The log says so, once for each.

        Args:
            session: The session that models will be loaded into.
        """
        session.gpu_profiling(self._profiling_config.gpu_profiling)
        for name, value, plain in (
            ("use_experimental_kernels", self.use_experimental_kernels, "false"),
            ("use_vendor_blas", self.use_vendor_blas, "false"),
            ("pdl_level", self.pdl_level, "0"),
        ):
            if value != plain:
                _no_effect(name, value)

    # ------------------------------------------------------------ telling
    def log_basic_config(self) -> None:
        """Writes the model, its task, weights, sizes and memory to the log, at the level INFO.

        Raises:
            InputError: ML134 (a ValueError), no architecture of the model is registered.
        """
        for line in config_resolving.basic_lines(self):
            _LOG.info("%s", line)

    def log_pipeline_info(self) -> None:
        """Writes all settings, the architecture and the memory to the log, at the level INFO.

        Raises:
            InputError: ML134 (a ValueError), no architecture of the model is registered.
        """
        lines = config_resolving.basic_lines(self)
        for line in [*lines, *str(self).splitlines(), *str(self.estimate_memory()).splitlines()]:
            _LOG.info("%s", line)

    @staticmethod
    def help() -> dict[str, str]:
        """Every keyword of the constructor with its description.

        Example:
            >>> PipelineConfig.help()["draft_model_path"]
            'Draft model: The folder of the model, or its name on a Hugging Face hub: ORG/NAME.'
        """
        return dict(help_of(PipelineConfig))


def _whole(kind: type[_Part], kwargs: dict[str, Any], given: dict[str, dict[str, Any]]) -> _Part:
    """A part of the configuration, given whole or by its settings."""
    own = given.get(kind.section, {})
    if kind.section not in kwargs:
        return kind(**own)
    if own:
        raise fields.contradiction(
            f"PipelineConfig has {kind.section} whole, and {', '.join(own)} of it too",
            f"give {', '.join(own)} to it",
        )
    found: _Part = kwargs[kind.section]
    return found


def _places_of(kind: type[PipelineConfig]) -> dict[str, Place]:
    """Every keyword of the constructor of a class of pipelines' configurations."""
    found = {name: Place(kind.section, name, kind, one) for name, one in settings_of(kind).items()}
    parts: list[type[MAXConfig]] = [MAXModelConfig, SamplingConfig, ProfilingConfig, LoRAConfig]
    for part in parts:
        found |= part._places()
    for name, place in MAXModelConfig._places().items():
        about = place.setting
        told = type(about)(
            about.kind, f"Draft model: {about.help}", about.env, about.is_read, about.has_flag
        )
        found[f"{DRAFT}{name}"] = Place(f"{DRAFT}{place.section}", place.name, place.owner, told)
    return found


@cache
def _no_effect(name: str, value: str) -> None:
    """Says once that a session has no such option."""
    _LOG.warning("PipelineConfig.%s=%s has no effect: sessions have no such option", name, value)


__all__ = ["DEFAULT_PREFILL_CHUNK_SIZE", "PipelineConfig"]
