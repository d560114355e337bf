"""Printed tables: text in rows and columns, lined up."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable


class Table(NamedTuple):
    """Text in rows and columns; printing lines them up.

    >>> print(Table("Fruit", ("kind", "count"), (("apple", "3"), ("fig", "12"))))
    Fruit
    kind   count
    apple      3
    fig       12
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        columns = []
        for i, column in enumerate(zip(self.header, *self.rows, strict=True)):
            width = max(map(len, column))
            columns.append([cell.rjust(width) if i else cell.ljust(width) for cell in column])
        return "\n".join([self.title, *("  ".join(line).rstrip() for line in zip(*columns, strict=True))])


# On a terminal of any width: a table that does not fit is printed row after row; numbers are never cut.


def print_table(console: "Console", title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table whose first column names the rows; cells may have rich's markup."""
    table = new_table(title, header)
    for row in rows:
        table.add_row(*row)
    if fits(console, table):
        console.print(table)
        return
    console.print(title, style="italic")
    wide = max(map(len, header))
    for name, *cells in rows:
        console.print(f"\n[bold]{name}[/]")
        for column, cell in zip(header[1:], cells, strict=True):
            if cell:
                console.print(f"  {column:{wide}}  {cell}", soft_wrap=True)
    console.print()


def new_table(title: str, header: list[str]) -> "RichTable":
    """An empty table in the style of all: names in the first column, numbers in the others."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    table = RichTable(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i else "left", no_wrap=True)
    return table


def fits(console: "Console", table: "RichTable", least: int = 0) -> bool:
    """Whether every row fits on one line, if a first column that wraps has room for ``least``."""
    options, sizes = console.options.update(width=1000), []
    for i, column in enumerate(table.columns):
        widths = [console.measure(cell, options=options).maximum for cell in (column.header, *column.cells)]
        sizes.append(min(max(widths), least) if i == 0 and least else max(widths))
    return sum(sizes) + 2 * len(sizes) + 2 <= console.width


def printable(text: str, most: int = 2000) -> str:
    """Text from outside, safe to print on a terminal: control characters are written out, and long text is cut."""
    shown = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text[:most])
    return shown if len(text) <= most else shown + "..."
