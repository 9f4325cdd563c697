"""RESULTS.md comes from the records alone, and this repository's own is up to date."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_up import record, write_lines

from steadygrad import cli
from steadygrad.report import results

ROOT = Path(__file__).parents[2]


def stale(folder: Path, page: Path) -> bool:
    """What the command says of a page, which it does not write."""
    return cli.main(["report", "--results", str(folder), "--write", str(page), "--check"]) == 1


def test_the_repositorys_own_page_is_what_its_records_give() -> None:
    assert not stale(ROOT / "results", ROOT / "RESULTS.md"), f"make it again: {results.COMMAND}"


def test_without_records_every_part_says_how_to_run_it(tmp_path: Path) -> None:
    page = results.render(tmp_path)
    assert page.count("Not run yet: `steadygrad ") == 8
    assert "|" not in page


def test_the_page_has_the_counts_the_medians_the_errors_and_the_command(tmp_path: Path) -> None:
    write_lines(tmp_path / "tasks.jsonl", [record(seed=seed, solved=seed < 5) for seed in range(1, 6)])
    write_lines(tmp_path / "ablation.jsonl", [record(algorithm="sgd-c", seed=seed, solved=False) for seed in (1, 2)])
    lengths = [(T, T) for T in (10, 200)]
    write_lines(tmp_path / "fig7.jsonl", [record(length=each, grid="fig7") for each in lengths])
    further = {"generalisation": {"1000": 0.0, "2000": 0.0004}, "config": {"success": 0.0002}}
    write_lines(tmp_path / "longest.jsonl", [record(length=(50, 1000), **further)])
    page = results.render(tmp_path)
    assert page.count("Not run yet: `steadygrad reproduce table") == 2
    assert page.count("Not run yet") == 5  # these, the panels, recall and the comparison
    # Seeds 1 to 4 solved it, after 1,000 to 4,000 updates and 1 to 4 minutes.
    assert "| temporal-order | 50–200 | steady | 4/5 | 2,500 | 2.5 | 0.10 % | 0.20 % | 0.75 % (worst 1.20 %) |" in page
    assert "| temporal-order | 50–200 | steady without Ω | 0/2 | > 40,000 | – | – | – | – |" in page
    assert "| SGD-CR (clipping and Ω) | 1/1 (21–100 %) | 1/1 (21–100 %) |" in page
    assert "| temporal-order | 50–1000 | steady | 0.02 % | 1/1 | 1,000 | 1 | 0 % | 0.04 % |" in page
    assert "7 runs, 0.2 core-hours, 2026-11-15, on A fine processor (2 threads), commit abc1234." in page
    assert "Made by `steadygrad reproduce tasks --budget hours`" in page


def test_a_cell_that_two_grids_ran_counts_once(tmp_path: Path) -> None:
    shorter = [record(preset="paper", seed=seed, solved=False) for seed in (1, 2)]
    write_lines(tmp_path / "tasks.jsonl", shorter)
    write_lines(tmp_path / "claims.jsonl", [record(preset="paper", seed=seed, grid="claims") for seed in (2, 3)])
    assert "| temporal-order | 50–200 | paper | 2/3 | 2,500 | 2.5 |" in results.render(tmp_path)


def test_sweeps_that_differ_in_their_seeds_are_one_command_below_the_table(tmp_path: Path) -> None:
    sweeps = [f"steadygrad sweep claims --seeds {seeds} --lr 0.1" for seeds in ("1", "2", "3", "7,9:10")]
    others = [
        "steadygrad sweep claims --seeds 4",
        "steadygrad reproduce tasks --seeds 5",
        "steadygrad reproduce tasks --seeds 3",
    ]
    made = [record(seed=seed, command=each) for seed, each in enumerate([*sweeps, *others], 1)]
    write_lines(tmp_path / "claims.jsonl", made)
    merged = ["steadygrad sweep claims --seeds 1:3,7,9:10 --lr 0.1", others[0]]
    assert f"Made by `{'`, `'.join([*sorted(others[1:]), *merged])}`.</sub>" in results.render(tmp_path)


def test_core_hours_are_added_up_by_grid_settings_and_algorithm(tmp_path: Path) -> None:
    def run(seed: int, hours: float) -> dict[str, Any]:
        made = record(seed=seed)
        return {**made, "result": {**made["result"], "seconds": 1.0, "total_seconds": 3600 * hours}}

    write_lines(tmp_path / "tasks.jsonl", [run(1, 0.5), run(2, 1.25), record(algorithm="sgd-c", seed=3)])
    rows = results.costs(tmp_path).rows
    assert [row[:4] for row in rows] == [["tasks", "steady", "sgd-c", "1"], ["tasks", "steady", "sgd-cr", "2"]]
    assert rows[1][4] == "1.8"  # of 1.75


def test_presets_of_fig7_have_tables_of_their_own(tmp_path: Path) -> None:
    write_lines(tmp_path / "fig7.jsonl", [record(length=(10, 10), preset=preset) for preset in ("paper", "steady")])
    page = results.render(tmp_path)
    assert page.index("**Settings `paper`.**") < page.index("**Settings `steady`.**")
    assert page.count("| algorithm | T = 10 |") == 2


def test_a_page_is_stale_as_soon_as_a_record_changes(tmp_path: Path) -> None:
    folder, page = tmp_path / "results", tmp_path / "RESULTS.md"
    write_lines(folder / "tasks.jsonl", [record()])
    assert stale(folder, page)  # there is none yet
    page.write_text(results.render(folder), encoding="utf-8")
    assert not stale(folder, page)
    write_lines(folder / "tasks.jsonl", [record(solved=False)])
    assert stale(folder, page)


def test_the_command_writes_the_page_and_checks_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, page = tmp_path / "results", tmp_path / "RESULTS.md"
    write_lines(folder / "tasks.jsonl", [record()])
    words = ["report", "--results", str(folder), "--write", str(page)]
    assert cli.main([*words, "--check"]) == 1
    assert not page.exists()
    assert cli.main(words) == 0
    assert page.read_text(encoding="utf-8") == results.render(folder)
    assert cli.main([*words, "--check"]) == 0
    assert "is up to date" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "one of DIR and --results must be given, and not both"),
        (["runs", "--results", "results"], "one of DIR and --results must be given, and not both"),
        (["nowhere"], "must be the folder of a sweep or of a run"),
        (["--results", "nowhere"], "--results must be a folder of records, and nowhere is none"),
        (["runs", "--check"], "--write, --readme and --check must be left out without --results"),
        (["--results", "results", "--out", "a.html"], "--out must be left out with --results"),
    ],
)
def test_bad_words_are_one_sentence_and_exit_code_2(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_gated_networks_on_text_and_what_watching_costs_are_shown(tmp_path: Path) -> None:
    def of(algorithm: str, test: float, **config: float) -> dict[str, Any]:
        result = {"seconds": 9.0, "epochs": 4, "train": 3.8, "test": test}
        settings = {"network": "gru", "hidden": 200, **config}
        return {**record(algorithm=algorithm), "id": algorithm, "problem": "ptb", "config": settings, "result": result}

    write_lines(tmp_path / "gated_text.jsonl", [of("sgd-c", 3.854), of("sgd-cr", 3.981, alpha=1.0)])
    page = results.render(tmp_path)
    assert "| GRU, 200 units | without Ω | 1 | 4 | 3.800 | 3.854 |" in page
    assert "| GRU, 200 units | α = 1 | 1 | 4 | 3.800 | 3.981 |" in page
    bench = json.loads((ROOT / "results" / "bench.json").read_text(encoding="utf-8"))
    bench["watch"] = {
        "small": {"sg.GRU": {"cost": 0.014}, "sg.RNN": {"cost": 0.002}},
        "large": {"sg.GRU": {"cost": 0.003}},
    }
    (tmp_path / "bench.json").write_text(json.dumps(bench), encoding="utf-8")
    said = "takes at most 1.4 % of the training time (sg.GRU, small; the median of 3 layers and sizes"
    assert said in results.speed(tmp_path)
