"""texcell for Python: computes tables from arrays, with the same bytes as the command line.

    result = texcell.analyse(image, "cellcount", polarity="bright", min_area=30)
    result.tables["regions"]

Each analysis is also a function that documents its parameters: help(texcell.cellcount).
"""
from typing import Any

from ._call import analyse, features, of_analysis, suggest
from ._program import (Error, InputError, InternalError, Note, TryLater, UsageError, all_parameters,
                       parameters)
from ._result import Result, read

__version__ = "1.0.0"
__all__ = ["Error", "InputError", "InternalError", "Note", "Result", "TryLater", "UsageError",
           "analyse", "features",
           "parameters", "read", "suggest"]


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in all_parameters():
        raise AttributeError("module 'texcell' has no attribute %r" % name)
    globals()[name] = of_analysis(name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *all_parameters()})
