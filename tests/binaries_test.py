"""Tests the files that a release offers for download (make dist-binaries). In check-full: the
structure of the archives, made with the programs of the ordinary build. With
TEXCELL_PLATFORMS=long: all files, each in a clean environment: Linux in a root folder with an old C
library, ARM under qemu, Windows in a new wine folder, the Debian packages in a fresh Debian."""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

import other_system
import tap
from pictures import blobs

ROOT, BUILD = Path(tap.SRC).resolve(), Path(tap.BUILD).resolve()
WORK = Path(other_system.FOLDER)
PROGRAMS = ("texcell", "texcell-wu", "texcell-validate")
VERSION = tap.run([tap.TEXCELL, "--version"]).stdout.split()[1]
ANALYSE = ["analyse", "--analysis", "cellcount", "--defaults", "--param", "polarity=bright",
           "--device", "cpu", "-o", "found", "pictures"]


def module():
    """The Python module .ci/binaries.py."""
    spec = importlib.util.spec_from_file_location("binaries", ROOT / ".ci" / "binaries.py")
    binaries = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(binaries)
    return binaries


def members(path):
    """{name: (bytes, mode)} of an archive's files."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as z:
            return {n: (z.read(n), 0) for n in z.namelist()}
    with tarfile.open(path) as t:
        return {m.name: (t.extractfile(m).read(), m.mode) for m in t.getmembers()}


def check_archive(path, listed):
    """Checks every archive. listed: the names of the software that is linked in."""
    name = path.name.removesuffix(".zip").removesuffix(".tar.gz")
    files, end = members(path), ".exe" if path.suffix == ".zip" else ""
    archive_files = {n[len(name) + 1:]: data for n, (data, _mode) in files.items()
                     if n.startswith(name + "/")}
    tap.ok(len(archive_files) == len(files) and
           {n + end for n in PROGRAMS} <= set(archive_files) and
           all((mode == 0o755) == (n[len(name) + 1:] in PROGRAMS)
               for n, (_data, mode) in files.items() if not end),
           name + ": one folder, with the programs", sorted(files))
    broken = [link for page in ("README.md", "docs/quickstart.md")
              for link in re.findall(r"\]\(([^)#:]+)[)#]", archive_files[page].decode())
              if os.path.normpath(os.path.join(os.path.dirname(page), link)) not in archive_files]
    tap.ok(not broken, name + ": the files that README and quickstart link to exist", broken)
    sbom = json.loads(archive_files["texcell.spdx.json"])
    within = {p["name"] for p in sbom["packages"]} - {"texcell"}
    linked = {r["relatedSpdxElement"][len("SPDXRef-"):] for r in sbom["relationships"]
              if r["relationshipType"] == "STATIC_LINK"}
    tap.ok(within == linked == set(listed) ==
           {n[9:-4] for n in archive_files if n.startswith("licences/")} and
           all(archive_files["licences/%s.txt" % n].strip() for n in within) and
           (path.parent / (name + ".spdx.json")).read_bytes() == archive_files["texcell.spdx.json"],
           name + ": the linked software is listed, with its licences", (within, linked))
    return sbom, archive_files


def digests(folder):
    r = tap.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=folder)
    named = {line.split()[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    tap.ok(r.returncode == 0 and named | {"SHA256SUMS"} == set(os.listdir(folder)),
           "SHA256SUMS has every file", r.stdout + r.stderr)


def test_ordinary_build(binaries):
    """Archives made with the programs of the ordinary build: their form, and the same bytes
    twice."""
    parts = [("part", "MIT", "1.0", "generic/part@1.0", ROOT / "LICENSE")]
    made = []
    for folder in (WORK / "first", WORK / "second"):
        folder.mkdir()
        for platform in ("release", "windows"):
            programs = folder / "programs"
            programs.mkdir()
            for n in PROGRAMS:
                shutil.copy(BUILD / n, programs / (n + ".exe" * (platform == "windows")))
            binaries.archive(platform, programs, BUILD, parts, folder)
            shutil.rmtree(programs)
        binaries.sums(folder)
        made.append({p.name: p.read_bytes() for p in folder.iterdir()})
    tap.ok(made[0] == made[1] and len(made[0]) == 5, "archives made twice have the same bytes",
           sorted(made[0]))
    for end in (".tar.gz", ".zip"):
        check_archive(next((WORK / "first").glob("*" + end)), {"part"})
    digests(WORK / "first")
    subprocess.run(["tar", "-C", WORK, "-xf", next((WORK / "first").glob("*.tar.gz"))], check=True)
    r = tap.run([next(WORK.glob("texcell-*-linux-x86_64")) / "texcell", "selftest", "--device",
                 "cpu"])
    tap.ok(r.returncode == 0, "an unpacked program runs", r.stderr)


# --- with TEXCELL_PLATFORMS=long --------------------------------------------------------------

def run_separately(start, folder, root, found):
    """The steps of analyse as separate commands, as analyse starts texcell itself, which needs
    /proc, and more under qemu. start: words before the program."""
    pack = ["pack", "--analysis", "cellcount", "--param", "polarity=bright", "-o",
            found + "/workunit.zip", "pictures"]
    return [tap.run(start + [folder + "/" + argv[0], *argv[1:]], cwd=root) for argv in (
        ["texcell", "selftest", "--device", "cpu"], ["texcell-wu", *pack],
        ["texcell", "run", found + "/workunit.zip", "-o", found + "/result.npz", "--device", "cpu",
         "--quiet"])]


def pictures():
    """Writes a TIFF and a JPEG. Returns the ordinary build's results for them, by analyse and by
    run_separately()."""
    for name in ("pictures", "here"):
        (WORK / name).mkdir()
    Image.fromarray(blobs(200, 150, 1)).save(WORK / "pictures" / "a.tif", compression="tiff_lzw")
    Image.fromarray(np.dstack([blobs(100, 120, i) for i in range(3)])).save(
        WORK / "pictures" / "b.jpg", quality=95)
    r = [other_system.here(tap.TEXCELL_WU, *ANALYSE), *run_separately([], str(BUILD), WORK, "here")]
    if any(one.returncode != 0 for one in r):
        tap.bail("\n".join(one.stderr for one in r))
    expected = [(WORK / name / "result.npz").read_bytes() for name in ("found", "here")]
    shutil.rmtree(WORK / "found")
    return expected


def check_analysed(where, found, expected, *runs):
    """Tests that each of the runs succeeded, and that the result is the expected one."""
    errors = [r.stdout + r.stderr for r in runs if r.returncode != 0]
    tap.ok(not errors and (found / "result.npz").read_bytes() == expected,
           where + ": the self-tests pass, and a TIFF and a JPEG give the same result as here",
           "\n".join(errors))


def test_linux(folder, expected):
    root, start, libc = other_system.bare_root()
    if root is None:
        return
    shutil.copytree(folder, Path(root) / "texcell")
    shutil.copytree(WORK / "pictures", Path(root) / "pictures")
    (Path(root) / "found").mkdir()
    check_analysed("Linux with nothing but " + libc, Path(root) / "found", expected[1],
                   *run_separately(start, "/texcell", root, "found"))


def test_arm(folder, expected):
    start = ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"]
    if shutil.which(start[0]) is None:
        tap.skip("ARM", "no " + start[0])
        return
    (WORK / "arm").mkdir()
    check_analysed("ARM", WORK / "arm", expected[1],
                   *run_separately(start, str(folder), WORK, "arm"))


def test_windows(folder, expected):
    wine = "/usr/lib/wine/wine64"
    if not os.path.exists(wine):
        tap.skip("Windows", "no wine")
        return
    env = dict(os.environ, WINEPREFIX=str(WORK / "wine"), WINEDEBUG="-all",
               WINEDLLOVERRIDES="mscoree,mshtml=", DISPLAY="", LC_ALL="C.UTF-8")
    runs = [tap.run([wine, *argv], env=env, cwd=WORK) for argv in (
        ["wineboot", "-i"], [folder / "texcell.exe", "selftest", "--device", "cpu"],
        [folder / "texcell-wu.exe", *ANALYSE])]
    tap.run([os.path.join(os.path.dirname(wine), "wineserver64"), "-k"], env=env)
    check_analysed("Windows", WORK / "found", expected[0], *runs)


def test_debian(packages, expected):
    """apt installs the packages in a Debian that has nothing else."""
    if shutil.which("mmdebstrap") is None or os.getuid() != 0:
        tap.skip("Debian packages in a fresh Debian",
                 "no mmdebstrap, or no right to make a root folder")
        return
    suite, root = (re.search(r"VERSION_CODENAME=(\w+)",
                             Path("/etc/os-release").read_text()).group(1), WORK / "debian")
    names = " ".join("/" + p.name for p in packages)
    r = tap.run(["mmdebstrap", "--variant=apt", "--mode=root",
                 "--customize-hook=copy-in %s /" % " ".join(map(str, packages)),
                 "--customize-hook=chroot \"$1\" apt-get install -y --no-install-recommends " +
                 names, suite, root], timeout=1800)
    if r.returncode != 0 and "/texcell" not in r.stderr:
        tap.skip("Debian packages in a fresh Debian",
                 "no root can be made: " + r.stderr.strip()[-150:].replace("\n", "; "))
        return
    tap.ok(r.returncode == 0, "apt installs the Debian packages in a fresh Debian",
           r.stderr[-2000:])
    shutil.copytree(WORK / "pictures", root / "pictures")
    runs = [tap.run(["chroot", root, *argv]) for argv in (
        ["texcell", "selftest", "--device", "cpu"], ["texcell-wu", *ANALYSE],
        ["texcell-validate", "--help"], ["texcell-assimilate", "--help"],
        ["texcell-deploy", "--help"])]
    check_analysed("Debian", root / "found", expected[0], *runs)


def test_spdx(files):
    """The files are valid for the SPDX project's own tool, which pip installs, as Debian does not
    have it."""
    folder = BUILD / "python-tools" / "spdx"
    if not folder.exists():
        tap.run(["/usr/bin/python3", "-m", "pip", "-q", "install", "--target", folder,
                 "spdx-tools==0.8.3"])
    if not (folder / "bin" / "pyspdxtools").exists():
        tap.skip("SPDX", "spdx-tools cannot be installed here")
        return
    for path in files:
        r = tap.run(["/usr/bin/python3", folder / "bin" / "pyspdxtools", "-i", path],
                    env=dict(os.environ, PYTHONPATH=str(folder)))
        tap.ok(r.returncode == 0 and not r.stderr.strip(), path.name + " is SPDX",
               r.stdout + r.stderr)


def test_all_files(binaries):
    """All files of a release, each tried on its platform."""
    expected = pictures()
    r = tap.run(["make", "-s", "-C", BUILD, "dist-binaries"], timeout=3000)
    if r.returncode == 75 or "cannot be fetched" in r.stderr:
        tap.skip("downloads", "what they are built from cannot be fetched here")
        return
    if not tap.ok(r.returncode == 0, "make dist-binaries", r.stdout[-2000:] + r.stderr[-2000:]):
        return
    out = WORK / "offered"
    shutil.copytree(ROOT / "build" / "binaries", out)
    digests(out)
    test_spdx(sorted(out.glob("*.spdx.json")))
    for platform, name in binaries.NAMES.items():
        path = next(p for p in out.glob("texcell-%s-%s.*" % (VERSION, name))
                    if not p.name.endswith(".json"))
        sbom, archive_files = check_archive(path,
                                            [*binaries.LIBRARIES, *binaries.RUNTIMES[platform]])
        program = archive_files["texcell-wu" + ".exe" * (platform == "windows")]
        versions = {p["name"]: re.sub(r"^\d:|\.dfsg|[+-].*", "", p["versionInfo"])
                    for p in sbom["packages"]}
        version_texts = {"zlib": "inflate %s ", "libpng1.6": "libpng version %s",
                         "expat": "expat_%s"}
        missing = [n for n, text in version_texts.items()
                   if (text % versions[n]).encode() not in program]
        tap.ok(not missing, name + ": the programs say the same versions", missing)
        folder = WORK / name
        shutil.unpack_archive(path, folder)
        {"release": test_linux, "arm64": test_arm,
         "windows": test_windows}[platform](next(folder.iterdir()), expected)
    test_debian(sorted(out.glob("*.deb")), expected)


if other_system.ALL:
    test_all_files(module())
else:
    test_ordinary_build(module())
tap.done()
