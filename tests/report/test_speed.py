"""The table of speed is what the record gives."""

from __future__ import annotations

import json
from pathlib import Path

from steadygrad.report import results

ROOT = Path(__file__).parents[2]


def test_another_record_gives_another_table(tmp_path: Path) -> None:
    record = json.loads((ROOT / "results" / "bench.json").read_text(encoding="utf-8"))
    size = next(iter(record["milliseconds"]))
    record["milliseconds"][size][results.OURS] *= 2
    (tmp_path / "bench.json").write_text(json.dumps(record), encoding="utf-8")
    assert results.speed(tmp_path) != results.speed(ROOT / "results")


def test_whole_training_updates_stand_below_the_table_once_they_are_measured(tmp_path: Path) -> None:
    record = json.loads((ROOT / "results" / "bench.json").read_text(encoding="utf-8"))
    record["overhead"] = {"threads": 1, "update_ms": 1.5, "layer_ms": 1.0, "overhead": 0.5}
    text = {"size": "500 units", "threads": 2, results.OURS: 90_000.0, "torch.nn.RNN": 45_000.0, "ratio": 2.0}
    for tokens in (None, text):
        (tmp_path / "bench.json").write_text(json.dumps({**record, "tokens": tokens}), encoding="utf-8")
        page = results.speed(tmp_path)
        assert "takes 1.50 ms: 0.50 times its layer's forward and backward pass with Ω, 1.00 ms," in page
        assert ("90,000 tokens/s with Ω and sigmoid units, 2.00 times the 45,000 of torch.nn.RNN" in page) is bool(
            tokens
        )


def test_what_omega_and_the_recording_cost_stands_in_the_table_once_it_is_measured(tmp_path: Path) -> None:
    record = json.loads((ROOT / "results" / "bench.json").read_text(encoding="utf-8"))
    record["ratios"] = {size: {"Ω on / off": 1.03, "recording on / off": 1.01} for size in record["milliseconds"]}
    (tmp_path / "bench.json").write_text(json.dumps(record), encoding="utf-8")
    page = results.speed(tmp_path)
    assert "| a step with Ω, of one without | 1.03× | 1.03× |" in page
    assert "| a step that records its flow, of one that does not | 1.01× | 1.01× |" in page


def test_gated_layers_have_a_line_for_each_size_and_their_products_once_they_are_measured(tmp_path: Path) -> None:
    record = json.loads((ROOT / "results" / "bench.json").read_text(encoding="utf-8"))
    found = {"torch_ms": 6.0, "omega_ms": 2.0, "times_quicker": 3.0, "omega_on_off": 1.25, "memory_of_torchs": 0.5}
    record["gated"] = {"GRU": {"small": found}, "LSTM": {"large": {**found, "products_at_peak_ms": 1.75}}}
    (tmp_path / "bench.json").write_text(json.dumps(record), encoding="utf-8")
    page = results.speed(tmp_path)
    assert "| **sg.GRU with Ω**, small | **2.00 ms** | 6.00 ms (3.00×) | 1.25× | 0.50 | – |" in page
    assert "| **sg.LSTM with Ω**, large | **2.00 ms** | 6.00 ms (3.00×) | 1.25× | 0.50 | 1.75 ms |" in page
    del record["gated"]
    (tmp_path / "bench.json").write_text(json.dumps(record), encoding="utf-8")
    assert "sg.GRU" not in results.speed(tmp_path)
