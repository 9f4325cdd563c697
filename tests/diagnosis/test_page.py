"""The page: what it holds, and what it does when it is used, in a real browser."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import steadygrad as sg
from in_browser import opened
from steadygrad.diagnosis import page_of
from steadygrad.diagnosis.page import COLUMNS, ZERO, thinned


def trained(updates: int = 6, nan_at: int | None = None, steps: int = 31) -> sg.Watch:
    torch.manual_seed(0)
    model = nn.ModuleDict({"low": nn.GRU(3, 8), "high": nn.LSTM(8, 8, 2)})
    clipper = sg.NormClipper(torch.optim.SGD(model.parameters(), lr=0.1), threshold=0.01)
    watch = sg.watch(model, every=1, clipper=clipper)
    for update in range(updates):
        x = torch.randn(steps, 4, 3) * (math.nan if update == nan_at else 1.0)
        clipper.optimizer.zero_grad()
        model["high"](model["low"](x)[0])[0][-1].square().sum().backward()
        clipper.optimizer.step()
    return watch


def data_in(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_it_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    page = trained().page(tmp_path / "gradients.html").read_text(encoding="utf-8")
    links = re.findall(r'(?:src|href)\s*=\s*"([^"]*)"|url\(([^)]*)\)|https?://[^\s"\'<]+', page)
    assert [each for each in links if each != ("data:,", "") and any(each)] == []
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, not an address that is asked
    assert "import(" not in page
    assert "fetch(" not in page


def test_it_holds_what_was_seen() -> None:
    watch = trained()
    data = data_in(page_of(watch.looks, watch.findings, weights=watch.weights))
    assert data["updates"] == [0, 1, 2, 3, 4, 5]
    assert [cell["name"] for cell in data["cells"]] == ["low l0", "high l0", "high l1"]
    look = watch.looks[3].cells[1]
    shown = data["cells"][1]["looks"][3]
    assert shown["norms"] == [round(math.log10(norm), 2) for norm in look.norms]
    assert shown["horizon"] == look.horizon
    assert data["thresholds"] == [0.01] * 6
    assert data["used"][0] == pytest.approx(0.01, rel=1e-3)


def test_values_that_are_not_finite_can_be_shown() -> None:
    watch = trained(nan_at=2)
    page = page_of(watch.looks, watch.findings, weights=watch.weights)
    data = data_in(page)
    assert set(data["cells"][0]["looks"][2]["norms"]) == {None}
    assert data["cells"][0]["looks"][2]["fault"] == "input of step 0"
    assert "is not finite, first at update 2" in page


def test_long_sequences_and_many_looks_are_thinned() -> None:
    norms = [1.0] * 5000
    norms[1234] = 1e3
    found = thinned(norms)
    assert len(found) == COLUMNS
    assert max(each for each in found if each is not None) == 3.0
    assert thinned([0.0, math.inf]) == [ZERO, None]
    watch = trained(1)
    many = [replace(watch.looks[0], update=number) for number in range(1000)]
    updates = data_in(page_of(many))["updates"]
    assert len(updates) == 200
    assert (updates[0], updates[-1]) == (0, 999)


def test_names_can_not_break_out_of_the_page() -> None:
    watch = trained(1)
    cells = tuple(replace(cell, layer="</script><b>x") for cell in watch.looks[0].cells)
    page = page_of([replace(watch.looks[0], cells=cells)], notes=["<i>note</i>"], title="<u>t</u>")
    assert "</script><b>" not in page
    assert "<i>note" not in page
    assert "<u>" not in page
    assert data_in(page)["cells"][0]["name"].startswith("</script><b>x")


def test_a_page_without_a_look_says_so() -> None:
    page = page_of([])
    assert "Nothing was looked at yet" in page
    assert "<main hidden>" in page


# ----------------------------------------------------------------------------------------------- in a browser


def text(browser: Any, name: str) -> str:
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", name)


@pytest.mark.parametrize("width", [1280, 390])
def test_clicking_through_it(browser: Any, tmp_path: Path, width: int) -> None:
    watch = trained(7, nan_at=5)
    opened(browser, watch.page(tmp_path / "gradients.html"), width)
    find = browser.find_element
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert len(browser.find_elements("css selector", "ol.findings li")) == len(watch.findings) > 0
    assert text(browser, "where") == "update 6 (7 of 7 looks)"

    def pixel(column: int) -> list[int]:
        script = "return Array.from(document.querySelector('canvas').getContext('2d').getImageData(arguments[0], 0, 1, 1).data)"
        return browser.execute_script(script, column)

    before = pixel(0)
    assert pixel(30) != before  # the last step is dark, the first pale
    slider = find("id", "slider")
    slider.send_keys("\ue012")  # arrow left
    assert text(browser, "where") == "update 5 (6 of 7 looks)"
    assert pixel(0)[:3] == [215, 48, 31]  # not finite: red
    slider.send_keys("\ue011")  # home
    assert text(browser, "where") == "update 0 (1 of 7 looks)"
    assert text(browser, "at-update") == "update 0"

    browser.find_elements("css selector", ".row button")[2].click()
    assert text(browser, "history-of") == "high l1"
    assert browser.find_elements("css selector", ".row button")[2].get_attribute("aria-pressed") == "true"
    strip = browser.find_elements("css selector", ".row canvas")[2]
    strip.click()  # its middle
    norm = watch.looks[0].cells[2].norms[15]
    assert text(browser, "readout").startswith("high l1, update 0, step 15: error ")
    said = float(text(browser, "readout").split("error ")[1].split(",")[0])
    assert said == pytest.approx(norm, rel=0.07)  # two digits of a logarithm

    find("id", "history").click()  # its middle: the fourth of seven updates
    assert text(browser, "where") == "update 3 (4 of 7 looks)"
    find("css selector", "#scale option[value=whole]").click()
    assert len(browser.find_elements("css selector", "#norms path")) == 3  # before, after, threshold
    find("tag name", "summary").click()
    assert len(browser.find_elements("css selector", "#parameters tr")) == len(watch.looks[0].gradients)
    find("id", "play").click()
    assert text(browser, "play") == "Stop"
    find("id", "play").click()
    assert [each for each in browser.get_log("browser") if each["level"] == "SEVERE"] == []


def test_a_page_of_one_look_and_one_without_any_have_no_errors(browser: Any, tmp_path: Path) -> None:
    for index, page in enumerate((page_of(trained(1).looks), page_of([]))):
        path = tmp_path / f"{index}.html"
        path.write_text(page, encoding="utf-8")
        opened(browser, path, 1280)
        assert [each for each in browser.get_log("browser") if each["level"] == "SEVERE"] == []
