"""A table of ready-made text: as Markdown, as HTML, or in columns for a terminal."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table of ready-made text.

    Args:
        header: the names of the columns.
        rows: as many entries each as there are columns.
        text: how many columns from the left hold words; the others are numbers, set to the right.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: int = 1

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"a table's row must have {len(self.header)} entries, not {len(row)}: {list(row)}")

    def markdown(self) -> str:
        """As GitHub's Markdown.

        >>> print(Table(["task", "solved"], [["addition", "5/5"]]).markdown())
        | task | solved |
        |---|--:|
        | addition | 5/5 |
        """
        rule = ["---" if column < self.text else "--:" for column in range(len(self.header))]
        lines = [self.header, *self.rows]
        body = ["| " + " | ".join(entry.replace("|", "\\|") for entry in line) + " |" for line in lines]
        return "\n".join([body[0], "|" + "|".join(rule) + "|", *body[1:]])

    def plain(self) -> str:
        """In columns, for a terminal."""
        lines = [list(self.header), *map(list, self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        rows = (
            "  ".join(
                entry.ljust(width) if column < self.text else entry.rjust(width)
                for column, (entry, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )
        return "\n".join(rows)

    def html(self, links: Mapping[str, str] | None = None) -> str:
        """As an HTML table that scrolls sideways where the page is narrow; `links` are those of entries in the first column."""
        head = "".join(f'<th scope="col"{self._kind(i)}>{html.escape(name)}</th>' for i, name in enumerate(self.header))
        body = "\n".join(
            "<tr>"
            + "".join(f"<td{self._kind(i)}>{_entry(i, text, links or {})}</td>" for i, text in enumerate(row))
            + "</tr>"
            for row in self.rows
        )
        return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'

    def _kind(self, column: int) -> str:
        return ' class="text"' if column < self.text else ""


def _entry(column: int, text: str, links: Mapping[str, str]) -> str:
    shown = html.escape(text)
    return f'<a href="{html.escape(links[text])}">{shown}</a>' if column == 0 and text in links else shown
