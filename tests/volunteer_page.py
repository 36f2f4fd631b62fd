"""docs/messages.md and the sources say the same: every message that the page
explains is one that the program can print, and every one that it can print to
a volunteer is explained."""
import glob
import os
import re

import tap

# A task's own part. What the readers of work units and the analyses say of a
# work unit is the project's business, and in the page one sentence.
SOURCES = ["app/*.c", "app/base/*.c", "wrapper/*.c", "wrapper/*.cpp", "opencl/backends.c",
           "opencl/device.c", "opencl/loader.c",
           "opencl/program.c", "opencl/selftest_cl.c", "opencl/work.c", "app/analysis/selftest.c"]
# Said at a command line only.
NOT_A_TASKS = ["is the work unit and cannot be written too", "run: takes one work unit",
               "no result is named",
               "the same command goes on from here", "devices: takes no arguments",
               "selftest: takes only", "of the analyses: see above", "on %u thread",
               "unknown command", "no BOINC client has started", "\\033[K", "stands alone",
               "nothing to do", "standard output: cannot",
               "%s: error: %s", "or --replace"]
LITERAL = r'"(?:[^"\\]|\\.)*"'
LITERALS = r'(?:%s\s*(?:PRI\w+\s*)?)+' % LITERAL
STATUS = (r'(?:TC_BAD_INPUT|TC_TRY_LATER|TC_IO|tc_write_fault\(\w+\)|TC_DEVICE|TC_TOO_LARGE|'
          r'TC_USAGE|TC_NO_MEMORY|st|status|device != NULL \? TC_DEVICE : TC_INTERNAL)')
PLACES = [r'tc_fail\(\w*&?\w+(?:->\w+)?,\s*%s,\s*(%s)' % (STATUS, LITERALS),
          r'fprintf\(stderr,\s*(%s)' % LITERALS,
          r'progress_(?:say|note)\(&?\w+(?:->\w+)*,\s*(%s)' % LITERALS,
          r'refuse(?:_device)?\(&?\w+,\s*(%s)' % LITERALS,
          r'\bwhy = (%s);' % LITERALS,
          r'\bmark\[\] = (%s);' % LITERALS,
          r'return ("(?:is|its?) [^"]*");',
          r'snprintf\(text, WHY_MAX, (%s)' % LITERALS,
          r'append_text\(reason,\s*(%s)' % LITERALS,
          r'boinc_side_temporary_exit\((%s)' % LITERALS]
# What a stranger's text follows.
BEFORE_TEXT = r'fputs\((%s), stderr\);\s*tc_put_plain' % LITERALS


def text_of(literals):
    """The characters of C string literals that stand beside each other."""
    text = "".join(x[1:-1] for x in re.findall(LITERAL, literals))
    return text.replace('\\"', '"').replace("\\n", " ").strip()


def messages():
    """What the sources can say."""
    found = set()
    for pattern in SOURCES:
        for path in glob.glob(os.path.join(tap.SRC, pattern)):
            with open(path) as f:
                source = f.read()
            found.update(text_of(x) for place in PLACES for x in re.findall(place, source))
            found.update(text_of(x).rstrip() + " %s" for x in re.findall(BEFORE_TEXT, source))
    found -= {m for m in found if any(words in m for words in NOT_A_TASKS)}
    ways = [m.replace("this %s computes", "this %s computes" % w) for m in found
            for w in ("device", "program")]
    return {m for m in ways if len(re.sub("[^a-z]|texcell|error", "", re.sub("%.?[a-z]", "", m))) >=
            4}


def plain(message):
    """With a % for whatever is filled in: formats in the sources; capitals, N and P:D
    in the page."""
    message = re.sub(r"item%s", "items", message)
    message = re.sub(r"%[-+#0.]*\d*(?:ll|z)?[a-zA-Z]", "%", message)
    message = re.sub(r"\b(?:P:D|[A-Z]{3,}|N)\b", "%", message).replace("%:%",
                                                                       "%").replace("%%%", "%")
    return re.sub(r"^texcell: (?:error: )?", "", message)


def cores(message):
    """A message, and what is left where its beginning or end is another's text."""
    text = plain(message)
    return {text, re.sub("^%: ", "", text), re.sub(": %$", "", text)}


def says(row, text):
    """Dots in the page stand for whatever is there, but not for all of a message."""
    return len(re.sub("[^a-zA-Z]", "", row)) >= 4 and re.fullmatch(
        re.escape(row).replace(re.escape("..."), ".*"), text) is not None


def parts():
    """The page's part on texcell's messages, and the one on BOINC's."""
    with open(os.path.join(tap.SRC, "docs", "messages.md")) as f:
        return f.read().split("## BOINC's own messages")


def rows():
    cells = [line if "starts over" in line else line.split(" | ")[0]
             for line in parts()[0].splitlines() if line.startswith("| `")]
    return re.findall(r"`([^`]+)`", " ".join(cells))


def clients_words():
    """The messages of BOINC's that the page explains, and all that its client and its library can
    say."""
    cells = " ".join(line.split(" | ")[0] for line in parts()[1].splitlines()
                     if line.startswith("| `"))
    files = glob.glob("/usr/bin/boinc") + glob.glob("/usr/lib/*/libboinc_api.so*")
    content = b""
    for path in files:
        with open(path, "rb") as f:
            content += f.read()
    return re.findall(r"`([^`]+)`", cells), content


def check_clients_words():
    said, content = clients_words()
    if b"postponed for" not in content:
        tap.skip("what the client says", "there is none")
        return
    for message in said:
        parts = [x.strip() for x in re.split(r"\b(?:NAME|REASON|N|35s)\b|-154", message)]
        tap.ok(all(x.encode() in content for x in parts if len(x) > 4),
               "the client says: " + message, parts)


def main():
    said, page = messages(), rows()
    tap.ok(len(said) > 60 and len(page) > 60, "there are messages in both",
           "%d, %d" % (len(said), len(page)))
    sources, explained = (set().union(*map(cores, texts)) for texts in (said, page))
    for row in page:
        tap.ok(any(says(core, text) for core in cores(row) for text in sources),
               "in the sources: " + row, plain(row))
    for message in sorted(said):
        tap.ok(any(says(core, text) for core in explained for text in cores(message)),
               "in the page: " + message, plain(message))
    check_clients_words()
    tap.done()


main()
