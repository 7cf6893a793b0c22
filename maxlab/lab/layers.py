"""The layers of `maxlab.nn` as the palette adds them: which there are, what is typed for each, and
how it is made. All of it is read from the classes: their signatures and their docs."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from maxlab import nn
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import Graph
from maxlab.graph.graph import LIVE
from maxlab.ir import TensorType
from maxlab.lab import docstrings
from maxlab.lab.fields import FieldError
from maxlab.nn.calls import Layer

Kind = Literal["dtype", "choice", "text", "data"]
Given = Literal["", "device", "devices", "nothing"]

_FOLLOWS: Final = re.compile(r"[Tt]he size of the (last|second|first) dim of (?:the )?input")
_ALIAS: Final = re.compile(r"^``(\w+)``, as PyTorch calls it")
_UNTYPED: Final = re.compile("Any|Callable|Quantization|Config")
"""Annotations of what no field can hold."""
_AXES: Final = {"last": -1, "second": 1, "first": 0}
LAYERS: Final = "layers"
"""The kind of field for a list of layers."""


class Blank(NamedTuple):
    """A parameter of a layer.

    Attributes:
        name: As the class calls it.
        kind: How it is typed.
        default: What it is unless something is typed; None where something must be.
        hint: What the docs of the class say of it.
        axis: The axis of the input whose size it is; None where it is no size of it.
        given: What it gets without being typed; empty where it is typed.
        wants: What its annotation says.
        stands_for: The parameter that it is another name of; empty where it is none.
    """

    name: str
    kind: Kind
    default: str | None
    hint: str
    axis: int | None
    given: Given
    wants: str
    stands_for: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The words, of a ``choice``."""
        return ("False", "True") if self.wants == "bool" else ()

    def text(self, type: TensorType) -> str:
        """The text that it begins with for an input of ``type``."""
        if self.axis is not None and -1 <= self.axis < len(type.shape) and type.shape:
            size = str(type.shape[self.axis])
            if size.isdigit():
                return size
        if self.kind == "dtype" and type.dtype.is_float():
            return type.dtype.name
        return self.default or ("float32" if self.kind == "dtype" else "")


class LayerOffer(NamedTuple):
    """A layer that can be added.

    Attributes:
        name: The name of its class, in ``nn``.
        says: What it does, in a sentence.
        blanks: Its parameters, those that are typed and those that are not.
        cls: The class.
    """

    name: str
    says: str
    blanks: tuple[Blank, ...]
    cls: type[Layer]

    @property
    def typed(self) -> tuple[Blank, ...]:
        """The parameters that are typed."""
        return tuple(blank for blank in self.blanks if not blank.given)


@cache
def layers() -> Mapping[str, LayerOffer]:
    """Every layer of ``nn`` that takes one value, by the name of its class.

    Example:
        >>> linear = layers()["Linear"]
        >>> [(blank.name, blank.kind, blank.default) for blank in linear.typed][:3]
        [('in_dim', 'data', None), ('out_dim', 'data', None), ('dtype', 'dtype', 'float32')]
    """
    found: dict[str, LayerOffer] = {}
    for name in sorted(nn.__all__):
        cls = getattr(nn, name)
        if not isinstance(cls, type) or not issubclass(cls, nn.Module) or name != cls.__name__:
            continue
        if cls.__call__ is Layer.__call__ or "Deprecated:" in (inspect.getdoc(cls) or ""):
            continue
        found[name] = _offer(cls)
    return found


def _offer(cls: type[Layer]) -> LayerOffer:
    docs = docstrings.read(cls)
    init = inspect.signature(cls.__init__)
    blanks = [
        _blank(parameter, docs.arguments.get(parameter.name, ""))
        for parameter in list(init.parameters.values())[1:]
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    return LayerOffer(cls.__name__, docs.says, tuple(blanks), cls)


def _blank(parameter: inspect.Parameter, hint: str) -> Blank:
    wants, default = str(parameter.annotation), parameter.default
    follows = _FOLLOWS.search(hint)
    axis = _AXES[follows[1]] if follows else None
    kind: Kind = "data"
    given: Given = ""
    if "DeviceRef" in wants:
        given = "devices" if "Sequence" in wants else "device"
    elif _UNTYPED.search(wants) or _ALIAS.match(hint):
        given = "nothing"
    elif "DType" in wants:
        kind = "dtype"
    elif wants == "bool":
        kind = "choice"
    elif "Layer" in wants or wants.startswith("str"):
        kind = "text"
    needed = default is parameter.empty or (default is None and wants == "int | None")
    text = None if needed and not given else _text(default)
    if "Layer" in wants:
        text, hint = None, "layers with commas between them, such as Linear(out_dim=16), ReLU()"
    alias = _ALIAS.match(hint)
    stands_for = alias[1] if alias else ""
    return Blank(parameter.name, kind, text, hint, axis, given, wants, stands_for)


def _text(default: object) -> str:
    if default is None or default is inspect.Parameter.empty:
        return ""
    if isinstance(default, DType):
        return default.name
    return default if isinstance(default, str) else str(default)


# ---------------------------------------------------------------- making one
def made(offer: LayerOffer, type: TensorType, texts: Mapping[str, str]) -> Layer:
    """The layer that was typed, for an input of ``type``.

    Raises:
        FieldError: ML808, a text that its parameter cannot have, or none where one is needed.
    """
    arguments: dict[str, Any] = {}
    for blank in offer.typed:
        text = texts.get(blank.name, blank.text(type)).strip()
        if text or blank.default is None:
            arguments[blank.name] = _read(blank, text, type)
    return _constructed(offer, [], arguments, type)


def _read(blank: Blank, text: str, type: TensorType) -> Any:
    if not text:
        raise FieldError(blank.name, "nothing is given", blank.hint)
    if "Layer" in blank.wants:
        return _chain(blank.name, text, type)
    if blank.kind == "text":
        return text
    try:
        value: Any = DType[text] if blank.kind == "dtype" else ast.literal_eval(text)
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError) as error:
        raise FieldError(blank.name, f"{text!r} cannot be read", blank.hint) from error
    _require(blank, value, text)
    return value


