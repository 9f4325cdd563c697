"""A class in the user's own file, by its name 'FILE.py:CLASS'. Its file is run, as Python runs a module that is imported."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import sys
from typing import Any


def named(what: str, name: str) -> type[Any]:
    """The class called `name`; `what` it is for begins the message of a ValueError.

    >>> named("problem", "nowhere.py:Parity")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: problem must name a file, and ...nowhere.py is none
    """
    file, _, called = name.rpartition(":")
    path = os.path.abspath(os.path.expanduser(file))
    module = _module(what, path)
    kind = getattr(module, called, None)
    if not isinstance(kind, type):
        classes = filter(inspect.isclass, vars(module).values())
        names = ", ".join(each.__name__ for each in classes if each.__module__ == module.__name__) or "it has none"
        raise ValueError(f"{what} must be a class in {path} ({names}), not {called!r}")
    return kind


def _module(what: str, path: str) -> Any:
    if not os.path.isfile(path):
        raise ValueError(f"{what} must name a file, and {path} is none")
    for module in list(sys.modules.values()):  # a class that is passed as such is that class
        if getattr(module, "__dict__", {}).get("__file__") == path:  # no lazy module is asked for it
            return module
    name = f"steadygrad_problem_{hashlib.sha256(path.encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{what} must name a Python file, and {path} is none")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"{what} cannot be loaded from {path} ({type(error).__name__}: {error})") from error
    return module
