"""`python tests/experiments/settings_page.py` writes the tables of docs/settings.md again, below its introduction."""

from __future__ import annotations

from pathlib import Path

from steadygrad.commands.options import help_text
from steadygrad.experiments import config
from steadygrad.table import Table

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
PROBLEMS = {None: "all", config.DRAWN: "that draw sequences", config.DATA: "with a data set"}
PROBLEMS |= {config.OF_TEXT: "text", config.OF_MUSIC: "music", config.OWN_MUSIC: "own music"}


def tables() -> str:
    """All settings as Markdown, made from their declarations."""
    lines: list[str] = []
    for part, fields in config.Config.PARTS.items():
        body: list[list[str]] = []
        for name in fields.model_fields:
            value = config.default(name)
            shown = "" if value in (None, "", {}) else f"`{str(value).strip('()').replace(', ', ':')}`"
            body.append([f"`{name}`", shown, PROBLEMS[config.of(name)], help_text(name)])
        made = Table(["setting", "default", "problems", "what it is"], body, text=4).markdown()
        lines += [f"## {part.capitalize()}", "", f"{fields.__doc__}", "", made.replace("|  |", "| |"), ""]
    return "\n".join(lines)


def page(written: str) -> str:
    """The page with its tables made anew: the introduction stays."""
    return written.partition("## ")[0] + tables()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