_CLASSES: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "None": (type(None),),
}


def _require(blank: Blank, value: Any, text: str) -> None:
    """Raises unless ``value`` is what the annotation says, as far as that is a plain class."""
    words = blank.wants.split(" | ")
    if all(word in _CLASSES for word in words):
        known = tuple(one for word in words for one in _CLASSES[word])
        is_flag = isinstance(value, bool) and "bool" not in words
        if is_flag or not isinstance(value, known):
            raise FieldError(blank.name, f"{text!r} is no {words[0]}", blank.hint)


def _constructed(
    offer: LayerOffer, given: Sequence[Any], arguments: Mapping[str, Any], type: TensorType
) -> Layer:
    """The layer with these arguments; what is not given follows from the input."""
    known = dict(arguments)
    before = {blank.name for blank in offer.blanks[: len(given)]}
    before |= {blank.stands_for for blank in offer.blanks if blank.name in known}
    for blank in offer.blanks:
        if blank.name in known or blank.name in before:
            continue
        if blank.given in ("device", "devices"):
            known[blank.name] = type.device if blank.given == "device" else [type.device]
        elif blank.given and not _has_default(offer.cls, blank.name):
            known[blank.name] = None
        elif not blank.given:
            text = blank.text(type)
            if text and (blank.axis is not None or blank.kind == "dtype"):
                known[blank.name] = _read(blank, text, type)
    try:
        layer: Layer = offer.cls(*given, **known)
    except MaxlabError as error:
        for blank in offer.typed:
            if re.search(rf"\b{blank.name}\b", error.what):
                raise FieldError(blank.name, error.what, error.fix or blank.hint) from error
        raise
    except (TypeError, ValueError) as error:
        name = offer.typed[0].name if offer.typed else offer.name
        raise FieldError(name, f"{offer.name}: {error}", f"see nn.{offer.name}") from error
    return layer


def _has_default(cls: type, name: str) -> bool:
    found = inspect.signature(cls.__init__).parameters[name]  # type: ignore[misc]
    return found.default is not found.empty


def _chain(field: str, text: str, type: TensorType) -> list[Layer]:
    """The layers that ``text`` lists, each of which reads what the one before gives.

    Raises:
        FieldError: ML808, it lists none, or one does not take what it would read.
    """
    try:
        listed = ast.parse(f"[{text}]", mode="eval").body
        if not isinstance(listed, ast.List):
            raise ValueError(text)
        calls = [_call(field, node) for node in listed.elts]
    except FieldError:
        raise
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError) as error:
        fix = "write Linear(8, 16), ReLU()"
        raise FieldError(field, f"{text!r} cannot be read", fix) from error
    found: list[Layer] = []
    for offer, given, arguments in calls:
        try:
            layer = _constructed(offer, given, arguments, type)
            found.append(layer)
            type = type_after(layer, type)
        except MaxlabError as error:
            raise FieldError(field, f"{offer.name}: {error.what}", error.fix or "") from error
    return found


def _call(field: str, node: ast.expr) -> tuple[LayerOffer, list[Any], dict[str, Any]]:
    called = node.func if isinstance(node, ast.Call) else node
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    offer = layers().get(name)
    if offer is None or any("Layer" in blank.wants for blank in offer.blanks):
        known = ", ".join(layers())
        raise FieldError(field, f"there is no layer {ast.unparse(called)!r}", f"there are {known}")
    if not isinstance(node, ast.Call):
        return offer, [], {}
    given = [_literal(one) for one in node.args]
    return offer, given, {one.arg: _literal(one.value) for one in node.keywords if one.arg}


def _literal(node: ast.expr) -> Any:
    """A literal, or ``DType.float32``."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "DType":
        return DType[node.attr]
    return ast.literal_eval(node)


def type_after(layer: Layer, type: TensorType) -> TensorType:
    """The type that ``layer`` gives for an input of ``type``.

    Raises:
        MaxlabError: It does not take it.
    """
    scratch = Graph(layer.__class__.__name__, layer, [type])
    LIVE.discard(scratch)  # it is none of the user's
    (found,) = scratch.output_types
    assert isinstance(found, TensorType)
    return found


__all__ = ["Blank", "LayerOffer", "layers", "made", "type_after"]
