"""Predictors that learn which of the last tokens matter."""

from .tree import ContextTree, TreeMemory

__all__ = ["ContextTree", "TreeMemory"]
