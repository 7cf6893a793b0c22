"""How the encoding of a model's weights is chosen, and the files that have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from maxlab.driver import DeviceSpec
from maxlab.errors import InputError, WeightError
from maxlab.graph.quantization import QuantizationConfig
from maxlab.graph.weights import WeightsFormat, weights_format
from maxlab.pipelines.lib.config_enums import SupportedEncoding
from maxlab.pipelines.lib.hf_utils import HuggingFaceRepo

if TYPE_CHECKING:
    from typing import Protocol

    class Model(Protocol):
        """A `MAXModelConfig`, as far as it is read here."""

        model_path: str
        weight_path: list[Path]
        quantization_encoding: SupportedEncoding | None
        allow_safetensors_weights_fp32_bf6_bidirectional_cast: bool
        device_specs: list[DeviceSpec]
        _applied_dtype_cast_from: SupportedEncoding | None

        @property
        def huggingface_weight_repo(self) -> HuggingFaceRepo: ...


_CASTS = (SupportedEncoding.float32, SupportedEncoding.bfloat16)
"""Encodings that weights are cast between."""
_PREFERRED = {
    "cpu": (SupportedEncoding.float32, SupportedEncoding.bfloat16),
    "gpu": (SupportedEncoding.bfloat16, SupportedEncoding.float16, SupportedEncoding.float32),
}
"""The encodings that are taken first of several, by the type of the device."""


class Chosen(NamedTuple):
    """An encoding, and the encoding of the files where they are cast to it."""

    encoding: SupportedEncoding
    cast_from: SupportedEncoding | None = None


def _names(encodings: Iterable[SupportedEncoding]) -> str:
    return ", ".join(encodings) or "none that can be told"


def _wrong(what: str, fix: str) -> InputError:
    return InputError("ML131", what, fix=fix)


def _in_files(model: Model) -> list[SupportedEncoding]:
    """The encodings of the weight files that were asked for, or of all of the repository."""
    repo = model.huggingface_weight_repo
    if not model.weight_path:
        return list(repo.supported_encodings)
    try:
        if weights_format(model.weight_path) is WeightsFormat.pytorch:
            return []  # a file of PyTorch tells it only when it is loaded
    except WeightError:
        return []
    found = _encoding_of(repo, model.weight_path[0])
    return [] if found is None else [found]


def _encoding_of(repo: HuggingFaceRepo, path: Path) -> SupportedEncoding | None:
    """The encoding of a weight file; one outside of the repository is read as one of its folder."""
    if path.is_absolute():
        folder = HuggingFaceRepo(repo_id=str(path.parent))
        return folder.encoding_for_file(path.name)
    return repo.encoding_for_file(path)


def choose(
    model: Model,
    default: SupportedEncoding | None,
    supported: Sequence[SupportedEncoding] | None,
) -> Chosen:
    """The encoding that the weights are run in.

    The one that was asked for must be that of the files, or be cast to. Otherwise, of those in the
    files that the architecture and the devices can run: the architecture's default, then what suits
    the device, then the first.

    Raises:
        InputError: ML131, there is none.
    """
    there = _in_files(model)
    asked = model.quantization_encoding
    if asked is not None:
        return _checked(model, asked, there)
    kind = model.device_specs[0].device_type
    possible = [
        one
        for one in there
        if (supported is None or one in supported) and kind in one.supported_devices
    ]
    if len(possible) == 1:
        return Chosen(possible[0])
    for one in (default, *_PREFERRED[kind], *possible):
        if one is not None and one in possible:
            return Chosen(one)
    if not there and default is not None:  # files that do not tell their encoding
        return Chosen(default)
    runs = "" if supported is None else f"; the architecture runs {_names(supported)}"
    raise _wrong(
        f"weights of an encoding that runs on {kind} expected ≠ {_names(there)} in "
        f"{model.huggingface_weight_repo.repo_id}{runs}",
        "give quantization_encoding and weight_path, or take another repository of the model",
    )


def _checked(model: Model, asked: SupportedEncoding, there: Sequence[SupportedEncoding]) -> Chosen:
    """The encoding that was asked for, which the files have or can be cast to."""
    if not there or asked in there:
        return Chosen(asked)
    castable = next((one for one in there if one in _CASTS), None)
    if asked in _CASTS and castable is not None:
        if model.allow_safetensors_weights_fp32_bf6_bidirectional_cast:
            return Chosen(asked, castable)
        fix = (
            f"give quantization_encoding={str(castable)!r}, or "
            "allow_safetensors_weights_fp32_bf6_bidirectional_cast=True"
        )
    else:
        fix = f"give one of {_names(there)}"
    raise _wrong(
        f"quantization_encoding {asked} expected ≠ {_names(there)} in the weight files of "
        f"{model.huggingface_weight_repo.repo_id}",
        fix,
    )


def require_devices(model: Model, supported: Iterable[SupportedEncoding]) -> None:
    """Raises unless the chosen encoding runs on the devices.

    Raises:
        InputError: ML131, no encoding is chosen, or a device cannot run it.
    """
    encoding = model.quantization_encoding
    if encoding is None:
        raise _wrong("no encoding is chosen yet", "call resolve() of the PipelineConfig")
    for spec in model.device_specs:
        if not encoding.supported_on(spec):
            where = " and ".join(encoding.supported_devices) or "no device in this version"
            raise _wrong(
                f"the encoding {encoding} runs on {where} expected ≠ {spec.device_type} given",
                f"take another device, or another encoding: {_names(supported)}",
            )


def weight_files(model: Model, preferred: WeightsFormat | None) -> list[Path]:
    """The weight files: those that were asked for, or all of the chosen encoding in one format.

    Raises:
        InputError: ML131, there are none.
    """
    if model.weight_path:
        return model.weight_path
    encoding = model._applied_dtype_cast_from or model.quantization_encoding
    repo = model.huggingface_weight_repo
    by_format = {} if encoding is None else repo.files_for_encoding(encoding)
    for one in (preferred, *by_format):
        found = by_format.get(one) if one is not None else None
        if found:
            return [Path(path) for path in found]
    raise _wrong(
        f"weight files of the encoding {encoding} expected ≠ {_names(repo.supported_encodings)} in "
        f"{repo.repo_id}",
        "give weight_path, or the encoding of the files",
    )


def gptq_config(huggingface_config: Any) -> QuantizationConfig:
    """How a checkpoint of GPTQ was quantised, as its own configuration says.

    Raises:
        InputError: ML131, it does not say so, or its scales are not float16.
    """
    found: Any = getattr(huggingface_config, "quantization_config", None)
    if hasattr(found, "to_dict"):
        found = found.to_dict()
    names = ("quant_method", "bits", "group_size", "desc_act", "sym")
    if not isinstance(found, dict) or any(name not in found for name in names):
        raise _wrong(
            f"a quantization_config with {', '.join(names)} expected ≠ {found!r} in config.json",
            "take a checkpoint that a GPTQ tool wrote whole",
        )
    scales = getattr(huggingface_config, "dtype", None)
    scales = getattr(huggingface_config, "torch_dtype", None) if scales is None else scales
    if str(scales).removeprefix("torch.") != "float16":
        raise _wrong(
            f"scales of float16 expected ≠ {scales} in the checkpoint of GPTQ",
            "take a checkpoint with scales of float16",
        )
    return QuantizationConfig(**{name: found[name] for name in names})


__all__ = [
    "Chosen",
    "choose",
    "gptq_config",
    "require_devices",
    "weight_files",
]
