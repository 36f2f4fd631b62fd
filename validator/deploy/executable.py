"""Reads from a program's file for which system and processor it is and which libraries it needs:
ELF (Linux), PE (Windows), Mach-O (macOS). The program is not run, so it may be for any computer."""
import re
import struct

from texcell_project import Problem, read_file

# (file format, machine number in the file's header) -> BOINC's name of the platform.
PLATFORMS = {("elf", 62): "x86_64-pc-linux-gnu", ("elf", 183): "aarch64-unknown-linux-gnu",
             ("pe", 0x8664): "windows_x86_64", ("pe", 0xaa64): "windows_arm64",
             ("macho", 0x1000007): "x86_64-apple-darwin",
             ("macho", 0x100000c): "arm64-apple-darwin"}
# Libraries that every system has, by file format; on Linux, the C library and those of the
# compiler.
SYSTEM_LIBRARIES = {
    "elf": re.compile(r"(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so)"),
    "pe": re.compile(r"(kernel32|advapi32|user32|shell32|ole32|psapi|ws2_32|winmm|bcrypt|msvcrt|"
                     r"ucrtbase|ntdll|api-ms-win-[\w-]+)\.dll\Z", re.I),
    "macho": re.compile(r"/(usr/lib|System/Library)/"),
}


class Executable:
    """A program's file. format: "elf", "pe" or "macho". platform: BOINC's name of the platform, or
    None. needed: names of the libraries that the program needs. libc: the newest release of glibc
    of which it needs a symbol, such as 217 for 2.17; or 0."""

    def __init__(self, path):
        self.path, self.data = path, read_file(path)
        self.needed, self.libc, machine = [], 0, None
        try:
            if self.data[:4] == b"\x7fELF" and self.data[4:6] == b"\2\1":
                self.format, machine = "elf", self._read_elf()
            elif self.data[:2] == b"MZ":
                self.format, machine = "pe", self._read_pe()
            elif self.data[:4] == b"\xcf\xfa\xed\xfe":
                self.format, machine = "macho", self._read_macho()
            else:
                raise Problem("%s: is not a 64-bit program for Linux, Windows or macOS" % path)
        except (struct.error, IndexError, StopIteration):
            raise Problem("%s: is a damaged program" % path) from None
        self.platform = PLATFORMS.get((self.format, machine))

    def missing(self):
        """The libraries that volunteers may lack, so that the project must hand them out."""
        return [name for name in self.needed if not SYSTEM_LIBRARIES[self.format].match(name)]

    def _at(self, layout, offset):
        """The little-endian numbers (struct's layout) at an offset of the file."""
        return struct.unpack_from("<" + layout, self.data, offset)

    def _text(self, offset):
        return self.data[offset:self.data.index(b"\0", offset)].decode("ascii", "replace")

    def _read_elf(self):
        first, = self._at("Q", 32)
        size, count = self._at("HH", 54)
        segments = [self._at("IIQQQQQQ", first + i * size) for i in range(count)]

        def file_offset(address):
            """Offset in the file of an address in memory."""
            return next(address - s[3] + s[2] for s in segments if s[0] == 1 and
                        s[3] <= address < s[3] + s[5])

        dynamic = {}
        for kind, _flags, offset, _address, _physical, length, _memory, _align in segments:
            for position in range(offset, offset + length, 16) if kind == 2 else ():
                tag, value = self._at("QQ", position)
                dynamic.setdefault(tag, []).append(value)
        if not dynamic:
            return self._at("H", 18)[0]
        names = file_offset(dynamic[5][0])
        self.needed = [self._text(names + value) for value in dynamic.get(1, [])]
        # The releases of libraries that the program needs (DT_VERNEED).
        position = file_offset(dynamic[0x6ffffffe][0]) if 0x6ffffffe in dynamic else None
        for _ in range(dynamic.get(0x6fffffff, [0])[0]):
            _version, entries, _file, entry, following = self._at("HHIII", position)
            entry += position
            for _ in range(entries):
                _hash, _flags, _other, name, next_entry = self._at("IHHII", entry)
                release = re.match(r"GLIBC_(\d+)\.(\d+)", self._text(names + name))
                if release:
                    self.libc = max(self.libc, 100 * int(release.group(1)) + int(release.group(2)))
                entry += next_entry
            position += following
        return self._at("H", 18)[0]

    def _read_pe(self):
        header, = self._at("I", 60)
        if self.data[header:header + 4] != b"PE\0\0" or self._at("H", header + 24) != (0x20b,):
            raise Problem("%s: is not a 64-bit program for Windows" % self.path)
        machine, sections, options = *self._at("HH", header + 4), *self._at("H", header + 20)
        table = [self._at("IIII", header + 24 + options + 40 * i + 8) for i in range(sections)]

        def file_offset(address):
            """Offset in the file of an address in memory."""
            return next(address - start + offset for size, start, length, offset in table
                        if start <= address < start + max(size, length))

        imports, = self._at("I", header + 24 + 112 + 8)
        position = file_offset(imports) if imports else None
        while position is not None and self._at("I", position + 12)[0]:
            self.needed.append(self._text(file_offset(self._at("I", position + 12)[0])))
            position += 20
        return machine

    def _read_macho(self):
        machine, = self._at("I", 4)
        position = 32
        for _ in range(self._at("I", 16)[0]):
            command, size = self._at("II", position)
            if command in (0xc, 0x80000018):
                self.needed.append(self._text(position + self._at("I", position + 8)[0]))
            position += size
        return machine
