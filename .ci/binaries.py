"""Makes the files that a release offers for download, in build/binaries: an archive each for Linux
on x86-64, Linux on ARM and Windows, with the programs that platform.sh builds; the Debian packages;
and SHA256SUMS. An archive contains the licences of all software that is linked into its programs,
and a list of that software as SPDX, which is also written beside the archive. The same sources give
the same bytes.

    python3 .ci/binaries.py BUILD [release] [arm64] [windows] [debian]      (all four; BUILD: an
                                                                            ordinary build)
"""
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "binaries"
SOURCES = ROOT / "build" / "sources"
DAY = 1767225600     # the modification time of every file in an archive: 2026-01-01 UTC
VERSION = re.search(r"AC_INIT\(\[texcell\], \[(.*?)\]",
                    (ROOT / "configure.ac").read_text()).group(1)
NAMES = {"release": "linux-x86_64", "arm64": "linux-arm64", "windows": "windows-x86_64"}
STRIP = {"release": "strip", "arm64": "aarch64-linux-gnu-strip",
         "windows": "x86_64-w64-mingw32-strip"}
# {library that libraries.sh builds: its licence as an SPDX expression}
LIBRARIES = {"zlib": "Zlib", "libdeflate": "MIT", "libpng1.6": "libpng-2.0", "jansson": "MIT",
             "libjpeg-turbo": "IJG AND BSD-3-Clause AND Zlib", "tiff": "libtiff", "expat": "MIT"}
# {software that a compiler links in: its licence}. For Linux: zig's own run-time library, and the
# start-up code of the glibc that comes with zig. For Windows: Debian packages.
LINUX = {"ziglang": "MIT", "glibc": "LGPL-2.1-or-later"}
RUNTIMES = {"release": LINUX, "arm64": LINUX,
            "windows": {"mingw-w64-x86-64-dev": "ZPL-2.1 AND MIT AND BSD-3-Clause",
                        "gcc-mingw-w64-x86-64-posix-runtime": "GPL-3.0-or-later WITH "
                        "GCC-exception-3.1"}}


def output_of(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout.decode().strip()


def library(name):
    """(version, package URL, licence file) of a library that libraries.sh built from Debian's
    sources."""
    folder = next(SOURCES.glob(name + "-*/"))
    version = re.match(r"\S+ \((.*?)\)", (folder / "debian" / "changelog").read_text()).group(1)
    texts = sorted(p for end in ("LICENSE*", "COPYING*", "*/COPYING") for p in folder.glob(end)
                   if "debian" not in p.parts)
    return (version, "deb/debian/%s@%s?arch=source" % (name, quote(version)),
            texts[0] if texts else folder / "debian" / "copyright")


def runtime(name):
    """(version, package URL, licence file) of software that a compiler links in."""
    zig = ROOT / "build" / "zig"
    if name == "ziglang":
        version = re.search(r"-(.*)\.dist-info",
                            next(zig.glob("ziglang-*.dist-info")).name).group(1)
        return version, "pypi/ziglang@" + version, zig / "ziglang" / "LICENSE"
    if name == "glibc":
        return "2.17", "generic/glibc@2.17", zig / "ziglang" / "lib" / "libc" / "glibc" / "LICENSES"
    version = output_of("dpkg-query", "-W", "-f", "${Version}", name)
    return (version, "deb/debian/%s@%s" % (name, quote(version)),
            Path("/usr/share/doc", name, "copyright"))


def linked(platform):
    """[(name, licence, version, package URL, licence file)] of the software that is linked into a
    platform's programs."""
    return [(n, lic, *library(n)) for n, lic in LIBRARIES.items()] + [
        (n, lic, *runtime(n)) for n, lic in RUNTIMES[platform].items()]


def spdx(archive, parts):
    """The list of the software in an archive's programs as SPDX 2.3 JSON. parts: what linked()
    returns."""
    def package(name, version, licence, **more):
        return {"SPDXID": "SPDXRef-" + name, "name": name, "versionInfo": version,
                "licenseConcluded": licence, "licenseDeclared": licence,
                "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                "copyrightText": "NOASSERTION", **more}
    packages = [package("texcell", VERSION, "MIT", primaryPackagePurpose="APPLICATION")]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-texcell")]
    for name, licence, version, url, _ in parts:
        packages.append(package(name, version, licence, externalRefs=[
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
             "referenceLocator": "pkg:" + url}]))
        relations.append(("SPDXRef-texcell", "STATIC_LINK", "SPDXRef-" + name))
    body = json.dumps([packages, relations]).encode()
    return json.dumps({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": archive,
        "documentNamespace": "https://texcell.invalid/spdx/%s-%s" %
        (archive, hashlib.sha256(body).hexdigest()),
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(DAY)),
                         "creators": ["Tool: texcell-binaries.py"]},
        "packages": packages, "relationships": [
            {"spdxElementId": a, "relationshipType": how, "relatedSpdxElement": b}
            for a, how, b in relations]}, indent=1) + "\n"


