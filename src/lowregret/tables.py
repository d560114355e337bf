"""Printed tables: text in rows and columns, lined up."""

from typing import NamedTuple


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


def printable(text: str, most: int = 2000) -> str:
    """Text from outside, safe to print on a terminal: control characters are written out, and long text is cut."""
    shown = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text[:most])
    return shown if len(text) <= most else shown + "..."
