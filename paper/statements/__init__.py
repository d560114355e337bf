"""Every lemma, theorem and algorithm of the paper as a function that checks it: one file a section.

To add a statement, write a function in the file of its section, say what the paper says, and return what was found::

    @statement(
        "Lemma 9.9",
        "The regret of x is at most 1/T.",
        verdict="false",
        quotes=["has regret at most $1/T$"],
        corrected="It is at most 2/T.",
    )
    def lemma_9_9() -> list[Claim]:
        "All sequences of 12 bits."  # how it is checked, for the report
        return [at_most("the largest regret", worst, 2 / 12), against(at_most("...", worst, 1 / 12))]

A file is found by itself; its first docstring line is the heading of its section.
"""

import pkgutil
from importlib import import_module

from .claims import AMENDS, REFUTES, VERDICTS, Claim, Statement, against, at_least, at_most, equals, statement

__all__ = [
    "AMENDS",
    "REFUTES",
    "VERDICTS",
    "Claim",
    "Statement",
    "against",
    "all_statements",
    "at_least",
    "at_most",
    "equals",
    "statement",
]


def all_statements() -> list[Statement]:
    """The statements in the paper's order: sections first, then appendices.

    >>> [statement.name for statement in all_statements() if statement.name.startswith("Lemma 2")]
    ['Lemma 2.1', 'Lemma 2.2', 'Lemma 2.3', 'Lemma 2.3, the log T']
    """
    files = [module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith(("section", "append"))]
    found: dict[str, Statement] = {}
    for file in sorted(files, key=lambda file: (file.startswith("append"), file)):
        module = import_module(f"{__name__}.{file}")
        for value in vars(module).values():
            made = getattr(value, "statement", None)
            if not isinstance(made, Statement) or made.check.__module__ != module.__name__:
                continue
            if made.name in found:
                raise ValueError(f"name {made.name!r} is taken twice: in {module.__name__} by {made.check.__name__}")
            found[made.name] = made
    return list(found.values())
