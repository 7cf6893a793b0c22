"""Which layers of a model are in float8: what its config says, compared with its weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import WeightError, shown
from maxlab.nn.float8_config.formats import Scheme
from maxlab.nn.float8_config.specs import Float8ScaleOrigin, Float8WeightScaleSpec

_PROJECTION = re.compile(r"layers\.(\d+)\.(self_attn|mlp)\.((?:.+\.)?[^.]*proj[^.]*)\.weight")
_USUAL = {
    "self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
}
"""The projections of a layer of whose weights no name is known."""


@dataclass
class Weights:
    """The projections of a model's layers, with what its weights say of them.

    Attributes:
        state_dict: The weights by name.
        prefix: What precedes ``layers.0`` in their names.
        projections: The projections by layer and part, ``self_attn`` or ``mlp``.
    """

    state_dict: Mapping[str, Any]
    prefix: str
    projections: dict[tuple[int, str], list[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.projections = {}
        for name in self.state_dict:
            if not isinstance(name, str) or not name.startswith(self.prefix):
                continue
            match = _PROJECTION.fullmatch(name[len(self.prefix) :])
            if match:
                key = int(match[1]), match[2]
                self.projections.setdefault(key, []).append(match[3])

    def of(self, layer: int, part: str) -> list[str]:
        """Names of the projections of a part of a layer, ``layers.0.mlp.gate_proj``."""
        names = self.projections.get((layer, part)) or _USUAL[part]
        return [f"layers.{layer}.{part}.{name}" for name in names]

    def get(self, module: str, last: str) -> Any:
        """The weight ``last`` of a module; None where there is none."""
        return self.state_dict.get(f"{self.prefix}{module}.{last}")


def layers_in_float8(
    scheme: Scheme, weights: Weights, part: str, count: int, ignored_prefix: str
) -> set[int]:
    """Numbers of the layers whose ``part`` is in float8.

    Args:
        scheme: Says which modules are in float8.
        weights: The model's weights, whose dtypes must agree.
        part: ``self_attn`` or ``mlp``.
        count: The number of layers.
        ignored_prefix: What precedes ``layers.0`` in the names that the config uses.

    Raises:
        WeightError: ML697, some projections of a layer are in float8 and others are not, or a
            weight has another dtype than the config says.
    """
    found = set()
    for layer in range(count):
        said = {
            module: scheme.in_float8(f"{ignored_prefix}{module}")
            for module in weights.of(layer, part)
        }
        for module, in_float8 in said.items():
            _agree(weights, module, in_float8)
        if len(set(said.values())) > 1:
            inside = sorted(module for module, in_float8 in said.items() if in_float8)
            outside = sorted(module for module, in_float8 in said.items() if not in_float8)
            raise WeightError(
                "ML697",
                f"{inside[0]} is in float8 and {outside[0]} is not; all projections of a layer's "
                f"{part} are, or none",
                why=[f"{scheme.method} leaves out {shown(outside)}"],
                fix="convert the layer as a whole, or list all of its projections among those "
                "that are not converted",
            )
        if any(said.values()):
            found.add(layer)
    return found


def _agree(weights: Weights, module: str, in_float8: bool) -> None:
    """Raises when the weight of ``module`` has another dtype than the config says."""
    name = f"{weights.prefix}{module}.weight"
    if name not in weights.state_dict:
        return
    dtype = _dtype_of(name, weights.state_dict[name])
    if dtype.is_float8() is not in_float8:
        raise WeightError(
            "ML697",
            f"{name} is {dtype.name}, and the config says that it is "
            f"{'in float8' if in_float8 else 'not converted'}",
            fix="pass the config.json that came with these weights, and the prefixes of both",
        )


def _dtype_of(name: str, weight: object) -> DType:
    """The dtype of the weight ``name``.

    Raises:
        WeightError: ML697, it is no weight.
    """
    dtype = getattr(weight, "dtype", None)
    if not isinstance(dtype, DType):
        raise WeightError(
            "ML697",
            f"{name} must be a WeightData, got {shown(weight)}",
            fix="pass the data of a file of weights, as load_weights reads it",
        )
    return dtype


# ---------------------------------------------------------------- scales
def scale_dtype(scheme: Scheme, weights: Weights, modules: list[str]) -> DType:
    """The dtype of the scales of ``modules``, those that are in float8.

    Raises:
        WeightError: ML699, a scale is missing or there is none, or scales have several dtypes.
    """
    found: dict[DType, str] = {}
    for name, dtype in _scales(scheme, weights, modules):
        found.setdefault(dtype, name)
    if not found:  # of other modules than those of layers, such as the last one
        for name, weight in weights.state_dict.items():
            if str(name).endswith(f".{scheme.scale_name}"):
                found.setdefault(_dtype_of(name, weight), name)
    if len(found) == 1:
        return next(iter(found))
    if not found:
        raise WeightError(
            "ML699",
            f"no weight ends in .{scheme.scale_name}, and float8 weights mean nothing without "
            "scales",
            fix="pass all weights of the model, and the prefix of their names",
        )
    (one, first), (other, second) = list(found.items())[:2]
    raise WeightError(
        "ML699",
        f"{first} is {one.name} and {second} is {other.name}; all scales are of one dtype",
        fix="convert the scales to one dtype before they are loaded",
    )


def _scales(scheme: Scheme, weights: Weights, modules: list[str]) -> Iterator[tuple[str, DType]]:
    """The names and dtypes of all scales of ``modules``."""
    wanted = [scheme.scale_name]
    if scheme.origin is Float8ScaleOrigin.STATIC:
        wanted.append("input_scale")
    for module in modules:
        for last in wanted:
            scale = weights.get(module, last)
            if scale is not None:
                yield (
                    f"{weights.prefix}{module}.{last}",
                    _dtype_of(f"{weights.prefix}{module}.{last}", scale),
                )
            elif weights.get(module, "weight") is not None:
                raise WeightError(
                    "ML699",
                    f"{weights.prefix}{module}.weight is in float8, and {weights.prefix}{module}."
                    f"{last} is missing",
                    fix="pass all weights of the model, from the file that its config.json is of",
                )


def check_shapes(
    scheme: Scheme, spec: Float8WeightScaleSpec, weights: Weights, modules: list[str]
) -> None:
    """Raises unless each weight that is a matrix has as many scales as ``spec`` says.

    Raises:
        WeightError: ML699, another number.
    """
    for module in modules:
        weight, scale = weights.get(module, "weight"), weights.get(module, scheme.scale_name)
        if weight is None or scale is None or len(weight.shape) != 2:
            continue
        rows, columns = (int(dim) for dim in weight.shape)
        wanted, given = spec.scale_shape(rows, columns), tuple(int(dim) for dim in scale.shape)
        if [n for n in given if n != 1] != [n for n in wanted if n != 1]:
            raise WeightError(
                "ML699",
                f"{weights.prefix}{module}.{scheme.scale_name} is {list(given)}, expected "
                f"{list(wanted)} for a weight [{rows}, {columns}] with a scale for each "
                f"{spec.granularity.value}",
                fix="pass the config.json that came with these weights",
            )


__all__ = ["Weights", "check_shapes", "layers_in_float8", "scale_dtype"]
