"""Adds elements to an XML file and leaves every other byte of it as it was."""
import xml.parsers.expat

from texcell_project import Problem


def _spans(data, shown):
    """Of each element, in the order of their ends: the names on the way to it,
    where it begins, and where its end tag does (None: <element/>)."""
    parser = xml.parsers.expat.ParserCreate()
    open_elements, found = [], []

    def start(name, _attributes):
        open_elements.append((name, parser.CurrentByteIndex))

    def end(_name):
        at = parser.CurrentByteIndex
        path = tuple(name for name, _ in open_elements)
        _, begin = open_elements.pop()
        found.append((path, begin, at if at > begin and data[at:at + 2] == b"</" else None))

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(data, True)
    except xml.parsers.expat.ExpatError as error:
        raise Problem("%s: is not well-formed XML, and so not touched: %s" % (shown, error))
    return found


def _indented(text, depth):
    return "".join("    " * depth + line + "\n" for line in text.splitlines())


def insert(data, path, text, shown):
    """`text` (one or more elements) as the last content of the element `path`,
    a tuple of names; the last of them is made where it is not there. `shown`
    is the file's name in messages."""
    spans = {p: (begin, end) for p, begin, end in reversed(_spans(data, shown))}
    depth = len(path)
    if path not in spans:
        name = path[-1]
        if path[:-1] not in spans:
            raise Problem("%s: has no <%s>" % (shown, ">/<".join(path[:-1]) or name))
        wrapped = "<%s>\n%s</%s>" % (name, _indented(text, 1), name)
        return insert(data, path[:-1], wrapped, shown)
    begin, end = spans[path]
    if end is None:                                     # <daemons/>
        stop = data.index(b">", begin) + 1
        margin = "    " * (depth - 1)
        new = "<%s>\n%s%s</%s>" % (path[-1], _indented(text, depth), margin, path[-1])
        out = data[:begin] + new.encode() + data[stop:]
    else:
        line = data.rfind(b"\n", 0, end) + 1
        at = line if data[line:end].strip() == b"" else end
        gap = b"" if at == line else b"\n"
        out = data[:at] + gap + _indented(text, depth).encode() + data[at:]
    _spans(out, shown)
    return out
