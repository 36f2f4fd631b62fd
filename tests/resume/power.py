"""Simulates a power cut: replays the events recorded by tests/resume/record.c, and chooses a
possible state of the disk after the cut. Data that were not synced may be on the disk completely,
in part, or not at all; changes of names take effect in order, and are certain once their folder is
synced."""
import os

SECTOR = 512


class Node:
    """A file: the bytes that are certainly on the disk, and the changes made after them."""

    def __init__(self, data=b""):
        self.data, self.since = data, []

    @staticmethod
    def changed(data, change):
        kind, at, new = change
        if kind == "size":
            return data[:at] + bytes(max(0, at - len(data)))
        data += bytes(max(0, at - len(data)))
        return data[:at] + new + data[at + len(new):]

    def sync(self):
        for change in self.since:
            self.data = self.changed(self.data, change)
        self.since = []

    def after_cut(self, rng):
        """The bytes after a power cut: with none of the later changes, all, the first ones, or
        single sectors of them."""
        how = rng.choice(("nothing", "all", "first", "parts"))
        data, n = self.data, 0 if how == "nothing" else len(self.since)
        if how == "first":
            n = rng.randrange(n + 1)
        for kind, at, new in self.since[:n]:
            if how != "parts" or kind == "size":
                data = self.changed(data, (kind, at, new))
                continue
            for begin in range(0, len(new), SECTOR):
                if rng.random() < 0.6:
                    data = self.changed(data, (kind, at + begin, new[begin:begin + SECTOR]))
        return data


class Disk:
    """Files in a folder and its subfolders; at the start {name: bytes}."""

    def __init__(self, folder, files):
        self.folder = folder
        self.names = {name: Node(data) for name, data in files.items()}
        self.now, self.since, self.nodes, self.marks = dict(self.names), [], {}, []

    def own(self, path):
        """The path relative to the folder, or None if it is outside."""
        name = os.path.relpath(path, self.folder)
        return None if name.startswith("..") else name

    @staticmethod
    def change(names, change):
        kind, a, b = change
        if kind == "create":
            names[a] = b
        elif kind == "rename" and a in names:
            names[b] = names.pop(a)
        elif kind == "remove":
            names.pop(a, None)

    def rename(self, *change):
        self.change(self.now, change)
        self.since.append(change)

    def do(self, word, *rest):
        if word == "mark":
            self.marks.append(rest[0])
        elif word == "folder":          # there is one journal: all earlier changes are on disk, too
            for change in self.since:
                self.change(self.names, change)
            self.since = []
        elif word in ("create", "open"):
            node, name = rest[0], self.own(rest[1])
            self.nodes[node] = Node() if name is None or word == "create" else self.now[name]
            if word == "create" and name is not None:
                self.rename("create", name, self.nodes[node])
        elif word in ("rename", "remove"):
            if self.own(rest[0]) is not None:
                self.rename(word, self.own(rest[0]), self.own(rest[1]) if word == "rename"
                            else None)
        elif word == "sync":
            self.nodes[rest[0]].sync()
        else:
            self.nodes[rest[0]].since.append((word, rest[1], rest[2] if word == "write" else b""))

    def after_cut(self, rng):
        """{name: bytes} after a power cut, one of the possible states, at random."""
        names = dict(self.names)
        for change in self.since[
                :rng.choice((0, len(self.since), rng.randrange(len(self.since) + 1)))]:
            self.change(names, change)
        return {name: node.after_cut(rng) for name, node in names.items()}


def read(path):
    """Yields the events of a record."""
    with open(path, "rb") as f:
        while True:
            line = f.readline().decode()
            if not line:
                return
            word, rest = line[:-1].split(" ", 1)
            if word == "write":
                node, at, n = (int(x) for x in rest.split())
                yield word, node, at, f.read(n)
            elif word == "size":
                yield (word, *(int(x) for x in rest.split()))
            elif word == "sync":
                yield word, int(rest)
            elif word in ("create", "open"):
                node, name = rest.split(" ", 1)
                yield word, int(node), name
            elif word == "rename":
                yield word, rest, f.readline().decode()[:-1]
            else:
                yield word, rest
