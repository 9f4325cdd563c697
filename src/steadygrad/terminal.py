"""A bar on a terminal that shows how far a long work is, with text beside it and below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column
from rich.text import Text


class LiveBar(Progress):
    """A bar with its title above; on the terminal, if there is no other console."""

    def __init__(self, total: int, console: Console | None = None, title: str = "") -> None:
        # a column of its own kind: on a narrow terminal its text goes on in the next line, and is not cut off
        text = TextColumn("{task.fields[beside]}", markup=False, table_column=Column())
        super().__init__(BarColumn(36), text, console=console, auto_refresh=False)
        self._bar = self.add_task(title, total=total, beside="", below="")

    def show(self, done: int, beside: str, below: str = "") -> None:
        """Set the bar, the text beside it and the text below it."""
        self.update(self._bar, completed=done, beside=beside, below=below, refresh=True)

    def get_renderables(self) -> Iterator[Any]:
        for task in self.tasks:
            above, below = Text(task.description, style="bold"), Text(task.fields["below"])
            yield from filter(None, (above, self.make_tasks_table(self.tasks), below))
