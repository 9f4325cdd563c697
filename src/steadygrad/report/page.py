"""What a page is made of: tables of text (HTML, Markdown, or columns for a terminal), pictures, and one HTML file around them.

Pictures are embedded as data URIs, so that the names inside one SVG can't clash with those of the next; nothing is fetched.
The page follows the reader's light or dark setting, is readable on a phone, and needs no script.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steadygrad.experiments import files
from steadygrad.paper import style

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #ffffff; --line: #d8d8d8; --soft: #f4f4f2; --quiet: #5f5f5f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e6; --paper: #17181a; --line: #3a3b3e; --soft: #222326; --quiet: #a3a3a0; }
}
body { margin: 0 auto; max-width: 66rem; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; }
p { max-width: 62rem; margin: .5rem 0; }
.lead { font-size: 1.1rem; }
figure { margin: 1rem 0; }
figure { overflow-x: auto; }
figure img { display: block; width: 100%; min-width: 34rem; height: auto; background: #fff; border-radius: 6px;
  border: 1px solid var(--line); }
figcaption, footer, .note { color: var(--quiet); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; margin: .8rem 0; }
th, td { padding: .35rem .8rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child, .text { text-align: left; }
thead th { border-bottom: 2px solid var(--line); }
tbody tr:hover { background: var(--soft); }
code { font: .9em ui-monospace, "SF Mono", Menlo, Consolas, monospace; background: var(--soft); padding: .1em .3em;
  border-radius: 4px; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .8rem; }
""".strip()


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
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        turns = [str.ljust if column < self.text else str.rjust for column in range(len(self.header))]
        shown = ([turn(entry, width) for turn, entry, width in zip(turns, line, widths, strict=True)] for line in lines)
        return "\n".join("  ".join(entries).rstrip() for entries in shown)

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


@dataclass
class Page:
    """A page, written part by part.

    >>> page = Page("Temporal order", "Solved.")
    >>> page.heading("By length"); page.table(Table(["length", "solved"], [["50", "5/5"]]))
    >>> "<td>5/5</td>" in page.render()
    True
    """

    title: str
    lead: str = ""
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self.parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str, kind: str = "") -> None:
        """A paragraph; `kind` "note" sets it small."""
        mark = f' class="{html.escape(kind)}"' if kind else ""
        self.parts.append(f"<p{mark}>{html.escape(text)}</p>")

    def command(self, text: str, command: str) -> None:
        """A paragraph that ends with a command to type."""
        self.parts.append(f"<p>{html.escape(text)} <code>{html.escape(command)}</code></p>")

    def table(self, table: Table, links: Mapping[str, str] | None = None) -> None:
        """A table; `links` are those of entries in its first column."""
        self.parts.append(table.html(links))

    def figure(self, figure: style.Figure, alt: str, caption: str = "") -> None:
        """A matplotlib figure as embedded SVG; `alt` says what it shows to those who can't see it."""
        data = base64.b64encode(svg(figure)).decode("ascii")
        below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
        image = f'<img alt="{html.escape(alt)}" src="data:image/svg+xml;base64,{data}">'
        self.parts.append(f"<figure>{image}{below}</figure>")

    def footer(self, text: str) -> None:
        self.parts.append(f"<footer>{html.escape(text)}</footer>")

    def render(self) -> str:
        title = html.escape(self.title)
        lead = f'<p class="lead">{html.escape(self.lead)}</p>' if self.lead else ""
        body = "\n".join(self.parts)
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
            f"<style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>{title}</h1>\n{lead}\n{body}\n</body>\n</html>\n"
        )

    def write(self, path: Path) -> Path:
        """Writes the document to `path`, whole or not at all, and returns it."""
        files.write(path, self.render().encode())
        return path


def svg(figure: style.Figure) -> bytes:
    """A figure as SVG, the same bytes for the same figure."""
    buffer = io.BytesIO()
    with style.look():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
