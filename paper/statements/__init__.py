"""Every lemma, theorem and algorithm of the paper as a function that checks it: one file a section.

A file is found by itself; its first docstring line is the heading of its section. How to add a statement is in
docs/reference/extending.md.
"""

import pkgutil
from importlib import import_module

from .claims import Statement


def all_statements() -> list[Statement]:
    """The statements in the paper's order: sections first, then appendices.

    >>> [statement.name for statement in all_statements() if statement.name.startswith("Lemma 2")]
    ['Lemma 2.1', 'Lemma 2.2', 'Lemma 2.3', 'Lemma 2.3, the log T']
    """
    files = [module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith(("section", "append"))]
    found = []
    for file in sorted(files, key=lambda file: (file.startswith("append"), file)):
        module = import_module(f"{__name__}.{file}")
        for value in vars(module).values():
            made = getattr(value, "statement", None)
            if isinstance(made, Statement) and made.check.__module__ == module.__name__:
                found.append(made)
    return found
