#!/usr/bin/python3
"""Tests every command in README, docs and the other pages: runs the blocks fenced as sh, page by
page, in a folder with the files that they name. A word after `sh` gives the reason why a block
cannot be run; these blocks are listed. A command outside such a block is an error. A block fenced
as output must be the output of the block before it."""
import glob
import os
import re
import shutil
import subprocess
import sys

import numpy as np

import tap
from oracle import workunit

FOLDER = tap.scratch()
INPUTS = os.path.join(FOLDER, "inputs")
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "workunits/FORMAT.md",
         "workunits/templates/README.md",
         "tests/fuzz/README.md"] + sorted(os.path.relpath(p, tap.SRC) for p in glob.glob(
             os.path.join(tap.SRC, "docs", "**", "*.md"),
                                                                                recursive=True))
# {word after `sh`: the reason why the block is not run}
NEEDS = {"build": "builds, or runs all tests", "root": "needs root",
         "server": "needs a BOINC server", "client": "needs a BOINC client",
         "file": "is the content of a file", "synopsis": "is a form, not a command"}
COMMAND = re.compile(r"(\$ )?(texcell(-\w+)? |\./\w|validator/deploy/\w|bin/\w|boinccmd|make "
                     r"(-C|\w)|apt-get |autoreconf|sh \S+\.sh)")
# Pages describe the present; the past belongs in NEWS and in commit messages.
HISTORY = re.compile(r"(?i)\b(falls? short|formerly|since then|used to (be|take)|earlier "
                     r"versions?|busy (virtual )?machine)\b")
RNG = np.random.default_rng(20261122)


def save(name, picture):
    full = os.path.join(INPUTS, name)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as f:
        f.write(workunit.png(picture))


def blobs(height, width, dark):
    """A picture of discs of radius 5 on a slope with some noise."""
    y, x = np.mgrid[:height, :width]
    spots = ((y % 20 - 9) ** 2 + (x % 20 - 9) ** 2) < 30
    ground = 90 + (x + y) % 30 + RNG.integers(0, 8, (height, width))
    return np.where(spots, ground - 60 if dark else ground + 100, ground).astype(np.uint8)


def tiff(name, array):
    """Writes a TIFF of 8 bits, with a page for each plane."""
    from PIL import Image
    pages = [Image.fromarray(p) for p in (array if array.ndim == 3 else [array])]
    pages[0].save(os.path.join(INPUTS, name), save_all=True, append_images=pages[1:])


