"""The speed of a training step, from results/bench.json (`make bench`): a table for README.md and RESULTS.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

OURS = "steadygrad with Ω"
COMPARED = {
    "torch.nn.RNN": "torch.nn.RNN, without Ω",
    "Ω by an RNNCell loop": "Ω by an RNNCell loop and autograd",
    "JAX scan": "a jitted JAX scan, without Ω",
}
RATIOS = {
    "Ω on / off": "a step with Ω, of one without",
    "recording on / off": "a step that records its flow, of one that does not",
}


def render(folder: Path) -> str:
    """The table of `folder`/bench.json as Markdown; one sentence where it is missing.

    >>> render(Path("nowhere"))
    'Not measured yet: `make bench`\\n'
    """
    path = folder / "bench.json"
    if not path.is_file():
        return "Not measured yet: `make bench`\n"
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    sizes = list(record["milliseconds"])
    rows = [["", *sizes], ["---", *["---:"] * len(sizes)]]
    rows.append([f"**{OURS}**", *(f"**{record['milliseconds'][size][OURS]:.2f} ms**" for size in sizes)])
    for name, label in COMPARED.items():
        times = [record["milliseconds"][size] for size in sizes]
        if all(name in each for each in times):
            rows.append([label, *(f"{each[name]:.2f} ms ({each[name] / each[OURS]:.2f}×)" for each in times)])
    shares = [each[OURS] / each["torch.nn.RNN"] for each in (record["peak_bytes"][size] for size in sizes)]
    rows.append(["peak memory, of torch.nn.RNN's", *(f"{share:.2f}" for share in shares)])
    for name, label in RATIOS.items():
        if "ratios" in record:
            rows.append([label, *(f"{record['ratios'][size][name]:.2f}×" for size in sizes)])
    machine = record["environment"]
    source = (
        f"<sub>{machine['cpu']}, {machine['threads']} threads, kernel {machine['kernel']}, torch {machine['torch']}, "
        f"commit {machine['commit']}; float32, minimum of repeats (the last two rows: medians of steps that "
        f"alternate), all in one run: `{record['command']}`.</sub>"
    )
    return "\n".join([*("| " + " | ".join(row) + " |" for row in rows), "", *_training(record), source, ""])


def _training(record: dict[str, Any]) -> list[str]:
    """Of whole training updates, one sentence each; records made before they were measured have none."""
    said: list[str] = []
    if around := record.get("overhead"):
        said.append(
            f"A whole training update of temporal order at T 100, batch 20, hidden 50 (data, read-out, loss, clipping, "
            f"optimizer, bookkeeping) takes {around['update_ms']:.2f} ms: {around['overhead']:.2f} times its layer's "
            f"forward and backward pass with Ω, {around['layer_ms']:.2f} ms, come on top of it, on {around['threads']:.0f} "
            "thread."
        )
    if text := record.get("tokens"):
        said.append(
            f"A character model in training ({text['size']}, {text['threads']} threads), clipping and SGD included: "
            f"{text[OURS]:,.0f} tokens/s with Ω and sigmoid units, {text['ratio']:.2f} times the "
            f"{text['torch.nn.RNN']:,.0f} of torch.nn.RNN, nn.Linear and cross_entropy (tanh units: torch.nn.RNN has no "
            "sigmoid)."
        )
    return [line for sentence in said for line in (sentence, "")]
