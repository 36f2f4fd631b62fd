"""Tests the translations of docs/volunteer.md and docs/messages.md: each has every heading, table
row, message, command and address of the English page, in the same place, and no sentence in
English."""
import os
import re

import tap

LANGUAGES = ("de", "fr")
# Words by which an English sentence is recognised.
ENGLISH = re.compile(r"\b(?:the|and|with|which|that|does|you|your|texcell's)\b")


def parts(name):
    """[(kind, text)] of the page's parts: headings (kind: their #s), examples, table rows, list
    items, paragraphs."""
    with open(os.path.join(tap.SRC, "docs", name), encoding="utf-8") as f:
        blocks = re.split(r"(?ms)^(```.*?^```)$", f.read())
    found = []
    for block in blocks:
        if block.startswith("```"):
            found.append(("example", block))
            continue
        for line in re.sub(r"\n(?! *[|*#\n])", " ", block).split("\n"):
            kind = re.match(r"(#+ |\||\* |)", line.strip()).group().strip()
            if line.strip():
                found.append((kind or "paragraph", line.strip()))
    return found


def invariants_of(kind, text):
    """What must be the same in every language: messages, options, files, addresses."""
    if kind == "example":
        return text
    # Links to pages that exist in each language differ.
    links = [x for x in re.findall(r"\]\(([^)]+)\)", text)
             if not x.startswith(("volunteer.", "messages."))]
    return sorted(re.findall(r"`[^`]+`", text)) + links + [re.findall(r"(?m)\|", text)]


def compare(name, headings):
    """Compares the translations of a page with the English page, which must have at least
    `headings` headings."""
    page = parts(name + ".md")
    tap.ok(sum(k.startswith("#") for k, _ in page) >= headings, "the English page " + name,
           len(page))
    for language in LANGUAGES:
        this = "%s.%s.md: " % (name, language)
        other = parts(this[:-2])
        tap.ok([k for k, _ in page] == [k for k, _ in other],
               this + "every heading, row and paragraph has its counterpart",
               next(("%s / %s" % (a, b) for a, b in zip(page, other) if a[0] != b[0]),
                    "%d, %d" % (len(page), len(other))))
        for (kind, text), (_, there) in zip(page, other):
            if invariants_of(kind, text) != invariants_of(kind, there):
                tap.ok(False, this +
                       "messages, options and addresses are those of the English page",
                       text + "\n" + there)
            bare = re.sub(r"`[^`]*`|\([^)]*\)|„[^“]*“|« [^»]* »", "", there)
            if kind != "example" and (ENGLISH.search(bare) or (kind == "##" and text == there)):
                tap.ok(False, this + "no sentence is in English", there)
        tap.ok(True, this + "compared with the English page")


def main():
    compare("volunteer", 8)
    compare("messages", 7)
    tap.done()


main()
