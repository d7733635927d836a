"""Defaults of settings in the reference, of which the source declares the valid values as well."""

from __future__ import annotations

from typing import Any

from griffe import Attribute, ExprCall, ExprKeyword, Extension

__all__ = ["Defaults"]


class Defaults(Extension):
    """An extension that shows ``64`` where the source has ``checked(whole, 64)``."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Replace the value of an attribute, from which the parameters of a dataclass come."""
        call = attr.value
        if not isinstance(call, ExprCall):
            return
        given = {one.name: one.value for one in call.arguments if isinstance(one, ExprKeyword)}
        if "default" in given:
            attr.value = given["default"]
        elif str(call.function) == "checked":
            attr.value = call.arguments[1] if len(call.arguments) == 2 else None  # required
