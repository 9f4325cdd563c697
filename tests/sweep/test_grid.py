"""Grids: every combination once, readable ids, and settings only where an algorithm has a use for them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from steadygrad import ranges
from steadygrad.experiments import ConfigError, preset
from steadygrad.sweep import GRIDS, Grid, get, read_records
from steadygrad.sweep.named import FIG7, PAPERS_TASKS, SUMS, TASKS


def test_a_product_has_every_combination_once_and_all_of_the_first_seed_first() -> None:
    grid = Grid.product(
        "mine",
        problems=["temporal-order", "addition"],
        lengths=[(50, 50), (50, 200)],
        algorithms=["sgd", "sgd-cr"],
        presets=["paper", "steady"],
        inits=["smart_tanh", "orthogonal"],
        seeds=[3, 1],
    )
    assert len({cell.id for cell in grid.cells}) == len(grid.cells) == 2**6
    assert [cell.config.seed for cell in grid.cells] == [3] * 32 + [1] * 32
    cell = grid.cells[0]
    assert cell.id == "temporal-order_50_sgd_paper_smart_tanh_seed3"
    assert cell.config == preset("temporal-order", "sgd", "paper", length=(50, 50), init="smart_tanh", seed=3)


def test_without_lengths_and_inits_a_cell_is_the_preset_itself() -> None:
    (cell,) = Grid.product("mine", problems=["addition"], algorithms=["sgd-cr"], presets=["paper"]).cells
    assert cell.id == "addition_50-200_sgd-cr_paper_seed1"
    assert cell.config == preset("addition", "sgd-cr", "paper", seed=1)


def test_settings_of_clipping_and_omega_reach_only_the_algorithms_that_have_it() -> None:
    everything = ["sgd", "sgd-c", "sgd-r", "sgd-cr"]
    grid = Grid.product("mine", algorithms=everything, presets=["steady"], threshold=3.0, alpha=5.0)
    found = {cell.config.algorithm: (cell.config.threshold, cell.config.alpha) for cell in grid.cells}
    assert found == {"sgd": (None, 0.0), "sgd-c": (3.0, 0.0), "sgd-r": (None, 5.0), "sgd-cr": (3.0, 5.0)}


def test_a_curriculum_reaches_only_the_lengths_it_can_grow_into() -> None:
    lengths = [(10, 10), (12, 20), (50, 50)]
    grid = Grid.product("mine", lengths=lengths, algorithms=["sgd"], presets=["paper"], curriculum=(10, 15))
    assert {cell.config.length: cell.config.curriculum for cell in grid.cells} == {
        (10, 10): None,
        (12, 20): (10, 15),
        (50, 50): (10, 15),
    }


def test_a_setting_that_no_cell_would_read_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^alpha must be left out: no cell of the grid would read it$"):
        Grid.product("mine", algorithms=["sgd", "sgd-c"], alpha=2.0)


def test_all_faults_of_all_cells_come_at_once_and_each_once() -> None:
    with pytest.raises(ConfigError) as found:
        Grid.product("mine", lengths=[(5, 5), (50, 50)], presets=["paper"], lr=-1.0, batch=0)
    assert len(found.value.faults) == 3
    for name in ("length", "lr", "batch"):
        assert sum(fault.startswith(f"{name} must") for fault in found.value.faults) == 1


def test_near_misses_are_named() -> None:
    with pytest.raises(ValueError, match="did you mean 'addition'"):
        Grid.product("mine", problems=["adition"])
    with pytest.raises(ValueError, match=r"algorithm must be one of .* \(did you mean 'sgd-cr'\?\)"):
        Grid.product("mine", algorithms=["sgdcr"])
    with pytest.raises(ValueError, match=r"preset must be one of .* \(did you mean 'steady'\?\)"):
        Grid.product("mine", presets=["stedy"])
    with pytest.raises(ValueError, match=r"grid must be one of .* \(did you mean 'tasks'\?\)"):
        get("task")
    with pytest.raises(ValueError, match=r"budget must be one of .* \(did you mean 'hours'\?\)"):
        get("fig7", "hour")


def test_two_cells_of_one_name_are_refused_and_a_sum_has_each_once() -> None:
    one = Grid.product("a", seeds=[1])
    with pytest.raises(ValueError, match="is there twice"):
        Grid("b", one.cells + one.cells)
    assert (one + Grid.product("b", seeds=[1, 2])).cells == one.cells + Grid.product("b", seeds=[2]).cells


def test_fig7_has_a_model_for_every_length_algorithm_and_seed() -> None:
    for budget, (size,) in FIG7.items():
        cells = get("fig7", budget).cells
        assert len(cells) == 3 * len(size.lengths) * size.seeds
        assert {cell.config.length for cell in cells} == set(size.lengths)
        assert all(low == high for low, high in size.lengths)
        assert {cell.config.algorithm for cell in cells} == {"sgd", "sgd-c", "sgd-cr"}
    full = get("fig7", "full").cells
    assert {(cell.preset, cell.config.max_updates) for cell in full} == {("paper", 5_000_000)}
    assert len({cell.config.seed for cell in full}) == 50


def test_panels_are_the_final_editions_settings_from_three_initialisations() -> None:
    cells = get("panels", "hours").cells
    number = Counter((cell.config.init, cell.config.algorithm) for cell in cells)
    assert {number[init, "sgd-cr"] for init in ("basic_tanh", "smart_tanh")} == {5 * 5}
    assert number["sigmoid", "sgd-cr"] == number["sigmoid", "sgd"] == number["basic_tanh", "sgd-c"] == 5 * 3
    for config in (cell.config for cell in cells):
        assert (config.lr, config.optimizer, config.momentum, config.curriculum) == (0.01, "sgd", None, None)
        assert config.nonlinearity == ("sigmoid" if config.init == "sigmoid" else "tanh")
        assert (config.threshold, config.alpha) == {"sgd": (None, 0.0), "sgd-c": (1.0, 0.0), "sgd-cr": (1.0, 4.0)}[
            config.algorithm
        ]
        assert config.omega == "proceedings"
        assert config.max_updates == (500_000 if config.algorithm == "sgd-cr" else 100_000)


def test_the_three_algorithms_of_fig7_differ_in_clipping_and_omega_alone() -> None:
    for cell in get("fig7", "minutes").cells:
        own = {"algorithm": "sgd-cr", "alpha": 8.0, "threshold": 1.0, "nonfinite": "skip"}
        assert cell.config.changed(**own) == next(
            other.config.changed(**own)
            for other in get("fig7", "minutes").cells
            if other.config.algorithm == "sgd-cr"
            and (other.config.length, other.config.seed) == (cell.config.length, cell.config.seed)
        )


def test_another_preset_of_fig7_is_that_preset_and_not_the_budgets_recipe() -> None:
    for cell in get("fig7", "minutes", presets=["paper"], seeds=1).cells:
        length, algorithm = cell.config.length, cell.config.algorithm
        limits = {"max_updates": FIG7["minutes"][0].settings["max_updates"], "after_success": "stop"}
        assert cell.config == preset("temporal-order", algorithm, "paper", length=length, seed=1, **limits)


def test_tasks_and_ablation_are_every_task_as_the_paper_trains_it() -> None:
    grid = get("tasks", "hours") + get("ablation", "hours")
    size = TASKS["hours"][0]
    for task in PAPERS_TASKS:
        mine = [cell for cell in grid.cells if cell.config.problem == task]
        expected = {(length, length) for length in (50, 100, 150, 200)} if "memorization" in task else {(50, 200)}
        assert {cell.config.length for cell in mine} == expected
        seeds = Counter((cell.preset, cell.config.algorithm) for cell in mine)
        solving = 8 if task == "random-permutation" else 5
        rows = {("paper", "sgd-cr"): 1, ("steady", "sgd-c"): 3, ("steady", "sgd-r"): 3, ("steady", "sgd-cr"): solving}
        assert seeds == {row: number * len(expected) for row, number in rows.items()}
        shorter = [cell for cell in mine if (cell.preset, cell.config.algorithm) != ("steady", "sgd-cr")]
        assert {cell.config.max_updates for cell in shorter} == {size.of["paper"]["max_updates"]}
        assert {cell.test_lengths for cell in mine} == {() if "memorization" in task else (250, 300, 400)}


def test_the_claims_are_every_task_by_the_papers_network_with_omega_and_without() -> None:
    cells = [cell for cell in get("claims", "hours").cells if cell.preset == "tanh" and cell.config.length[1] <= 500]
    assert {(c.config.nonlinearity, c.config.init, c.config.optimizer) for c in cells} == {
        ("tanh", "basic_tanh", "momentum")
    }
    for task in PAPERS_TASKS[1:]:
        mine = [cell for cell in cells if cell.config.problem == task]
        expected = {(50, 50), (200, 200)} if "memorization" in task else {(50, 500 if task in SUMS else 200)}
        assert {cell.config.length for cell in mine} == expected
        found = Counter((cell.config.algorithm, cell.config.max_updates) for cell in mine)
        with_omega = (8 if task == "random-permutation" else 5) * len(expected)
        assert found == {("sgd-cr", 300_000): with_omega, ("sgd-c", 100_000): 3 * len(expected)}
    assert all(c.config.options == {"criterion": "squared"} for c in cells if c.config.problem in SUMS)


def test_the_longest_are_tested_at_their_length_and_at_twice_that() -> None:
    for cell in get("longest", "hours").cells:
        low, high = cell.config.length
        memorizes = "memorization" in cell.config.problem
        assert (low, cell.test_lengths) == ((high, (high,)) if memorizes else (50, (high, 2 * high)))


def test_every_named_grid_can_be_made_with_other_seeds_and_settings() -> None:
    for name in GRIDS:
        limit = "epochs" if name in ("table1", "table2") else "max_updates"
        grid = get(name, seeds=[7], **{limit: 11})
        assert {(cell.config.seed, getattr(cell.config, limit)) for cell in grid.cells} == {(7, 11)}


def test_axes_are_read_as_ranges_and_lists() -> None:
    assert ranges.lengths("10, 50:200") == [(10, 10), (50, 200)]
    assert ranges.seeds("1:3,2,9") == [1, 2, 3, 9]
    for bad in ("50-200", "a", "50:", "1.5"):
        with pytest.raises(ValueError, match=f"^length must be T or LOW:HIGH, such as 50 or 50:200, not '{bad}'$"):
            ranges.lengths(bad)
    with pytest.raises(ValueError, match=r"^seeds must be FIRST:LAST in this order, such as 1:5, not '5:1'$"):
        ranges.seeds("5:1")


def ids(**axes: object) -> list[str]:
    return [cell.id for cell in Grid.product("mine", **{"algorithms": ["sgd-cr"], "presets": ["steady"], **axes}).cells]


def test_an_id_names_settings_that_are_not_the_presets_so_that_cells_can_share_a_folder() -> None:
    gated = {"problems": ["recall"], "lengths": [(50, 50)], "network": "gru", "lr": 0.001, "alpha": 1.0}
    assert ids(**gated) == ["recall_50_sgd-cr_steady_gru_seed1"]
    assert ids(**gated, inits=["chrono"], longest=50) == ["recall_50_sgd-cr_steady_gru_chrono_longest-50_seed1"]
    assert ids(**{**gated, "alpha": 0.5}) == ["recall_50_sgd-cr_steady_gru_alpha-0.5_seed1"]
    assert ids(alpha=10.0) == ids() == ["temporal-order_50-200_sgd-cr_steady_seed1"]
    assert ids(optimizer="momentum", momentum=0.5, lr=0.01, threshold=3.0, omega="program") == [
        "temporal-order_50-200_sgd-cr_steady_optimizer-momentum_lr-0.01_threshold-3_omega-program_seed1"
    ]
    # Limits are not named: a cell goes on to a higher one. Nor is what an algorithm does not read.
    assert ids(max_updates=7, hidden=3) == ids()
    assert ids(algorithms=["sgd", "sgd-cr"], alpha=4.0) == [
        "temporal-order_50-200_sgd_steady_seed1",
        "temporal-order_50-200_sgd-cr_steady_alpha-4_seed1",
    ]


def test_ids_of_all_records_are_those_of_the_same_settings_today() -> None:
    recall = {cell.id for cell in get("recall", "hours").cells}
    assert recall >= {record["id"] for record in read_records(Path(__file__).parents[2] / "results" / "recall.jsonl")}
    tasks = {cell.id for cell in (get("tasks", "hours") + get("ablation", "hours")).cells}
    fig7 = {"lengths": [(50, 200)], "algorithms": ["sgd-c", "sgd-cr"], "presets": ["fig7"], "average": 500}
    claims = {cell.id for cell in (get("claims", "hours") + Grid.product("own", **fig7, seeds=range(1, 6))).cells}
    assert claims >= {record["id"] for record in read_records(Path(__file__).parents[2] / "results" / "claims.jsonl")}
    named = {"fig7": get("fig7", "minutes", seeds=5), "longest": get("longest", "hours")}
    named |= {"table2": get("table2", "hours")}
    for name, grid in named.items():
        there = {record["id"] for record in read_records(Path(__file__).parents[2] / "results" / f"{name}.jsonl")}
        assert there == {cell.id for cell in grid.cells}
    assert tasks >= {record["id"] for record in read_records(Path(__file__).parents[2] / "results" / "tasks.jsonl")}
    panels = {cell.id for cell in get("panels", "hours").cells}
    assert panels >= {record["id"] for record in read_records(Path(__file__).parents[2] / "results" / "panels.jsonl")}
    music = {cell.id for cell in get("table1", "hours").cells}  # whose seeds are recorded one after the other
    assert music >= {record["id"] for record in read_records(Path(__file__).parents[2] / "results" / "table1.jsonl")}
