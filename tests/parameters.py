"""Tests that the tables of parameters in the analyses' pages are those that texcell-wu parameters
prints. `tests/parameters.py --write` writes the tables to the pages."""
import json
import re
import subprocess
import sys

import tap

TABLE = r"<!-- parameters of %s, .* -->\n((?:\|.*\n)*)"


def program(*arguments):
    return tap.run([tap.TEXCELL_WU, "parameters", *arguments])


def code(text):
    """The text as Markdown: quoted words and names of arrays as code, and bars, which would end a
    cell, escaped."""
    # A long list of words is shortened, as the page has a table of them.
    text = re.sub(r'(("\w+", ){2})("\w+", ){9,}("\w+" or )?("\w+")', r"\1..., \5", text)
    return re.sub(r'"[^"]*"|\w+_<\w+>', r"`\g<0>`", text).replace("|", "\\|")


def rows(keys, outer=""):
    for p in keys:
        value = code(re.sub(r"\ban? (integer|number) from (\S+) to", r"\1 \2 to",
                            p["value"])) + (" (%s)" % p["unit"] if "unit" in p else "")
        for key, choices in p.get("only_with", {}).items():
            value += "; only with `%s` " % key + " or ".join("`%s`" % json.dumps(c)
                                                             for c in choices)
        default = "*required*" if p.get("required") else "none"
        if "default" in p:
            default = "`%s`" % json.dumps(p["default"], separators=(",", ":"))
        yield "| `%s` | %s | %s | %s |\n" % (outer + p["key"], value, default, code(p["help"]))
        yield from rows(p.get("keys", []), outer + p["key"] + ".")


def table(keys):
    return "| parameter | value | default | |\n|---|---|---|---|\n" + "".join(rows(keys))


def page_of(name):
    """(path, text) of an analysis' page."""
    page = tap.SRC + "/docs/analyses/%s.md" % name
    with open(page, encoding="utf-8") as f:
        return page, f.read()


def write():
    analyses = json.loads(subprocess.check_output([tap.TEXCELL_WU, "parameters", "--json"]))
    for name, keys in analyses.items():
        page, text = page_of(name)
        found = re.search(TABLE % name, text)
        with open(page, "w", encoding="utf-8") as f:
            f.write(text[:found.start(1)] + table(keys) + text[found.end(1):])


def all_keys(keys, outer=""):
    for p in keys:
        yield outer + p["key"], p
        yield from all_keys(p.get("keys", []), outer + p["key"] + ".")


def main():
    r = program("--json")
    tap.ok(r.returncode == 0, "parameters --json", r.stderr)
    analyses = json.loads(r.stdout)
    listed = program()
    tap.ok(listed.returncode == 0 and [line.split()[0] for line in listed.stdout.splitlines()] ==
           list(analyses),
           "without a name it lists the analyses", listed.stdout)
    for name, keys in analyses.items():
        page, text = page_of(name)
        found = re.search(TABLE % name, text)
        tap.ok(found is not None and found.group(1) == table(keys),
               page.rsplit("/")[-1] + " has the parameters of " + name,
               "tests/parameters.py --write writes them:\n" + table(keys))
        one = program(name, "--json")
        tap.ok(one.returncode == 0 and json.loads(one.stdout) == {name: keys},
               name + ": --json prints only this analysis", one.stderr)
        people = program(name)
        missing = [path for path, p in all_keys(keys) if "\n%s\n    %s" %
                   (path, p["value"]) not in people.stdout]
        tap.ok(people.returncode == 0 and not missing, name + ": the text output has every key",
               missing)
        sentences = [part.split("\n", 2)[2] for part in people.stdout.split("\n\n")[1:]]
        wide = [line for sentence in sentences for line in sentence.splitlines() if len(line) >
                80 or line[:4].strip()]
        tap.ok(not wide and len(sentences) == len(list(all_keys(keys))),
               name + ": lines have at most 80 columns", wide)
        vague = [path for path, p in all_keys(keys) if not re.match(r".{8,}\.$", p["help"])]
        tap.ok(not vague, name + ": every key has a sentence", vague)
    for arguments, words in ((["alchemy"], "the analyses are: glcm, "),
                             (["glcm", "volume"], "one NAME, 2 given"),
                             (["--yaml"], "--yaml"), (["--json=yes"], "--json")):
        r = program(*arguments)
        tap.ok(r.returncode == 1 and words in r.stderr and not r.stdout,
               "parameters %s" % " ".join(arguments), r.stderr)
    tap.done()


if sys.argv[1:] == ["--write"]:
    write()
else:
    main()
