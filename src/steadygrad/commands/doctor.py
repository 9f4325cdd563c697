"""`steadygrad doctor`: what is installed, which backend computes, which data is there."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

EXTRAS = {
    "train": ("safetensors", "pydantic", "filelock", "rich", "joblib", "matplotlib"),
    "data": ("scipy", "platformdirs", "mido"),
    "tensorboard": ("tensorboard",),
    "dask": ("dask", "distributed"),
    "ray": ("ray",),
    "triton": ("triton",),
}


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """It has no options."""


def run_doctor(args: argparse.Namespace) -> int:
    """Say what is installed and what is missing, with the line that installs it."""
    import numpy
    import torch

    from .. import __version__
    from ..recurrence import native, triton

    isa = native.instruction_set()
    threads = f"{torch.get_num_threads()} of torch, {os.cpu_count()} cores; training uses 1 unless --threads is given"
    without = f"not built; the layer computes in torch operations. {native.HOW_TO_GET_IT}"
    on_gpu = f"installed, {triton.NEVER_TIMED}" if triton.is_installed() else triton.HOW_TO_GET_IT
    here = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    versions = {"steadygrad": __version__, "torch": torch.__version__, "numpy": numpy.__version__, "python": here}
    sections = {
        "versions": versions,
        "extras": {extra: _extra(extra, packages) for extra, packages in EXTRAS.items()},
        "backend": {"native": f"built, uses {isa}" if isa else without, "triton": on_gpu, "threads": threads},
    }
    for title, lines in sections.items():
        print("\n".join([title, *(f"  {name:<12} {each}" for name, each in lines.items())]))
    print("data")
    try:
        from .. import data

        for row in data.listing():
            print(f"  {row.name:<12} {row.file:<28} {row.state}")
    except ImportError as error:
        print(f"  unknown: {error}")
    return 0


def _extra(extra: str, packages: Iterable[str]) -> str:
    there, missing = [], []
    for package in packages:
        try:
            there.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    gap = f"missing {', '.join(missing)}: pip install 'steadygrad[{extra}]'" if missing else ""
    return "; ".join(filter(None, (", ".join(there), gap)))
