"""Models from other packages, as they are: one file each, imported only when it is needed."""

from importlib import import_module as _import_module
from typing import Any as _Any

_FILES = {
    "FromModule": "torch_module",
    "GuardDriftDetector": "river_models",
    "GuardedClassifier": "scikit_learn",
    "GuardedRiverClassifier": "river_models",
    "HFDistil": "hf_distil",
    "HFPredictor": "hugging_face",
    "RobustLogitsProcessor": "logits_processor",
}


def __getattr__(name: str) -> _Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f".{_FILES[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *_FILES]
