"""README.md shows what the records say, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steadygrad.paper import reach
from steadygrad.report import readme
from steadygrad.sweep.records import write_records

ROOT = Path(__file__).parents[2]


def record(
    task: str, algorithm: str, seed: int, solved: bool, length: tuple[int, int] = (50, 200), error: float = 0.01
) -> dict[str, Any]:
    result = {"solved": solved, "updates": 1000 * seed, "seconds": 1.0}
    beyond = {"400": 0.01 * seed, str(length[1]): error} if solved else {}
    made = {"problem": task, "length": list(length), "preset": "steady", "algorithm": algorithm, "result": result}
    return {**made, "generalisation": beyond, "id": f"{task}_{length}_{algorithm}_{seed}"}


def test_the_readme_shows_what_the_records_say() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.filled(page, ROOT / "results") == page, "make it again: make results"


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("bench", "Not measured yet: `make bench`"),
        ("tasks", "Not run yet: `steadygrad reproduce tasks --budget hours --records results`"),
        *(
            (part, "Not run yet: `steadygrad sweep claims --budget hours --out runs/claims --records results`")
            for part in ("claims", "tanh")
        ),
        ("longest", "Not run yet: `steadygrad sweep longest --out runs/longest --records results`"),
        ("recall", "Not run yet: `steadygrad sweep recall --budget hours --out runs/recall --records results`"),
    ],
)
def test_a_part_without_records_names_the_command_that_makes_them(tmp_path: Path, part: str, sentence: str) -> None:
    page = f"a\n<!-- generated: {part} -->\nold\n<!-- end -->\n"
    assert readme.filled(page, tmp_path) == page.replace("old", sentence)


def test_recall_is_shown_by_network_and_delay(tmp_path: Path) -> None:
    def of(network: str, algorithm: str, seed: int, solved: bool) -> dict[str, Any]:
        made = record("recall", algorithm, seed, solved, (50, 50))
        result = {**made["result"], "error": 0.0 if solved else 0.5}
        return {**made, "config": {"network": network, "alpha": 1.0}, "result": result}

    records = [of("gru", "sgd-cr", seed, seed > 1) for seed in (1, 2, 3)] + [of("gru", "sgd-c", 1, False)]
    write_records(tmp_path / "recall.jsonl", [*records, {**of("lstm", "sgd-cr", 1, True), "id": "another"}])
    *_, gru, lstm = readme.recall(tmp_path).markdown().splitlines()
    assert gru == "| GRU | 50 | 2/3 (2,500) | 0/1 (50.0 % wrong) |"
    assert lstm == "| LSTM | 50 | 1/1 (1,000) | – |"
    assert set(readme.pictures(tmp_path)) == {"recall.png"}
    chosen = {**of("gru", "sgd-cr", 1, True), "id": "chosen", "config": {"network": "gru", "alpha": 10.0}}
    write_records(tmp_path / "recall.jsonl", [chosen])
    *_, gru, _ = readme.recall(tmp_path).markdown().splitlines()
    assert gru == "| GRU | 50 | 2/3 (2,500) | 1/1 (1,000) | 0/1 (50.0 % wrong) |"
    assert readme.pictures(tmp_path / "nowhere") == {}


def test_a_task_is_shown_with_omega_and_without_and_at_its_longest(tmp_path: Path) -> None:
    with_omega = [record("addition", "sgd-cr", seed, seed < 4) for seed in (1, 2, 3, 4)]
    without = [record("addition", "sgd-c", seed, False) for seed in (1, 2)]
    shorter = [record("memorization-5bit", "sgd-cr", 1, True, (50, 50))]
    write_records(tmp_path / "tasks.jsonl", [*with_omega, *without, *shorter])
    longest = [
        record("addition", "sgd-cr", seed, solved, (50, high), error)
        for seed, solved, high, error in [
            *[(1, True, 500, 0.01), (2, True, 500, 0.0), (3, True, 500, 0.0)],
            *[(1, True, 700, 0.011), (2, True, 700, 0.0), (3, True, 700, 0.0)],  # solved on the whole, not at 700 alone
            *[(1, True, 900, 0.0), (2, False, 900, 0.0), (3, True, 900, 0.0)],
            *[(1, True, 1100, 0.0), (2, True, 1100, 0.0)],  # too few seeds
        ]
    ]
    write_records(tmp_path / "longest.jsonl", longest)
    *_, last = readme.tasks(tmp_path).markdown().splitlines()
    assert last == "| addition | 50–200 | 3/4 | 0/2 | 2,000 | 2.00 % |"
    # another model than the one above it: its own table says on which lengths it was trained
    *_, last = readme.longest(tmp_path).markdown().splitlines()
    assert last == "| addition | 50–500 | 500 | 3/3 | 2,000 | 1.00 % |"


def test_a_claim_stands_beside_the_settings_that_reach_it_and_says_its_edition(tmp_path: Path) -> None:
    def of(task: str, algorithm: str, preset: str, seed: int, solved: bool, length: tuple[int, int]) -> dict[str, Any]:
        made = record(task, algorithm, seed, solved, length)
        return {**made, "preset": preset, "id": f"{made['id']}_{preset}"}

    made = [of("addition", "sgd-cr", "tanh", seed, seed < 3, (50, 500)) for seed in (1, 2, 3)]
    made += [of("addition", "sgd-c", "tanh", 1, False, (50, 500))]
    made += [of("temporal-order", "sgd-cr", name, 1, True, (50, 200)) for name in ("latch", "tanh", "proceedings")]
    made += [of("memorization-5bit", "sgd-cr", "tanh", 1, True, (50, 50))]
    write_records(tmp_path / "claims.jsonl", made)
    _, _, order, addition, memorization = readme.claims(tmp_path).markdown().splitlines()
    assert order.startswith(
        "| temporal-order | 5 of 5; none of 10,000 wrong at any length up to 5,000 (final) | `latch` |"
    )
    assert addition == (
        "| addition | under 1 % up to 500 steps (final) | `tanh` | 50–500 | 2/3 | 0/1 | 1,500 | 1.50 % | 1.00 % | – |"
    )
    assert "a model for each of 50, 100, 150, 200 (arXiv) | `tanh` | 50 | 1/1 | – |" in memorization


def test_the_papers_network_is_shown_with_omega_and_without_and_how_far_its_error_reaches(tmp_path: Path) -> None:
    def of(algorithm: str, seed: int, solved: bool, last: float) -> dict[str, Any]:
        made = {**record("temporal-order", algorithm, seed, solved), "preset": "proceedings"}
        made["result"] = {**made["result"], "error": 0.0 if solved else 0.75}
        return {**made, "flow": {"steps": 200, "stride": 100, "norms": [1.0, last]}}

    made = [
        of("sgd-cr", 1, True, 0.5),
        of("sgd-cr", 2, True, 0.7),
        of("sgd-cr", 3, True, 0.1),
        of("sgd-c", 1, False, 1e-9),
    ]
    write_records(tmp_path / "claims.jsonl", made)
    *_, with_omega, without = readme.tanh(tmp_path).markdown().splitlines()
    assert with_omega.startswith("| `proceedings` | clipping and Ω | 3/3 | 3/3 | 2,000 |")
    assert without.startswith("| `proceedings` | clipping alone | 0/1 | 0/1 | none in ")
    strict = of("sgd-cr", 4, False, 0.1)  # nearly right, and not solved by its own measure
    strict["result"] = {**strict["result"], "error": 0.0005}
    write_records(tmp_path / "claims.jsonl", [strict])
    assert "| `proceedings` | clipping and Ω | 4/4 | 3/4 | 2,000 |" in readme.tanh(tmp_path).markdown()
    assert reach.curves(made, "proceedings") == {
        "sgd-cr": ([0, 100], [1.0, 0.5], [1.0, 0.1], [1.0, 0.7]),
        "sgd-c": ([0, 100], [1.0, 1e-9], [1.0, 1e-9], [1.0, 1e-9]),
    }
    assert set(readme.pictures(tmp_path)) == {"reach.png"}
