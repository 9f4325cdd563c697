"""What an HTML page is made of: headings, text, tables and pictures, in one file (page.html, with the looks of page.css).

Pictures are embedded as data URIs, so that the names inside one SVG can't clash with those of the next; nothing is fetched.
The page follows the reader's light or dark setting, is readable on a phone, and needs no script.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from . import plotting, storage
from .table import Table


@dataclass
class Page:
    """A page, written part by part."""

    title: str
    lead: str = ""
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self.parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str, command: str = "") -> None:
        """A paragraph, which may end with a command to type."""
        code = f" <code>{html.escape(command)}</code>" if command else ""
        self.parts.append(f"<p>{html.escape(text)}{code}</p>")

    def table(self, table: Table, heading: str = "", links: Mapping[str, str] | None = None) -> None:
        """A table, under its heading; without rows both are left out. `links` are those of entries in its first column."""
        if heading and table.rows:
            self.heading(heading)
        if table.rows or not heading:
            self.parts.append(table.html(links))

    def figure(self, figure: plotting.Figure, alt: str, caption: str = "") -> None:
        """A matplotlib figure as embedded SVG; `alt` says what it shows to those who can't see it."""
        data = base64.b64encode(plotting.svg(figure)).decode("ascii")
        below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
        image = f'<img alt="{html.escape(alt)}" src="data:image/svg+xml;base64,{data}">'
        self.parts.append(f"<figure>{image}{below}</figure>")

    def footer(self, text: str) -> None:
        self.parts.append(f"<footer>{html.escape(text)}</footer>")

    def render(self) -> str:
        here = Path(__file__).parent
        frame = Template((here / "page.html").read_text(encoding="utf-8"))
        return frame.substitute(
            title=html.escape(self.title),
            style=(here / "page.css").read_text(encoding="utf-8"),
            lead=f'<p class="lead">{html.escape(self.lead)}</p>' if self.lead else "",
            body="\n".join(self.parts),
        )

    def write(self, path: Path) -> Path:
        """Writes the document to `path`, whole or not at all, and returns it."""
        storage.write(path, self.render().encode())
        return path