def texts(build, manuals):
    """{name in the archive: file} of licence and documents. manuals: whether manual pages and shell
    completion are included."""
    files = {n: ROOT / n for n in ("LICENSE", "CITATION.cff", "workunits/FORMAT.md")}
    for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*")]:
        if p.suffix in (".md", ".png", ".jpg", ".webp", ".ipynb"):
            files[str(p.relative_to(ROOT))] = p
    if manuals:
        files.update({"man/%s.1" % n: build / "docs" / "man" / (n + ".1")
                      for n in ("texcell", "texcell-wu", "texcell-validate")})
        files["completion/texcell"] = ROOT / "docs" / "completion" / "texcell"
    return files


def write_archive(path, files):
    """files: {name: (bytes, whether it is an executable)}; path ends in .zip or .tar.gz."""
    with open(path, "wb") as f:
        if path.suffix == ".zip":
            with zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as z:
                for name, (data, _) in sorted(files.items()):
                    z.writestr(zipfile.ZipInfo(name, time.gmtime(DAY)[:6]), data,
                               zipfile.ZIP_DEFLATED)
            return
        with gzip.GzipFile("", "wb", 9, f,
                           mtime=DAY) as packed, tarfile.open(fileobj=packed, mode="w",
                                                              format=tarfile.USTAR_FORMAT) as t:
            for name, (data, program) in sorted(files.items()):
                member = tarfile.TarInfo(name)
                member.size, member.mtime, member.mode = len(data), DAY, 0o755 if program else 0o644
                t.addfile(member, io.BytesIO(data))


def archive(platform, programs, build, parts, out):
    """Writes the archive of a platform, and its SPDX file. programs: the folder of the stripped
    programs."""
    name = "texcell-%s-%s" % (VERSION, NAMES[platform])
    files = {n: (p.read_bytes(), False) for n, p in texts(build, platform != "windows").items()}
    files.update({p.name: (p.read_bytes(), True) for p in programs.iterdir()})
    files.update({"licences/%s.txt" % n: (text.read_bytes(), False) for n, _, _, _, text in parts})
    listed = spdx(name, parts)
    files["texcell.spdx.json"] = (listed.encode(), False)
    write_archive(out / (name + (".zip" if platform == "windows" else ".tar.gz")),
                  {name + "/" + n: f for n, f in files.items()})
    (out / (name + ".spdx.json")).write_text(listed)


def build_programs(platform, stage):
    r = subprocess.run(["sh", str(ROOT / ".ci" / "platform.sh"), platform], check=False)
    if r.returncode != 0:
        sys.exit(r.returncode)
    stage.mkdir(parents=True)
    end = ".exe" if platform == "windows" else ""
    for name in ("texcell", "texcell-wu", "texcell-validate"):
        subprocess.run([STRIP[platform], "-o", stage / (name + end),
                        ROOT / "build" / platform / "texcell" / (name + end)], check=True)


def debian(build, stage, out):
    """Builds the Debian packages from the source tree that `make dist` would pack."""
    folder, log = stage / "texcell", open(stage / "debian.log", "wb")
    alone = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    for argv, at in ((["make", "-s", "-C", build, "distdir", "distdir=%s" % folder], ROOT),
                     (["dpkg-buildpackage", "-us", "-uc", "-b"], folder)):
        if subprocess.run(argv, cwd=at, env=alone, stdout=log, stderr=subprocess.STDOUT,
                          check=False).returncode != 0:
            sys.exit("binaries.py: error: %s failed:\n%s" %
                     (argv[0], Path(log.name).read_text(errors="replace")[-3000:]))
    for p in stage.glob("*.deb"):
        if "dbgsym" not in p.name:
            shutil.copy(p, out)


def sums(out):
    files = sorted(p for p in out.iterdir() if p.is_file() and p.name != "SHA256SUMS")
    (out / "SHA256SUMS").write_text(
        "".join("%s  %s\n" % (hashlib.sha256(p.read_bytes()).hexdigest(), p.name) for p in files))


def main():
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= {*NAMES, "debian"}:
        sys.exit(__doc__)
    build, stage = Path(sys.argv[1]).resolve(), OUT / "stage"
    shutil.rmtree(OUT, True)
    stage.mkdir(parents=True)
    for what in sys.argv[2:] or [*NAMES, "debian"]:
        if what == "debian":
            debian(build, stage, OUT)
        else:
            build_programs(what, stage / what)
            archive(what, stage / what, build, linked(what), OUT)
    shutil.rmtree(stage)
    sums(OUT)
    print((OUT / "SHA256SUMS").read_text(), end="")


if __name__ == "__main__":
    main()
