"""Pages: everything is inside the file, the numbers are those of the records, and nothing breaks on what is missing."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from made_up import record, run_folder

from in_browser import opened
from steadygrad.experiments import Config
from steadygrad.page import Page
from steadygrad.report import pages, tables
from steadygrad.report.tables import Table

pytest.importorskip("matplotlib")
VOID = {"meta", "img"}


class Reader(HTMLParser):
    """Reads a page: its cells, its pictures, what it would fetch, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.pictures: list[tuple[str, bytes]] = []
        self.fetched: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")
        values = {name: value or "" for name, value in attrs}
        for name in ("src", "href", "data", "srcset"):
            found = values.get(name)
            if tag == "a":  # followed when it is clicked on; it leads into the sweep's own folder
                assert found is None or not re.match(r"/|\w+:|\.\.", found)
            elif found is not None and not found.startswith("data:"):
                self.fetched.append(found)
        if tag == "img":
            kind, _, data = values["src"].partition(";base64,")
            self.pictures.append((kind, base64.b64decode(data, validate=True)))
            assert values["alt"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open:
            self.cells[-1] += data


def check_self_contained(text: str) -> Reader:
    reader = Reader(text)
    assert reader.fetched == []
    assert "<script" not in text
    assert "@import" not in text
    assert not re.search(r"url\(", text.partition("</style>")[0])
    for kind, picture in reader.pictures:
        assert kind == "data:image/svg+xml"
        assert b"<svg" in picture
        # Names of formats are addresses too; what would be fetched is in an href.
        assert not re.search(rb'href="(?!#|data:)', picture)
    return reader


def test_what_was_typed_can_not_break_the_page() -> None:
    page = Page("a < b & c", '<script>"x"</script>')
    page.heading("<h>")
    page.text("<p>")
    page.text("run", "a && b > c")
    page.table(Table(["<x>"], [["</table>"]]))
    page.footer("<f>")
    reader = check_self_contained(page.render())
    assert reader.cells == ["</table>"]


def test_the_page_of_fig7_has_the_counts_of_its_records_and_the_figure() -> None:
    records = [
        record(length=(T, T), algorithm=a, solved=a == "sgd-cr") for a in ("sgd", "sgd-c", "sgd-cr") for T in (10, 50)
    ]
    page = pages.of_grid("fig7", records, "steadygrad reproduce fig7").render()
    reader = check_self_contained(page)
    assert len(reader.pictures) == 1
    assert reader.cells[: 3 * 3] == [
        *("SGD", "0/1 (0–79 %)", "0/1 (0–79 %)"),
        *("SGD-C (clipping)", "0/1 (0–79 %)", "0/1 (0–79 %)"),
        *("SGD-CR (clipping and Ω)", "1/1 (21–100 %)", "1/1 (21–100 %)"),
    ]
    assert "Measured beyond 20 steps: SGD 0 of 1 runs, SGD-C 0 of 1 runs, SGD-CR 1 of 1 runs solved the task." in page
    assert "A fine processor, 2 threads" in page
    assert "commit abc1234" in page


def test_the_page_of_the_tasks_says_what_was_measured_and_what_the_paper_says() -> None:
    records = [record(seed=seed, preset=preset) for preset in ("paper", "steady") for seed in (1, 2, 3)]
    reader = check_self_contained(pages.of_grid("tasks", records, "steadygrad reproduce tasks").render())
    assert reader.cells[:10] == [
        *("temporal-order", "50–200", "paper", "3/3", "2,000", "2", "0.10 %", "0.20 %", "0.60 % (worst 0.90 %)"),
        "100 % with one model for 50–200; generalises up to 400 steps",
    ]


def test_the_page_of_a_run_shows_its_verdict_its_curves_and_its_gradients(tmp_path: Path) -> None:
    page = pages.of(run_folder(tmp_path / "run")).render()
    assert len(check_self_contained(page).pictures) == 3
    assert "Solved after 4,000 updates (1.5 minutes); best weights: 0 % wrong." in page
    unfinished = pages.of(run_folder(tmp_path / "other", result=False)).render()
    assert "there is no result yet" in unfinished


def test_the_page_of_a_run_that_has_just_begun_has_no_pictures_and_does_not_fail(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", result=False)
    (folder / "flow.jsonl").write_text("")
    (folder / "metrics.jsonl").write_text("")
    assert check_self_contained(pages.of(folder).render()).pictures == []


def sweep_folder(folder: Path) -> Path:
    records = [record(length=(T, T), algorithm=a, solved=a == "sgd-cr") for a in ("sgd", "sgd-cr") for T in (10, 50)]
    for each in records:
        low, high = each["length"]
        more = {"threshold": 1.0, "alpha": 2.0} if each["algorithm"] == "sgd-cr" else {}
        config = Config(each["problem"], each["algorithm"], (low, high), **more)
        cell = run_folder(folder / each["id"], config)
        about = {key: each[key] for key in ("id", "grid", "command", "preset", "commit", "version", "machine", "date")}
        (cell / "cell.json").write_text(json.dumps({**about, "config": config.as_dict()}))
        rest = {"errors": {"wrong": 0.0}, "best_updates": 1, "total_updates": 1}
        (cell / "result.json").write_text(json.dumps({**each["result"], **rest}))
    failed = folder / "broken"
    failed.mkdir()
    (failed / "cell.json").write_text(json.dumps({**about, "id": "broken", "config": config.as_dict()}))
    (failed / "failed.json").write_text(json.dumps({"reason": "ValueError: no luck"}))
    ids = [*(each["id"] for each in records), "broken", "later"]
    about = {"grid": "mine", "command": "steadygrad sweep mine", "cells": ids}
    (folder / "sweep.json").write_text(json.dumps(about))
    return folder


def test_the_page_of_a_sweep_counts_what_is_solved_failed_and_left(tmp_path: Path) -> None:
    page = pages.of(sweep_folder(tmp_path)).render()
    reader = check_self_contained(page)
    assert "2 of 4 finished runs solved their problem; 1 failed; 1 are left to run." in page
    assert len(reader.pictures) == 2  # success against length, and how every run learned
    assert "failed: ValueError: no luck" in reader.cells
    assert "<code>steadygrad sweep mine</code>" in page


def test_the_page_of_a_sweep_that_has_just_begun_does_not_fail(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text(json.dumps({"grid": "mine", "command": "", "cells": ["a"]}))
    page = pages.of(tmp_path).render()
    assert "0 runs are finished; 1 are left to run." in page
    assert '<a href="a/">a</a></td><td class="text">waiting</td>' in page


def test_a_folder_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="must be the folder of a sweep or of a run"):
        pages.of(tmp_path)


def test_a_table_is_the_same_in_markdown_html_and_text() -> None:
    table = Table(["a", "b"], [["x|y", "1"], ["z", "22"]])
    assert table.markdown().splitlines() == ["| a | b |", "|---|--:|", "| x\\|y | 1 |", "| z | 22 |"]
    assert table.plain().splitlines() == ["a     b", "x|y   1", "z    22"]
    assert Reader(table.html()).cells == ["x|y", "1", "z", "22"]
    with pytest.raises(ValueError, match=r"^a table's row must have 2 entries, not 1"):
        Table(["a", "b"], [["x"]])


def test_a_record_of_a_failed_cell_stands_in_the_table_of_cells() -> None:
    failed = record(result=None, failed="its worker died")
    write = tables.cells([failed, record(seed=2)]).plain()
    assert "failed: its worker died" in write
    assert "0.60 %" in write


@pytest.mark.parametrize("width", [1280, 390])
def test_the_frames_of_pictures_are_not_cut(browser: Any, tmp_path: Path, width: int) -> None:
    page = pages.of(run_folder(tmp_path / "run")).write(tmp_path / "index.html")
    opened(browser, page, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    inner, outer = (
        browser.execute_script(f"return Array.from(document.querySelectorAll('figure'), each => each.{side}Width)")
        for side in ("scroll", "client")
    )
    assert len(inner) == 3
    if width == 1280:
        assert inner == outer  # nothing of a picture lies outside its figure, its border included
    else:
        assert all(544 <= each <= 546 for each in inner)  # 34rem: read by scrolling, for its letters would be too small


def test_a_page_is_written_part_by_part() -> None:
    page = Page("Temporal order", "Solved.")
    page.heading("By length")
    page.table(Table(["length", "solved"], [["50", "5/5"]]))
    assert "<td>5/5</td>" in page.render()
