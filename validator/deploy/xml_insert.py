"""Adds elements to an XML file and leaves every other byte of it as it was."""
import re
import xml.parsers.expat

from texcell_project import Problem


# A start tag; its attributes are skipped.
TAG = re.compile(rb"""<[^\s/>]+(\s+[^\s=]+\s*=\s*("[^"]*"|'[^']*'))*\s*(?P<empty>/?)>""")


def _spans(data, file_name):
    """{tuple of names from the root to an element: (index of its start tag, of its end tag)}, for
    the first element of each path. For <element/> the second index has no meaning."""
    parser = xml.parsers.expat.ParserCreate()
    open_elements, spans = [], {}

    def start(name, _attributes):
        open_elements.append((name, parser.CurrentByteIndex))

    def end(_name):
        path = tuple(name for name, _ in open_elements)
        _, begin = open_elements.pop()
        if path not in spans or begin < spans[path][0]:
            spans[path] = begin, parser.CurrentByteIndex

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    if b"\0" in data:
        raise Problem("%s: is in UTF-16, and so not touched" % file_name)
    try:
        parser.Parse(data, True)
    except xml.parsers.expat.ExpatError as error:
        raise Problem("%s: is not well-formed XML, and so not touched: %s" % (file_name, error))
    return spans


def _indented(text, depth):
    return "".join("    " * depth + line + "\n" for line in text.splitlines())


def insert(data, path, text, file_name):
    """Returns `data` with `text` (one or more elements) added as the last content of the element
    `path`, a tuple of names. If the last of these elements does not exist, it is added, too.
    file_name: the file's name in messages."""
    spans = _spans(data, file_name)
    depth = len(path)
    if path not in spans:
        name = path[-1]
        if path[:-1] not in spans:
            raise Problem("%s: has no <%s>" % (file_name, ">/<".join(path[:-1]) or name))
        wrapped = "<%s>\n%s</%s>" % (name, _indented(text, 1), name)
        return insert(data, path[:-1], wrapped, file_name)
    begin, end = spans[path]
    tag = TAG.match(data, begin)
    if tag.group("empty"):                              # <daemons/>
        margin = "    " * (depth - 1)
        rest = ">\n%s%s</%s>" % (_indented(text, depth), margin, path[-1])
        out = data[:tag.end() - 2] + rest.encode() + data[tag.end():]
    else:
        line = data.rfind(b"\n", 0, end) + 1
        position = line if data[line:end].strip() == b"" else end
        gap = b"" if position == line else b"\n"
        out = data[:position] + gap + _indented(text, depth).encode() + data[position:]
    _spans(out, file_name)
    return out
