"""Predictors that go by what was seen after the same recent past: of one history, or of both sides of a game."""

from .mixture import ContextMixture, Reader
from .tree import ContextTree, TreeMemory

__all__ = ["ContextMixture", "ContextTree", "Reader", "TreeMemory"]
