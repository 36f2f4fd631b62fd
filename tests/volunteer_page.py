"""Tests that docs/messages.md and the sources agree: the program can print every message that the
page explains, and the page explains every message that it can print to a volunteer."""
import glob
import os
import re

import tap

# The sources of the messages of a task. The messages about bad work units, from readers and
# analyses, are for the project's staff: the page has one sentence for all of them.
SOURCES = ["app/*.c", "app/base/*.c", "wrapper/*.c", "wrapper/*.cpp", "opencl/backends.c",
           "opencl/device.c", "opencl/loader.c",
           "opencl/program.c", "opencl/selftest_cl.c", "opencl/work.c", "app/analysis/selftest.c"]
# Parts of messages that are printed only on a command line.
NOT_A_TASKS = ["is the work unit and cannot be written too", "run: takes one work unit",
               "no result is named",
               "the same command goes on from here", "devices: takes no arguments",
               "selftest: takes only", "of the analyses: see above", "on %u thread",
               "unknown command", "no BOINC client has started", "\\033[K", "is used alone",
               "nothing to do", "standard output: cannot",
               "%s: error: %s", "or --replace", "; --replace computes it again"]
LITERAL = r'"(?:[^"\\]|\\.)*"'
LITERALS = r'(?:%s\s*(?:PRI\w+\s*)?)+' % LITERAL
STATUS = (r'(?:TC_BAD_INPUT|TC_TRY_LATER|TC_IO|tc_write_error_status\(\w+\)|TC_DEVICE|TC_TOO_LARGE|'
          r'TC_USAGE|TC_NO_MEMORY|st|status|device != NULL \? TC_DEVICE : TC_INTERNAL)')
PLACES = [r'tc_fail\(\w*&?\w+(?:->\w+)?,\s*%s,\s*(%s)' % (STATUS, LITERALS),
          r'fprintf\(stderr,\s*(%s)' % LITERALS,
          r'progress_(?:print|note)\(&?\w+(?:->\w+)*,\s*(%s)' % LITERALS,
          r'refuse(?:_device)?\(&?\w+,\s*(%s)' % LITERALS,
          r'\bwhy = (%s);' % LITERALS,
          r'\bmarker\[\] = (%s);' % LITERALS,
          r'return ("(?:is|its?) [^"]*");',
          r'snprintf\(text, REASON_MAX, (%s)' % LITERALS,
          r'append_text\(reason,\s*(%s)' % LITERALS,
          r'boinc_side_temporary_exit\((%s)' % LITERALS]
# A message to which a text from the work unit is appended.
BEFORE_TEXT = r'fputs\((%s), stderr\);\s*tc_print_printable' % LITERALS


def text_of(literals):
    """The text of adjacent C string literals."""
    text = "".join(x[1:-1] for x in re.findall(LITERAL, literals))
    return text.replace('\\"', '"').replace("\\n", " ").strip()


def messages():
    """The messages in the sources."""
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
    """The message with % for each variable part: in the sources a format, in the page a word in
    capitals, N or P:D."""
    message = re.sub(r"item%s", "items", message)
    message = re.sub(r"%[-+#0.]*\d*(?:ll|z)?[a-zA-Z]", "%", message)
    message = re.sub(r"\b(?:P:D|[A-Z]{3,}|N)\b", "%", message).replace("%:%",
                                                                       "%").replace("%%%", "%")
    return re.sub(r"^texcell: (?:error: )?", "", message)


def cores(message):
    """The message as plain() makes it, also without a % at its beginning or end, as that part may
    be another message."""
    text = plain(message)
    return {text, re.sub("^%: ", "", text), re.sub(": %$", "", text)}


def says(row, text):
    """Whether a message of the page is `text`. "..." in the page matches any text, but not a whole
    message."""
    return len(re.sub("[^a-zA-Z]", "", row)) >= 4 and re.fullmatch(
        re.escape(row).replace(re.escape("..."), ".*"), text) is not None


def parts():
    """The page's part about texcell's messages, and the part about BOINC's."""
    with open(os.path.join(tap.SRC, "docs", "messages.md")) as f:
        return f.read().split("## BOINC's own messages")


def rows():
    """The messages in the page's tables."""
    cells = [line if "starts over" in line else line.split(" | ")[0]
             for line in parts()[0].splitlines() if line.startswith("| `")]
    return re.findall(r"`([^`]+)`", " ".join(cells))


def clients_words():
    """The messages of BOINC that the page explains, and the bytes of BOINC's client and library."""
    cells = " ".join(line.split(" | ")[0] for line in parts()[1].splitlines()
                     if line.startswith("| `"))
    files = glob.glob("/usr/bin/boinc") + glob.glob("/usr/lib/*/libboinc_api.so*")
    content = b""
    for path in files:
        with open(path, "rb") as f:
            content += f.read()
    return re.findall(r"`([^`]+)`", cells), content


def check_clients_words():
    client_messages, content = clients_words()
    if b"postponed for" not in content:
        tap.skip("the client's messages", "there is none")
        return
    for message in client_messages:
        parts = [x.strip() for x in re.split(r"\b(?:NAME|REASON|N|35s)\b|-154", message)]
        tap.ok(all(x.encode() in content for x in parts if len(x) > 4),
               "the client can print: " + message, parts)


def main():
    program_messages, page = messages(), rows()
    tap.ok(len(program_messages) > 60 and len(page) > 60, "the page and the sources have messages",
           "%d, %d" % (len(program_messages), len(page)))
    sources, explained = (set().union(*map(cores, texts)) for texts in (program_messages, page))
    for row in page:
        tap.ok(any(says(core, text) for core in cores(row) for text in sources),
               "in the sources: " + row, plain(row))
    for message in sorted(program_messages):
        tap.ok(any(says(core, text) for core in explained for text in cores(message)),
               "in the page: " + message, plain(message))
    check_clients_words()
    tap.done()


main()
