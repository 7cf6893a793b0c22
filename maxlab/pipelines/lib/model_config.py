"""The configuration of a model: its folder or repository, its weights, its devices."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from maxlab.driver import DeviceSpec, devices_exist, scan_available_devices
from maxlab.errors import InputError
from maxlab.graph.quantization import QuantizationConfig, QuantizationEncoding
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import SamplingParamsGenerationConfigDefaults
from maxlab.interfaces.fields import contradiction
from maxlab.nn.kv_cache import KVCacheStrategy
from maxlab.pipelines.lib import model_encoding, model_files
from maxlab.pipelines.lib.architectures import registry
from maxlab.pipelines.lib.config_enums import RepoType, RopeType, SupportedEncoding
from maxlab.pipelines.lib.hf_utils import HuggingFaceRepo, validate_hf_repo_access
from maxlab.pipelines.lib.kv_cache_config import KVCacheConfig
from maxlab.pipelines.lib.max_config import MAXConfig, Place, help_of
from maxlab.pipelines.lib.settings import (
    Origin,
    devices,
    mapping,
    maybe,
    member,
    path,
    setting,
    settings_of,
    several,
    switch,
    text,
    whole,
)

_LOG = logging.getLogger("maxlab.pipelines")
_KEPT = ("_huggingface_config", "huggingface_weight_repo", "huggingface_model_repo")
"""Attributes that a pickle leaves out: they are found again when they are asked for."""


@dataclass(repr=False)
class MAXModelConfig(MAXConfig):
    """Which model a pipeline runs, with which weights and on which devices.

    Settings of the cache of keys and values are those of ``kv_cache_config``; a `PipelineConfig`
    routes them there.

    Raises:
        InputError: ML125, a setting that there is not; ML981, a value out of its range; ML982,
            both ``model`` and ``model_path``.
        InputTypeError: ML980, a value of the wrong type.

    Example:
        >>> config = MAXModelConfig(model="org/name", served_model_name="name")
        >>> config.model_path, config.model_name
        ('org/name', 'name')
    """

    section: ClassVar[str] = "model_config"

    model_path: str = setting(
        text(), "", "The folder of the model, or its name on a Hugging Face hub: ORG/NAME."
    )
    model: str = setting(text(), "", "The same as model_path.")
    served_model_name: str | None = setting(
        maybe(text(filled=True)), None, "The name that requests call the model by; model_path."
    )
    weight_path: list[Path] = setting(
        several(path(), hint='write a list, also for one: ["model.safetensors"]'),
        help="The weight files: paths, or paths relative to the model's folder or repository. "
        "Chosen by the encoding where none is given.",
        factory=list,
    )
    quantization_encoding: SupportedEncoding | None = setting(
        maybe(member(SupportedEncoding)),
        None,
        "The encoding of the weights; chosen by files and architecture where none is given.",
    )
    allow_safetensors_weights_fp32_bf6_bidirectional_cast: bool = setting(
        switch(),
        False,
        "Whether weights of float32 may be read as bfloat16, and the other way round.",
    )
    huggingface_model_revision: str = setting(
        text(filled=True), "main", "The branch, tag or commit of the model's repository."
    )
    huggingface_weight_revision: str = setting(
        text(filled=True), "main", "The branch, tag or commit of the repository of weights."
    )
    trust_remote_code: bool = setting(
        switch(),
        False,
        "Whether Python files of the model's repository may run. They can do anything.",
    )
    device_specs: list[DeviceSpec] = setting(
        devices(),
        help="The devices: cpu, or GPUs such as gpu:0. All accelerators, or the CPU without any.",
        factory=scan_available_devices,
    )
    force_download: bool = setting(
        switch(), False, "Whether files are downloaded again that are in the cache.", is_read=False
    )
    vision_config_overrides: dict[str, Any] = setting(
        mapping(),
        help="Values that replace those of the vision part's config.",
        factory=dict,
        is_read=False,
    )
    rope_type: RopeType | None = setting(
        maybe(member(RopeType)),
        None,
        "How rotary embeddings pair numbers, normal or neox; as the architecture and the format of "
        "the files say where none is given.",
        is_read=False,
    )
    use_subgraphs: bool = setting(
        switch(), True, "Whether like blocks are compiled once, as subgraphs.", is_read=False
    )
    data_parallel_degree: int = setting(
        whole(1), 1, "How many replicas of the model share the requests.", is_read=False
    )

    _kv_cache_config: KVCacheConfig = field(default_factory=KVCacheConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model_path and self.model:
            raise contradiction(
                "MAXModelConfig has both model_path and model", "leave one of them out"
            )
        if self.model:
            origins = self._origins
            origins["model_path"] = origins.pop("model", Origin.user)
            vars(self).update(model_path=self.model, model="")
        self._weights_repo_id: str | None = None
        self._quant_config: QuantizationConfig | None = None
        self._applied_dtype_cast_from: SupportedEncoding | None = None
        self._applied_dtype_cast_to: SupportedEncoding | None = None
        self._huggingface_config: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: one for name, one in vars(self).items() if name not in _KEPT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _huggingface_config=None)

    def _parts(self) -> list[tuple[str, MAXConfig]]:
        return [(self.section, self), (KVCacheConfig.section, self._kv_cache_config)]

    @classmethod
    def _places(cls) -> dict[str, Place]:
        return {**super()._places(), **KVCacheConfig._places()}

    @classmethod
    def _refuse_unknown(cls, names: Iterable[str]) -> None:
        super()._refuse_unknown(name for name in names if name != "_kv_cache_config")

    @classmethod
    def _made(cls, values: dict[str, Any]) -> Self:
        cached = {name: values.pop(name) for name in settings_of(KVCacheConfig) if name in values}
        return cls(**values, _kv_cache_config=KVCacheConfig(**cached))

    # ------------------------------------------------------------ what the settings stand for
    @property
    def kv_cache_config(self) -> KVCacheConfig:
        """The configuration of the model's cache of keys and values."""
        return self._kv_cache_config

    @property
    def model_name(self) -> str:
        """The name that requests call the model by."""
        return self.model_path if self.served_model_name is None else self.served_model_name

    @property
    def default_device_spec(self) -> DeviceSpec:
        """The first of the devices."""
        return self.device_specs[0]

    @property
    def graph_quantization_encoding(self) -> QuantizationEncoding | None:
        """The encoding of quantised weights in graphs; None for plain numbers.

        Raises:
            InputError: ML131 (a ValueError), no encoding is chosen yet.
        """
        if self.quantization_encoding is None:
            raise InputError(
                "ML131",
                "MAXModelConfig.quantization_encoding is None: no encoding is chosen yet",
                fix="give quantization_encoding, or call resolve() of the PipelineConfig",
            )
        return self.quantization_encoding.quantization_encoding

    @property
    def huggingface_weight_repo_id(self) -> str:
        """The folder or repository that the weights come from."""
        return self._weights_repo_id or self.model_path

    @cached_property
    def huggingface_weight_repo(self) -> HuggingFaceRepo:
        """The folder or repository of the weights."""
        return HuggingFaceRepo(
            repo_id=self.huggingface_weight_repo_id,
            revision=self.huggingface_weight_revision,
            trust_remote_code=self.trust_remote_code,
        )

    @cached_property
    def huggingface_model_repo(self) -> HuggingFaceRepo:
        """The folder or repository of the model's configuration and tokenizer."""
        return HuggingFaceRepo(
            repo_id=self.model_path,
            revision=self.huggingface_model_revision,
            trust_remote_code=self.trust_remote_code,
        )

    @property
    def huggingface_config(self) -> Any:
        """The model's own configuration, of Hugging Face's ``AutoConfig``.

        Raises:
            InputError: ML132 (a ValueError), there is none, or it cannot be read.
            MissingPackageError: ML979, transformers is not installed.
        """
        if self._huggingface_config is None:
            found = registry()
            repo = self.huggingface_model_repo
            self._huggingface_config = (
                model_files.config_of(repo)
                if found is None
                else found.get_active_huggingface_config(repo)
            )
        return self._huggingface_config

    @property
    def generation_config(self) -> Any:
        """The model's own defaults of generation, of Hugging Face's ``GenerationConfig``; the
        defaults of that class where the model has none.

        Raises:
            InputError: ML132 (a ValueError), the file cannot be read.
            MissingPackageError: ML979, transformers is not installed.
        """
        return model_files.generation_config_of(self.huggingface_model_repo)

    @property
    def sampling_params_defaults(self) -> SamplingParamsGenerationConfigDefaults:
        """The sampling parameters that the model's own generation config sets.

        They stand between what a request asks for and the defaults of `SamplingParams`: see
        ``SamplingParams.from_input_and_generation_config``. Values that no request may have are
        left out with a warning.

        Raises:
            InputError: ML132 (a ValueError), the file cannot be read.
        """
        return model_files.sampling_defaults_of(self.huggingface_model_repo)

    # ------------------------------------------------------------ resolving
    def resolve(self) -> None:
        """Checks the devices and finds the folder or the repository of the weights.

        Raises:
            InputError: ML130, no model is given; ML982, a cast without an encoding.
            DeviceError: ML410, a device that is not there.
            ValueError: The repository cannot be reached; the text says why.
        """
        if (
            self.allow_safetensors_weights_fp32_bf6_bidirectional_cast
            and self.quantization_encoding is None
        ):
            raise contradiction(
                "allow_safetensors_weights_fp32_bf6_bidirectional_cast is set, and "
                "quantization_encoding, which the weights are cast to, is not",
                "give quantization_encoding: float32 or bfloat16",
            )
        if not devices_exist(self.device_specs):
            raise model_files.missing_devices(self.device_specs)
        with self._setting_as(Origin.resolved):
            self.weight_path, self._weights_repo_id = model_files.split_weight_paths(
                self.model_path, self.weight_path
            )
            vars(self).pop("huggingface_weight_repo", None)
            if not self.model_path:
                if self._weights_repo_id is None:
                    raise InputError(
                        "ML130",
                        "MAXModelConfig.model_path is empty: no model is given",
                        fix='give model_path="folder/of/the/model", or "ORG/NAME"',
                    )
                self.model_path = self._weights_repo_id
                vars(self).pop("huggingface_model_repo", None)
        if not self.weight_path and self.huggingface_model_repo.repo_type is RepoType.online:
            validate_hf_repo_access(self.model_path, self.huggingface_model_revision)

    def validate_multi_gpu_supported(self, multi_gpu_supported: bool) -> None:
        """Raises unless the architecture runs on as many GPUs as are asked for.

        Raises:
            InputError: ML134 (a ValueError), several GPUs, and it runs on one.
        """
        if multi_gpu_supported or len(self.device_specs) < 2:
            return
        if self.default_device_spec.device_type == "gpu":
            raise InputError(
                "ML134",
                f"{self.model_path} runs on one GPU expected ≠ {len(self.device_specs)} given",
                fix="give device_specs=[DeviceSpec.accelerator(0)]",
            )

    def validate_and_resolve_rope_type(self, arch_rope_type: RopeType) -> None:
        """Takes the architecture's rotary embedding where none was asked for."""
        if self.rope_type is None:
            with self._setting_as(Origin.resolved):
                self.rope_type = arch_rope_type

    def validate_and_resolve_quantization_encoding_weight_path(
        self,
        default_encoding: SupportedEncoding | None,
        supported_encodings: Sequence[SupportedEncoding] | None = None,
    ) -> None:
        """Chooses the encoding of the weights, or checks the one that was asked for.

        Args:
            default_encoding: The architecture's default; None leaves the choice to the files.
            supported_encodings: The encodings that the architecture can run; None is any.

        Raises:
            InputError: ML131 (a ValueError), the files have another encoding than was asked for,
                or none that can run on the devices.
        """
        chosen = model_encoding.choose(self, default_encoding, supported_encodings)
        with self._setting_as(Origin.resolved):
            self.quantization_encoding = chosen.encoding
        self._applied_dtype_cast_from = chosen.cast_from
        self._applied_dtype_cast_to = None if chosen.cast_from is None else chosen.encoding

    def validate_and_resolve_with_resolved_quantization_encoding(
        self,
        supported_encodings: Mapping[SupportedEncoding, Sequence[KVCacheStrategy]],
        default_weights_format: WeightsFormat | None,
    ) -> None:
        """Chooses the weight files and the layout of the cache for the encoding that is chosen.

        Args:
            supported_encodings: The layouts of the cache that go with each encoding; the first
                is the default.
            default_weights_format: The format of weight files that is taken first.

        Raises:
            InputError: ML131 (a ValueError), there are no files of the encoding, or the devices
                cannot run it.
            MissingFileError: ML002 (a FileNotFoundError), a weight file that is not there.
        """
        model_encoding.require_devices(self, supported_encodings)
        if self.quantization_encoding is SupportedEncoding.gptq:
            self._quant_config = model_encoding.gptq_config(self.huggingface_config)
        with self._setting_as(Origin.resolved):
            self.weight_path = model_encoding.weight_files(self, default_weights_format)
        model_files.require_weights(self.huggingface_weight_repo, self.weight_path)
        encoding = self.quantization_encoding
        layouts = supported_encodings.get(encoding, ()) if encoding is not None else ()
        self._resolve_cache_strategy(layouts or [KVCacheStrategy.PAGED])

    def _resolve_cache_strategy(self, layouts: Sequence[KVCacheStrategy]) -> None:
        asked = self.kv_cache_config.cache_strategy
        if asked in layouts:
            return
        if asked is not KVCacheStrategy.MODEL_DEFAULT:
            _LOG.warning(
                "cache_strategy %s is not supported for %s; using %s",
                asked,
                self.quantization_encoding,
                layouts[0],
            )
        with self._setting_as(Origin.resolved):
            self.kv_cache_config.cache_strategy = layouts[0]

    def weights_size(self) -> int:
        """The bytes of the weight files, from the folder, the cache or the hub; none is loaded.

        Raises:
            MissingFileError: ML002 (a FileNotFoundError), a file that is not there.
            InputError: ML131 (a ValueError), the hub does not tell the size of a file.
        """
        return model_files.size_of(self.huggingface_weight_repo, self.weight_path)

    @staticmethod
    def help() -> dict[str, str]:
        """The settings with their descriptions, those of the cache among them."""
        return dict(help_of(MAXModelConfig))


__all__ = ["MAXModelConfig"]
