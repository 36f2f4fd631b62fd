"""Finds and runs texcell's programs, and turns their exit codes into exceptions."""
from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
from typing import Any, Callable, Optional

SUFFIX = ".exe" if os.name == "nt" else ""


class Error(Exception):
    """A program's error message; code is its exit code."""

    code = 70


class UsageError(Error, ValueError):
    """Exit code 1: the arguments are wrong."""

    code = 1


class InputError(Error, ValueError):
    """Exit code 2: a picture or a file is wrong; trying again does not help."""

    code = 2


class TryLater(Error):
    """Exit code 3, or the program was killed: the same call with `resume` continues."""

    code = 3


class InternalError(Error):
    """Exit code 70: an internal error of the program."""


class Note(UserWarning):
    """The program's note about pictures that it changes, or whose result may be wrong."""


def folder() -> str:
    """The folder of the programs: TEXCELL names one of them or their folder; otherwise that of the
    wheel, or of PATH."""
    named = os.environ.get("TEXCELL")
    if named:
        if not os.path.exists(named):
            raise FileNotFoundError("TEXCELL=%s: no such folder or program" % named)
        return named if os.path.isdir(named) else os.path.dirname(os.path.abspath(named))
    wheel_folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
    found = wheel_folder if os.path.exists(os.path.join(wheel_folder, "texcell" +
                                                        SUFFIX)) else shutil.which(
        "texcell")
    if found is None:
        raise FileNotFoundError("no texcell: neither in this package (a wheel has it) nor in PATH; "
                                "TEXCELL may name it")
    return found if found is wheel_folder else os.path.dirname(found)


def spell(words: str, private: str) -> str:
    """The program's message, with its options as Python arguments and without the temporary
    folder's name."""
    if private:
        words = re.sub(re.escape(private + os.sep) + r"(?:images|labels|mask)[/\\]([\w.-]+)\.nii\b",
                       r"\1", words)
        words = words.replace(private + os.sep, "").replace(private, "")
    words = re.sub(r"--(\w+) ([A-Z]+(?:,[A-Z]+)+)", r"\1=(\2)", words)
    return re.sub(r"--(labels|channel) (N\b)?", lambda m: m[1] + "=" + (m[2] or " "), words)


def end(running: subprocess.Popen[str]) -> None:
    """Ends the program after Ctrl-C: on a signal it stops with a checkpoint."""
    if os.name != "nt":                   # on Windows the console has sent Ctrl-C to it
        running.send_signal(signal.SIGINT)
    try:
        running.wait(60)
    except subprocess.TimeoutExpired:
        running.kill()


def fail(code: int, faults: list[str]) -> Error:
    kind = {1: UsageError, 2: InputError, 3: TryLater}.get(code,
                                                           TryLater if code < 0 else InternalError)
    error = kind("\n".join(faults + ["ended by signal %d" % -code] * (code < 0)).replace(
        "--param ", "") or "ended with exit code %d" % code)
    error.code = code
    return error


def note(words: str) -> None:
    """Gives a warning for the line that called this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[
            0] == __name__.partition(".")[0]:
        frame, level = frame.f_back, level + 1
    warnings.warn(words.replace("--param ", ""), Note, stacklevel=level)


def run(program: str, *arguments: str, private: str = "",
        watch: Optional[Callable[[str], None]] = None, unlike: str = "(?!)") -> list[str]:
    """Runs a program to its end. Returns its messages except for errors. watch is called with each
    line at once; a note that the regular expression unlike matches is not passed on."""
    command = [os.path.join(folder(), program + SUFFIX), *arguments]
    output, faults = [], []
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE,
                          encoding="utf-8", errors="replace") as running:
        try:
            assert running.stderr is not None
            for line in running.stderr:
                line = spell(line.rstrip("\n"), private)
                kind, _, words = line.partition(": ")[2].partition(": ")
                if kind == "error":
                    faults.append(words)
                    continue
                output.append(line)
                if watch is not None:
                    watch(line)
                noted = re.match(r"[^:]*: (?:(.*?: )?)(?:note|warning): (.*)", line)
                if noted and not re.search(unlike, line):
                    note("".join(filter(None, noted.groups())))
        except BaseException:
            end(running)
            raise
    if running.returncode != 0:
        raise fail(running.returncode, faults)
    return output


@functools.lru_cache(maxsize=None)
def _told(where: str, *arguments: str) -> str:
    return subprocess.run([os.path.join(where, "texcell-wu" + SUFFIX), *arguments], check=True,
                          encoding="utf-8",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout


def all_parameters() -> dict[str, Any]:
    return dict(json.loads(_told(folder(), "parameters", "--json")))


def formats() -> str:
    """A text with "t" if the program reads TIFF, and "j" if it reads JPEG."""
    return "".join(letter for letter, library in (("t", "libtiff"), ("j", "libjpeg"))
                   if library in _told(folder(), "--version"))


def parameters(analysis: str) -> list[dict[str, Any]]:
    """The parameters of an analysis: for each its key, type, bounds, choices, default and
    meaning."""
    known = all_parameters()
    if analysis not in known:
        raise UsageError('"%s" is no analysis: %s' % (analysis, ", ".join(known)))
    return list(known[analysis])


def json_or_word(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def lines_of(keys: list[dict[str, Any]], outer: str = "") -> list[str]:
    """The parameters as lines of a docstring."""
    lines = []
    for p in keys:
        default = ("required" if p.get("required") else "default %s" % json.dumps(p["default"])
                   if "default" in p else "optional")
        unit = " (%s)" % p["unit"] if "unit" in p else ""
        lines += ["%s : %s%s; %s" % (outer + p["key"], p["value"], unit, default),
                  "    " + p["help"]]
        lines += lines_of(p.get("keys", []), outer + p["key"] + ".")
    return lines


def bar(total: int) -> Optional[Callable[[str], None]]:
    """A function that moves tqdm's bar by the lines of a run, or None without tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    progress_bar = tqdm(total=total, unit="image", file=sys.stderr)

    def watch(line: str) -> None:
        done = re.search(r": done \((\d+) of \d+\)", line)
        if done:
            progress_bar.update(int(done.group(1)) - progress_bar.n)
        if progress_bar.n >= total:
            progress_bar.close()
    return watch
