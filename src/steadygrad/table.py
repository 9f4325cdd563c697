"""Tables of text: in columns for a terminal, as Markdown, as HTML."""

from __future__ import annotations

import html
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NOTHING = "–"
"""What stands where there is no number."""


def columns(lines: Sequence[Sequence[str]], left: Container[int]) -> str:
    """Lines of text in columns; those numbered in `left` are set to the left, the others to the right.

    >>> print(columns([("file", "bytes"), ("novel.txt", "1,200")], left={0}))
    file       bytes
    novel.txt  1,200
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    turns = [str.ljust if number in left else str.rjust for number in range(len(widths))]
    shown = ([turn(entry, width) for turn, entry, width in zip(turns, line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(entries).rstrip() for entries in shown)


@dataclass(frozen=True)
class Table:
    """A table of ready-made text."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]  # as many entries each as there are columns
    text: int = 1  # how many columns from the left hold words; the others are numbers, set to the right

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"a table's row must have {len(self.header)} entries, not {len(row)}: {list(row)}")

    @classmethod
    def crossed(
        cls,
        header: list[str],
        across: Mapping[Any, str],
        entries: Mapping[tuple[tuple[str, ...], Any], str],
        text: int = 1,
    ) -> Table:
        """A line for each place and a column for each of `across`, by its label; `entries` are by place and column."""
        places = dict.fromkeys(place for place, _ in entries)
        body = [[*place, *(entries.get((place, column), NOTHING) for column in across)] for place in places]
        return cls([*header, *across.values()], body, text)

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
        return columns([self.header, *self.rows], range(self.text))

    def html(self, links: Mapping[str, str] | None = None) -> str:
        """As an HTML table that scrolls sideways where the page is narrow; `links` are those of entries in the first column."""
        kinds = [' class="text"' if column < self.text else "" for column in range(len(self.header))]
        head = "".join(
            f'<th scope="col"{kind}>{html.escape(name)}</th>' for kind, name in zip(kinds, self.header, strict=True)
        )
        body = []
        for row in self.rows:
            entries = [html.escape(text) for text in row]
            if entries and row[0] in (links or {}):
                entries[0] = f'<a href="{html.escape((links or {})[row[0]])}">{entries[0]}</a>'
            cells = "".join(f"<td{kind}>{entry}</td>" for kind, entry in zip(kinds, entries, strict=True))
            body.append(f"<tr>{cells}</tr>\n")
        return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{"".join(body)}</tbody></table></div>'
