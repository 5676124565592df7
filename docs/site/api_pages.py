"""The reference of the public names: what `lockref` and `lockref.testing` export, as their docstrings explain it.

Docstrings of this project are Markdown with `code`, so they are put into the page as they are, inside the directives of
Sphinx' Python domain, which give each name its signature, its anchor and its place in the index. Rejected: autodoc. It
writes reStructuredText, in which a paragraph of `name: sentence` has no form.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType

from sphinx.pycode import ModuleAnalyzer
from sphinx.util.inspect import stringify_signature

from docs.site.described import described
from docs.site.markdown import escaped, one_line, prose

PACKAGES = ("lockref", "lockref.testing")


def api() -> str:
    """A section for each package, a directive for each of its names, in the order of `__all__`."""
    return "\n".join(_package(importlib.import_module(name)) for name in PACKAGES)


def _package(module: ModuleType) -> str:
    entries = [_entry(f"{module.__name__}.{name}", getattr(module, name)) for name in sorted(module.__all__)]
    about = prose(inspect.getdoc(module) or "")
    return "\n".join([f"## `{module.__name__}`\n\n{about}\n", *entries])


def _entry(name: str, value: object) -> str:
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, BaseException) else "class"
        members = "" if kind == "exception" else "\n".join(_members(value))
        return _directive(kind, f"{name}{_signature(value)}", _about(value) + _exit_code(value), members)
    if inspect.isfunction(value):
        return _directive("function", f"{name}{_signature(value)}", _about(value))
    return _directive("data", name, _about_constant(name))


def _exit_code(value: type) -> str:
    """How the command line ends with an error of this class; "" for what it does not answer by itself."""
    code = vars(value).get("exit_code")
    return f"\n\nExit code of a command: [{code}](../troubleshooting.md)." if code is not None else ""


def _directive(kind: str, signature: str, about: str, members: str = "") -> str:
    """A directive of the Python domain. The fence of the outer one is longer than those inside."""
    fence = "`" * (7 if members else 5)
    return f"{fence}{{py:{kind}}} {signature}\n{about}\n\n{members}{fence}\n"


def _signature(value: object) -> str:
    if inspect.isclass(value) and (issubclass(value, enum.Enum) or getattr(value, "_is_protocol", False)):
        return ""
    assert callable(value)
    try:
        signature = inspect.signature(value)
    except ValueError:
        return ""  # A class whose constructor is written in C.
    if inspect.isclass(value):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    return _shown(signature)


def _shown(signature: inspect.Signature) -> str:
    """A signature; a default that is a function of its own has no text worth reading."""
    return re.sub(r"<function [^ ]+>|<factory>", "...", stringify_signature(signature, unqualified_typehints=True))


def _about(value: object) -> str:
    """The docstring; what it says of single fields or parameters is a list."""
    text = inspect.getdoc(value) or ""
    names = _names(value)
    parts = described(text, names)
    listed = "\n".join(f"- `{name}`: {one_line(parts.fields[name])}" for name in names if name in parts.fields)
    return "\n\n".join(part for part in (prose(parts.about), listed) if part)


def _names(value: object) -> list[str]:
    fields = list(getattr(value, "__dataclass_fields__", {}))
    if fields or not callable(value):
        return fields
    try:
        return list(inspect.signature(value).parameters)
    except ValueError:
        return []


def _members(value: type) -> Iterator[str]:
    """Public methods and properties with a docstring, of the class and of its bases within lockref, nearest first."""
    seen: set[str] = set()
    for base in value.__mro__:
        if not base.__module__.startswith("lockref"):
            continue
        for name, member in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            yield from _member(name, member)


def _member(name: str, member: object) -> Iterator[str]:
    plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    if isinstance(member, property):
        yield _directive("property", name, _about(member.fget))
    elif inspect.isfunction(plain) and inspect.getdoc(plain):
        signature = inspect.signature(plain)
        if not isinstance(member, staticmethod):
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        kind = {classmethod: "classmethod", staticmethod: "staticmethod"}.get(type(member), "method")
        yield _directive(kind, f"{name}{_shown(signature)}", _about(plain))
    elif isinstance(member, enum.Enum):
        yield _directive("attribute", name, "")


def _about_constant(name: str) -> str:
    """What stands below the assignment of a constant, in the module that it comes from."""
    package, _, short = name.rpartition(".")
    home: str = vars(importlib.import_module(package))["_HOMES"][short]
    told = ModuleAnalyzer.for_module(home).find_attr_docs().get(("", short), [])
    return escaped("\n".join(told).strip())
