"""The same records with a hostile text behind every string that a client or an engine supplies."""

import dataclasses
import types
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def poisoned(value: T, payload: str) -> T:
    """Return a copy of a dataclass with `payload` behind every free string, keys too.

    The same string stays the same string, so that records still find each other by name.
    """
    hints = get_type_hints(type(value))
    changes = {
        item.name: _poison(getattr(value, item.name), hints[item.name], payload)
        for item in dataclasses.fields(value)  # type: ignore[arg-type]  # a dataclass by contract
        if item.init
    }
    return dataclasses.replace(value, **changes)  # type: ignore[type-var]


def _poison(value: Any, hint: Any, payload: str) -> Any:
    if dataclasses.is_dataclass(value):
        return poisoned(value, payload)
    if isinstance(value, str):
        return value if _is_literal(hint) else value + payload
    arguments = get_args(hint)
    if isinstance(value, list):
        return [_poison(item, arguments[0] if arguments else Any, payload) for item in value]
    if isinstance(value, dict):
        item_hint = arguments[1] if len(arguments) == 2 else Any
        return {_poison(k, str, payload): _poison(v, item_hint, payload) for k, v in value.items()}
    return value


def _is_literal(hint: Any) -> bool:
    if get_origin(hint) in (Union, types.UnionType):
        return any(_is_literal(argument) for argument in get_args(hint))
    return get_origin(hint) is Literal
