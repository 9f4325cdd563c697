"""Handwritten digits read pixel by pixel: does Ω help a GRU or an LSTM on real data?

    python examples/digits.py                                              without Ω and with the chosen α, seeds 1 to 5
    python examples/digits.py --alpha 0 0.1 1 4 10 --seeds 101 102 103     how α was chosen
    python examples/digits.py --write results/digits.jsonl                 with records

scikit-learn's 1,797 digits of 8 × 8 pixels, each a sequence of 64 steps with one brightness per step; the class is asked for
after the last. 'rows' reads them row by row; 'permuted' in one fixed random order, so that what belongs together lies far
apart in time. 1,200 digits are trained on, 200 choose α, 397 are the test. Needs `pip install scikit-learn`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

import steadygrad as sg
from steadygrad import provenance
from steadygrad.sweep.records import write_records

TRAIN, VALID = (
    1200,
    1400,
)  # the digits before TRAIN are trained on, those between TRAIN and VALID choose α, the rest is the test
NETWORKS = {"rnn": sg.RNN, "gru": sg.GRU, "lstm": sg.LSTM}
UNITS, BATCH, RATE, THRESHOLD = 50, 32, 0.001, 1.0
CHOSEN = {
    "rows": {"rnn": 1.0, "gru": 0.1, "lstm": 10.0},
    "permuted": {"rnn": 10.0, "gru": 0.1, "lstm": 0.1},
}
"""By order and network: of α 0.1, 1, 4 and 10 the one that errs least on the validation set, mean of seeds 101 to 103."""


class Reader(torch.nn.Module):
    """A recurrent layer over the pixels, and a linear read-out of its last state."""

    def __init__(self, network: str, alpha: float) -> None:
        super().__init__()
        self.rnn = NETWORKS[network](1, UNITS, alpha=alpha)
        self.readout = torch.nn.Linear(UNITS, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.readout(self.rnn(pixels)[0][-1])


def digits(order: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences [64, 1797, 1] with values from 0 to 1, and the classes; the same shuffle for everyone."""
    from sklearn.datasets import load_digits

    data = load_digits()
    generator = torch.Generator().manual_seed(0)
    shuffle = torch.randperm(len(data.target), generator=generator)
    pixels = torch.as_tensor(data.data, dtype=torch.float32)[shuffle] / 16
    if order == "permuted":
        pixels = pixels[:, torch.randperm(64, generator=generator)]
    return pixels.T.unsqueeze(-1).contiguous(), torch.as_tensor(data.target)[shuffle]


def train(network: str, order: str, alpha: float, seed: int, epochs: int) -> dict[str, float]:
    """One model: the share of wrong digits on the validation and test sets, and seconds."""
    began, (pixels, classes) = time.perf_counter(), digits(order)
    torch.manual_seed(seed)
    model = Reader(network, alpha)
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    sg.NormClipper(optimizer, threshold=THRESHOLD)
    for _ in range(epochs):
        for chosen in torch.randperm(TRAIN).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(pixels[:, chosen]), classes[chosen]).backward()
            optimizer.step()
    with torch.no_grad():
        wrong = (model(pixels).argmax(1) != classes).double()
    parts = {"valid": wrong[TRAIN:VALID], "test": wrong[VALID:]}
    return {**{part: values.mean().item() for part, values in parts.items()}, "seconds": time.perf_counter() - began}


def main() -> None:
    """Trains every combination asked for; one line each, and at the end the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--order", nargs="+", choices=("rows", "permuted"), default=["rows", "permuted"])
    parser.add_argument("--alpha", nargs="+", type=float, help="0 is no Ω (0, and what was chosen)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--write", type=Path, metavar="FILE", help="add a JSON line for each model as it is trained")
    args = parser.parse_args()
    torch.set_num_threads(1)  # small products: a second thread gains nothing
    for order in args.order:
        for network in args.network:
            for alpha in args.alpha or (0.0, CHOSEN[order][network]):
                found = []
                for seed in args.seeds:
                    found.append(train(network, order, alpha, seed, args.epochs))
                    if args.write:
                        keep(
                            args.write,
                            order,
                            {"network": network, "alpha": alpha, "epochs": args.epochs},
                            seed,
                            found[-1],
                        )
                valid, test = (100 * sum(each[part] for each in found) / len(found) for part in ("valid", "test"))
                shares = f"{valid:5.1f} % wrong of the validation set, {test:5.1f} % of the test set"
                print(f"{order:9}{network:5} α {alpha:<4g} {shares} (mean of {len(found)})", flush=True)


def keep(path: Path, order: str, settings: dict[str, Any], seed: int, result: dict[str, float]) -> None:
    """Add a record to the file; one of the same settings and seed takes the place of the old one."""
    name = f"digits-{order}_{settings['network']}_alpha-{settings['alpha']:g}_seed{seed}"
    about = {"id": name, "grid": "digits", "command": " ".join(["python", *sys.argv]), "problem": f"digits, {order}"}
    made = {"commit": provenance.commit(), "machine": provenance.machine(), "date": provenance.today()}
    write_records(path, [{**about, "seed": seed, "config": settings, "result": result, **made}])


if __name__ == "__main__":
    main()
