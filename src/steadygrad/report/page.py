"""One self-contained HTML page: tables and pictures inside the file, nothing fetched from anywhere.

Pictures are embedded as data URIs, so that the names inside one SVG can't clash with those of the next. The page
follows the reader's light or dark setting, is readable on a phone, and needs no script.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steadygrad.experiments import files
from steadygrad.paper import style
from steadygrad.report.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        """A heading of the second rank."""
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

    def figure(self, figure: Figure, alt: str, caption: str = "") -> None:
        """A figure as embedded SVG.

        Args:
            figure: a matplotlib figure.
            alt: what it shows, for those who can't see it.
            caption: what stands below it.
        """
        data = base64.b64encode(svg(figure)).decode("ascii")
        below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
        image = f'<img alt="{html.escape(alt)}" src="data:image/svg+xml;base64,{data}">'
        self.parts.append(f"<figure>{image}{below}</figure>")

    def footer(self, text: str) -> None:
        """Where it all comes from."""
        self.parts.append(f"<footer>{html.escape(text)}</footer>")

    def render(self) -> str:
        """The whole document."""
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


def svg(figure: Figure) -> bytes:
    """A figure as SVG, the same bytes for the same figure."""
    buffer = io.BytesIO()
    with style.look():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def save(figure: Figure, path: Path) -> list[Path]:
    """Writes a figure as PNG (200 dpi) and SVG beside each other.

    Args:
        figure: a matplotlib figure.
        path: where, without a suffix.

    Returns:
        both paths.
    """
    png, vector = path.with_name(path.name + ".png"), path.with_name(path.name + ".svg")
    with style.look():
        figure.savefig(png, dpi=200)
    vector.write_bytes(svg(figure))
    return [png, vector]
