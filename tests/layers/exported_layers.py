"""Layers to export, and a process that runs what was exported: `python exported_layers.py FOLDER`, without steadygrad."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import torch

T, B, I, H = 5, 2, 3, 4
LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "tanh": ("RNN", {"num_layers": 2}),
    "relu-batch-first": ("RNN", {"nonlinearity": "relu", "batch_first": True}),
    "gru-bidirectional": ("GRU", {"bidirectional": True}),
    "lstm": ("LSTM", {"num_layers": 2}),
    # what torch has no layer for: the steps are written out
    "sigmoid": ("RNN", {"nonlinearity": "sigmoid"}),
    "leaky": ("RNN", {"leak": 0.3, "bidirectional": True}),
    "tokens": ("RNN", {}),
    "gru-tokens": ("GRU", {}),
    "lstm-tokens": ("LSTM", {}),
}


def layer(name: str) -> Any:
    import steadygrad as sg

    torch.manual_seed(0)
    cell, options = LAYERS[name]
    return getattr(sg, cell)(I, H, **options).eval()


def given(name: str) -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    if "tokens" in name:
        return torch.randint(I, (T, B), generator=draw)
    return torch.randn(T, B, I, generator=draw)


def main(folder: Path) -> None:
    """Runs each file `NAME.pt2` and `NAME.pt`, and compares with what the layer gave, `NAME.expected`."""
    sys.modules["steadygrad"] = None  # pyright: ignore[reportArgumentType]  # importing it raises
    warnings.simplefilter("ignore")
    for file in sorted([*folder.glob("*.pt2"), *folder.glob("*.pt")]):
        program = torch.export.load(file).module() if file.suffix == ".pt2" else torch.jit.load(file)
        torch.testing.assert_close(program(given(file.stem))[0], torch.load(file.with_suffix(".expected")))
        print(file.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