def make_inputs():
    """Writes small files with the names that the pages use."""
    from PIL import Image
    dark = blobs(40, 60, True)
    for i in range(2):
        save("pictures/drop_%d.png" % i, np.roll(dark, 7 * i, 1))
    save("pictures/ihc.png", np.dstack([dark, np.roll(dark, 3, 0), 255 - dark]))
    Image.fromarray(blobs(80, 90, True)).save(os.path.join(INPUTS, "smear.jpg"))
    tiff("nuclei.tif", blobs(120, 140, False))
    for i in range(2):
        save("nuclei/n%d.png" % i, np.roll(blobs(40, 60, False), i, 0))
        save("nuclei_labels/n%d.png" % i,
             (np.roll(np.indices((40, 60))[1] // 20 + 1, i, 0)).astype(np.uint8))
    walls = np.full((12, 30, 30), 30, np.uint8)
    walls[1:11, 2:28, 2:28] = 200
    walls[3:9, 4:14, 4:26] = walls[3:9, 16:26, 4:26] = 30
    tiff("walls.tif", walls)
    tiff("head.tif",
         np.where(np.hypot(*(np.indices((60, 60)) - 30)) < 20, 180, 40).astype(np.uint8))
    with open(os.path.join(INPUTS, "brain.json"), "w") as f:
        f.write('{"target": 180, "epsilon": 45, "iterations": 20, "init": {"type": "ball", "cx": '
                '30, "cy": 30, "r": 6}}\n')
    for name, result in (("drops_0001", "drops_0001"), ("WU", "RESULT")):
        unit = workunit.write(os.path.join(INPUTS, name + ".zip"), "glcm",
                              {"levels": [16], "distances": [1], "window": {"radius": 3}},
                              [workunit.item("d%d" % i, [dark]) for i in range(3)])
        r = tap.run([tap.TEXCELL, "run", unit, "-o", os.path.join(INPUTS, result + ".npz"),
                     "--device", "cpu", "--quiet"])
        tap.ok(r.returncode == 0, "the result " + result, r.stderr)
    for name in "AB":
        shutil.copy(os.path.join(INPUTS, "RESULT.npz"), os.path.join(INPUTS, name + ".npz"))


def blocks_of(page):
    """Two lists: (line, language, word after it, text) of each fenced block, and (line number,
    line) of all other lines."""
    fenced, free, fence = [], [], None
    with open(os.path.join(tap.SRC, page)) as f:
        for number, line in enumerate(f, 1):
            if line.startswith("```"):
                if fence is None:
                    fence = (number, *(line[3:].split() + ["", ""])[:2], [])
                else:
                    fenced.append((*fence[:3], "".join(fence[3])))
                    fence = None
            elif fence is not None:
                fence[3].append(line)
            else:
                free.append((number, line))
    tap.ok(fence is None, page + ": every fence is closed")
    return fenced, free


def run_page(page, blocks):
    """Runs a page's blocks one after the other, in a folder of its own."""
    folder = os.path.join(FOLDER, page.replace("/", "_"))
    shutil.copytree(INPUTS, folder)
    printed = None
    bin_folder = os.path.join(FOLDER, "bin")           # has the python3 with scikit-image
    os.makedirs(bin_folder, exist_ok=True)
    if not os.path.exists(os.path.join(bin_folder, "python3")):
        os.symlink(sys.executable, os.path.join(bin_folder, "python3"))
    env = dict(os.environ,
               PATH=":".join([os.path.abspath(tap.BUILD), bin_folder, os.environ["PATH"]]),
               PYTHONPATH=os.path.abspath(os.path.join(tap.SRC, "workunits", "python")))
    for line, language, _, text in blocks:
        if language == "output":
            tap.ok(printed == text, "%s:%d is the output of the commands before it" % (page, line),
                   printed)
            continue
        argv = [sys.executable, "-c", text] if language == "python" else ["bash", "-e", "-u", "-o",
                                                                          "pipefail", "-c", text]
        try:
            r = subprocess.run(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               universal_newlines=True, timeout=300)
            tap.ok(r.returncode == 0, "%s:%d: %s" % (page, line, text.split("\n")[0][:70]),
                   text + r.stdout)
            printed = r.stdout
        except subprocess.TimeoutExpired:
            tap.ok(False, "%s:%d: %s" % (page, line, text.split("\n")[0][:70]),
                   "lasts longer than 300 s")


def headings_of(text):
    """The anchors of the headings, as GitHub and similar sites make them."""
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-")
            for h in re.findall(r"(?m)^#+ (.*)$", text)}


def check_links(page):
    """Links lead to existing files, and to existing headings of pages."""
    text = {}

    def read(path):
        with open(os.path.join(tap.SRC, path), encoding="utf-8") as f:
            return text.setdefault(path, re.sub(r"(?ms)^```.*?^```$", "", f.read()))
    dead = []
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", read(page)):
        path, _, heading = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.isfile(os.path.join(tap.SRC, path)) or heading and path.endswith(
                ".md") and heading not in headings_of(read(path)):
            dead.append(target)
    tap.ok(not dead, page + ": every link leads somewhere", dead)


def check_packages(page):
    """The page's command for root, for those who have no sudo, names all packages that ./bootstrap
    build would install."""
    with open(os.path.join(tap.SRC, "bootstrap")) as f:
        expected = re.search(r'build_packages="([^"]*)"', f.read()).group(1).split()
    listed = next(text for _l, _s, word, text in blocks_of(page)[0] if word == "root").split()
    tap.ok(expected and set(expected) <= set(listed),
           page + ": names the packages of ./bootstrap build", set(expected) - set(listed))


def check_first_answer():
    """The output in README's quick start is what the command prints for scikit-image's picture of
    coins."""
    from skimage import data
    folder = os.path.join(FOLDER, "first")
    os.makedirs(os.path.join(folder, "pictures"))
    with open(os.path.join(folder, "pictures", "coins.png"), "wb") as f:
        f.write(workunit.png(data.coins()))
    r = subprocess.run([os.path.abspath(tap.TEXCELL_WU), "analyse", "--analysis", "cellcount", "-o",
                        "found", "pictures/"], cwd=folder,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                       check=False)
    page_output, printed = (re.sub(r"in [0-9.]+ s$", "in N s", text, flags=re.M)
                            for text in (next(b[3] for b in blocks_of("README.md")[0] if b[1] ==
                                              "text"),
                                         r.stdout))
    tap.ok(page_output == printed, "README.md: the quick start has the command's output", printed)


def main():
    make_inputs()
    check_first_answer()
    check_packages("docs/admin.md")
    ran = 0
    for page in PAGES:
        blocks, free = blocks_of(page)
        check_links(page)
        past = ["%d: %s" % (n, l.strip()) for n, l in free if HISTORY.search(l)]
        tap.ok(not past, page + ": describes the present, not the past", past)
        loose = ["%d: %s" % (n, l.strip()) for n, l in free if l.startswith("    ") and
                 COMMAND.match(l.strip())]
        loose += ["%d: %s" % (n, l.strip()) for n, lang, _, text in blocks
                  if lang not in ("sh", "python") for l in text.splitlines()
                  if COMMAND.match(l.strip())]
        tap.ok(not loose, page + ": every command is in a block fenced as sh", "\n".join(loose))
        unknown = [b[2] for b in blocks if b[1] == "sh" and b[2] and b[2] not in NEEDS]
        tap.ok(not unknown, page + ": each block that is not run has a reason", unknown)
        for line, language, word, text in blocks:
            if language == "sh" and word in NEEDS:
                tap.note("%s:%d is not run, it %s: %s" % (page, line, NEEDS[word],
                                                          text.split("\n")[0]))
        # The Python block of dataset.md is run by assimilate_test.py.
        mine = [b for b in blocks if b[1] == "sh" and not b[2] or b[1] == "output" or
                b[1] == "python" and page != "docs/dataset.md"]
        ran += len(mine)
        if mine:
            run_page(page, mine)
    tap.ok(ran >= 15, "%d blocks were run" % ran)
    tap.done()


main()
