"""Prints texcell/__init__.pyi: the module's names and one function for each analysis, whose
keywords are the parameters that texcell-wu parameters --json prints."""
import json

import texcell

TYPES = {"boolean": "bool", "integer": "int", "number": "float", "integers": "Sequence[int]",
         "words": "Sequence[str]",
         "object": "Mapping[str, Any]", "objects": "Sequence[Mapping[str, Any]]"}


def type_of(p):
    choices = [c for c in p.get("choices", []) if c is not None and not isinstance(c, float)]
    kinds = [TYPES[p["type"]]] if p["type"] in TYPES else ["float"] if not choices else []
    kinds += ["Literal[%s]" % ", ".join(map(json.dumps, choices))] * bool(choices)
    kinds += ["str"] * p.get("unit", "").startswith(("pixels", "voxels", "pixel^"))
    return " | ".join(kinds + ["None"] * (None in p.get("choices", []) or "default" not in p))


def main():
    names = sorted(texcell.__all__)
    print('"""Made by stubs.py from the output of texcell-wu parameters --json."""')
    print("from collections.abc import Mapping, Sequence\nfrom typing import Any, Literal\n")
    for module in ("_call", "_program", "_result"):
        module_names = [n for n in names if getattr(texcell, n).__module__ == "texcell." + module]
        print("from .%s import %s" % (module, ", ".join("%s as %s" % (n, n) for n in module_names)))
    print("\n__version__: str")
    for name, keys in texcell._program.all_parameters().items():
        words = ["%s: %s = ..." % (p["key"], "Any" if p["key"] == "labels" else type_of(p))
                 for p in keys]
        print("\ndef %s(\n    images: Any,\n    *,\n%s,\n    **options: Any,\n) -> Result: ..." %
              (name, ",\n".join("    " + w for w in words)))


main()
