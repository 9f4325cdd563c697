"""`steadygrad doctor`: what is installed, which backend computes, which data is there."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
from importlib.metadata import PackageNotFoundError, version

EXTRAS = {
    "train": ("safetensors", "pydantic", "filelock", "rich", "joblib", "matplotlib"),
    "data": ("scipy", "platformdirs", "mido"),
    "tensorboard": ("tensorboard",),
    "dask": ("dask", "distributed"),
    "ray": ("ray",),
}


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser.set_defaults(run=_doctor)
    parser.description = "Say what is installed and what is missing, with the line that installs it."


def _doctor(args: argparse.Namespace) -> int:
    for title, lines in (("versions", _versions()), ("extras", _extras()), ("backend", _backend()), ("data", _data())):
        print(title)
        for line in lines:
            print(f"  {line}")
    return 0


def _versions() -> list[str]:
    import numpy
    import torch

    from .. import __version__

    found = {"steadygrad": __version__, "torch": torch.__version__, "numpy": numpy.__version__}
    found["python"] = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return [f"{name:<12} {each}" for name, each in found.items()]


def _extras() -> list[str]:
    lines: list[str] = []
    for extra, packages in EXTRAS.items():
        missing = [package for package in packages if importlib.util.find_spec(package) is None]
        there = ", ".join(f"{package} {_version(package)}" for package in packages if package not in missing)
        gap = f"missing {', '.join(missing)}: pip install 'steadygrad[{extra}]'" if missing else ""
        lines.append(f"{extra:<12} {'; '.join(filter(None, (there, gap)))}")
    return lines


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(version unknown)"


def _backend() -> list[str]:
    import torch

    from ..recurrence import native

    isa = native.instruction_set()
    kernel = f"built, uses {isa}"
    if not isa:
        kernel = f"not built; the layer computes in torch operations. {native.HOW_TO_GET_IT}"
    threads = f"{torch.get_num_threads()} of torch, {os.cpu_count()} cores; training uses 1 unless --threads says so"
    return [f"{'native':<12} {kernel}", f"{'threads':<12} {threads}"]


def _data() -> list[str]:
    try:
        from .. import data

        rows = data.listing()
    except ImportError as error:
        return [f"unknown: {error}"]
    return [f"{row.name:<12} {row.file:<28} {row.state}" for row in rows]
