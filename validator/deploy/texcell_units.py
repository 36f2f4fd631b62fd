"""Packs work units, and estimates the resources that each needs; texcell-submit does both before it
submits."""
import contextlib
import glob
import gzip
import hashlib
import json
import math
import os
import shutil
import tempfile
import xml.etree.ElementTree as ElementTree

from texcell_project import Problem, TRY_LATER, read_file, run, write_file

MIB = 1 << 20
DAY = 86400
# How many results, wrong or lost, a job may have in addition to the first ones before it fails.
# With create_work's own limits, which equal the number of first results, one lost result would end
# a job.
MORE_RESULTS = 6
# As <max_threads> in plan_classes.xml.
MAX_THREADS = 4
# Operations of a unit of suitable size (--for): an hour of a core of 5 GFLOPS; half an hour of a
# GPU, assumed to compute at a hundredth of 20 TFLOPS, as in plan_classes.xml.
SIZES = {"cpu": 3600 * 5e9, "gpu": 1800 * 2e11}
MAX_ITEMS = 100000     # the largest N of pack --split
UNIT_BYTES = 256 * MIB  # the largest unit that --for makes: a client downloads it at once
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".tif", ".tiff", ".btf", ".tf8",
                   ".lsm", ".stk", ".nii", ".nii.gz")
SHORT_SECONDS = 900     # a dry run warns if its units take less on average
# Credit of one operation: BOINC gives 200 for a day of 1 GFLOPS.
CREDIT = 200 / (DAY * 1e9)


# --- verifying ------------------------------------------------------------------------

# Assumptions of --accept-loss: the share of hosts that forge one item of each result, and the
# number of results that a host computes.
FORGERS, RESULTS_OF_HOST = 0.01, 100


def share_for_loss(loss):
    """The share of each result's items that must be computed again so that at most the share `loss`
    of all results stays wrong. Assumes that all results of a host that was caught are computed
    again. Of the hosts that forge, the share (1 - share) ** RESULTS_OF_HOST is not caught."""
    return 1 - min(1.0, loss / FORGERS) ** (1 / RESULTS_OF_HOST)


# --- the resources of a unit --------------------------------------------------------------

# The keys in the output of texcell-wu show --needs that are used here.
NEEDED_KEYS = {"items", "operations", "pixels", "row_bytes", "memory_bytes", "thread_bytes",
               "device_bytes", "state_bytes",
               "output_bytes", "most_rows_bytes", "taken_rows_bytes"}


def estimate(needs, deadline_days):
    """Computes the numbers for create_work from those of `texcell-wu show --needs`.

    rsc_fpops_est: an operation of the plan is one floating-point operation of the client's
    Whetstone benchmark; 1e10 operations, about two seconds, are added for start and end.
    rsc_fpops_bound ends only tasks that never end by themselves: it is far larger, as a GPU's speed
    is a guess. delay_bound gives enough time to a core of 1 GFLOPS that computes one hour in seven.
    rsc_memory_bound suffices for the largest number of threads of a plan class, and for a device,
    since a job is for all app versions.
    rsc_disk_bound is for checkpoint and result, each with the temporary file that replaces it; a
    result is assumed to have a row of a table (a region, a point) for every 16 pixels. Numbers are
    rounded up to steps (2% of operations, 16 MiB), so that many units have the same numbers and are
    created together."""
    rows = needs["pixels"] // 16 * needs["row_bytes"]
    fpops = 1.02 ** math.ceil(math.log(1e10 + needs["operations"], 1.02))
    memory = needs["memory_bytes"] + max(MAX_THREADS * needs["thread_bytes"],
                                         needs["device_bytes"]) + 64 * MIB
    disk = 2 * (needs["state_bytes"] + needs["output_bytes"] + rows) + 100 * MIB
    days = deadline_days if deadline_days is not None else max(7.0, 7 * fpops / 1e9 / DAY)
    return {
        "rsc_fpops_est": "%.6g" % fpops,
        "rsc_fpops_bound": "%.6g" % max(1e15, 100 * fpops),
        "rsc_memory_bound": "%d" % (-(-memory // (16 * MIB)) * 16 * MIB),
        "rsc_disk_bound": "%d" % (-(-disk // (16 * MIB)) * 16 * MIB),
        "delay_bound": "%d" % min(days * DAY, 2 ** 31 - 1),
        "credit": "%.6g" % (fpops * CREDIT),
    }


def read_needs(texcell_wu, units):
    """The numbers that `texcell-wu show --needs` prints for each unit."""
    code, text = run([texcell_wu, "show", "--needs"] + units)
    if code != 0:
        raise Problem(text.rpartition("texcell-wu: error: ")[2].strip())
    needs_list = [json.loads(line) for line in text.splitlines()]
    if not all(NEEDED_KEYS.issubset(needs) for needs in needs_list):
        raise Problem("%s: is of another texcell than this program: build it, and give "
                      "texcell-deploy again" % texcell_wu)
    return needs_list


def read_template(path, element, name):
    """The root of a template. An admin may have changed it: if it does not name the file `name`
    that the program opens, every task would fail, so that is an error."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise Problem("%s: is not well-formed XML: %s" % (path, error))
    if (root.findtext(element + "/file_ref/open_name") or "").strip() != name:
        raise Problem("%s: <open_name> within <%s> must be %s, or every task fails; where the file "
                      "is removed, texcell-deploy makes it again"
                      % (path, element, name))
    return root


def largest_upload(path):
    """<max_nbytes> of the result template `path`: the client refuses to upload more. Also checks
    the input template, which is next to it."""
    read_template(os.path.join(os.path.dirname(path), "texcell_in.xml"), "workunit", "workunit")
    try:
        return float(read_template(path, "result", "result").findtext("file_info/max_nbytes"))
    except (TypeError, ValueError):
        raise Problem("%s: has no <file_info>/<max_nbytes> that is a number" % path)


def duration(seconds):
    """A number of seconds in words."""
    for unit, length in (("d", DAY), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return "%.0f %s" % (seconds / length, unit)
    return "%.0f s" % seconds


def checked_numbers(template, options, texcell_wu, units):
    """[numbers for create_work] of work unit files, one element for each. Prints a line for each
    unit. Fails if a unit cannot be computed or validated."""
    max_upload = largest_upload(template)
    all_numbers = []
    for unit, needs in zip(units, read_needs(texcell_wu, units)):
        numbers = estimate(needs, options.deadline_days)
        allowed, needed = (options.max_memory * MIB or needs["taken_rows_bytes"],
                           needs["memory_bytes"] + needs["thread_bytes"])
        if options.max_memory and needed > allowed:
            raise Problem("%s: to compute an item again takes %d MiB, and the server may take %d: "
                          "raise texcell-deploy --max-memory"
                          % (os.path.basename(unit), needed // MIB + 1, allowed // MIB))
        if needs["most_rows_bytes"] > allowed:
            raise Problem("%s: an item that is all noise would have a table of %d MiB, of which "
                          "the server reads %d: set min_area or min_voxels to 16 or more, or raise "
                          "texcell-deploy --max-memory"
                          % (os.path.basename(unit), needs["most_rows_bytes"] // MIB,
                             allowed // MIB))
        result = needs["output_bytes"] + needs["pixels"] // 16 * needs["row_bytes"]
        if result > max_upload:
            raise Problem("%s: its result may have %d bytes, more than <max_nbytes> of "
                          "templates/texcell_out.xml: raise that, or put fewer items into a "
                          "unit (--split)" % (os.path.basename(unit), result))
        print("%s: %d item%s, about %s of a core, %s" % (
            os.path.basename(unit), needs["items"], "" if needs["items"] == 1 else "s",
            duration(float(numbers["rsc_fpops_est"]) / 5e9),
            ", ".join("%s %s" % pair for pair in numbers.items())))
        all_numbers.append(numbers)
        options.fewest = min(options.fewest, needs["items"])
        options.seconds.append(float(numbers["rsc_fpops_est"]) / 5e9)
    return all_numbers


def dry_run_total(options):
    """The last lines of a dry run: the total, and a note if the units are so small that hosts and
    server spend too much on each."""
    n, seconds = len(options.seconds), sum(options.seconds)
    text = "dry run: nothing was created: %d work units, about %s of a core" % (n,
                                                                                duration(seconds))
    if n > 1 and seconds / n < SHORT_SECONDS:
        text += ("\nnote: a unit takes %s: put more into each, so that it takes half an hour or "
                 "longer (--for cpu, or a larger --split)" % duration(seconds / n))
    return text


# --- packing ------------------------------------------------------------------------------

def pack(texcell_wu, words, name, inputs, folder, quiet=False):
    """Packs work units NAME_0001.zip ... into `folder`; returns their paths."""
    # left by a call that was interrupted
    for old in glob.glob(os.path.join(glob.escape(folder), "*.zip*")):
        os.unlink(old)
    code, text = run([texcell_wu, "pack"] + words + ["-o", os.path.join(folder, name + ".zip"),
                                                     "--"] + inputs, ends_with_us=True)
    if code != 0:
        *reasons, last = [e.strip() for e in text.split("texcell-wu: error: ")]
        raise Problem(last + (" (%s)" % reasons[1] if reasons[1:] else ""),
                      code if 0 < code < 64 else TRY_LATER)
    for line in text.splitlines():
        if (": note: " in line or line.startswith("    --param ")) and not quiet:
            print(line)
    return sorted(glob.glob(os.path.join(glob.escape(folder), "*.zip")), key=lambda p: (len(p), p))


def list_files(inputs):
    """Yields (path, relative path) of each file. The relative path is that within the input folder,
    or None if the input is a file."""
    for path in inputs:
        if not os.path.isdir(path):
            yield path, None
        for folder, folders, names in os.walk(path):
            folders.sort()
            paths = (os.path.join(folder, name) for name in sorted(names) if name[0] != ".")
            yield from ((file, os.path.relpath(file, path)) for file in paths)


def stat_pictures(options):
    """{path: size and time, as bytes} of all files that are packed."""
    pictures, recursive = {}, "--recursive" in options.pack
    for path, inner in list_files(options.inputs +
                                  [p for p in (options.params, options.mask, options.labels) if p]):
        if inner is None or (inner.lower().endswith(PICTURE_ENDINGS) and
                             (recursive or os.sep not in inner)):
            with contextlib.suppress(OSError):
                info = os.stat(path)
                pictures[os.fsencode(os.path.abspath(path))] = b"%d %d" % (info.st_size,
                                                                           info.st_mtime_ns)
    return pictures


def note_pictures(options, folder):
    """Records the pictures' sizes and times, before they are packed."""
    lines = (b"%s %s\0" % (what, path) for path, what in stat_pictures(options).items())
    write_file(os.path.join(folder, "pictures.gz"), gzip.compress(b"".join(lines)))


def changed_pictures(options, folder):
    """A message if pictures were added or changed since note_pictures, so that they are not
    submitted; else None."""
    try:
        lines = gzip.decompress(read_file(os.path.join(folder, "pictures.gz"))).split(b"\0")[:-1]
    except (OSError, EOFError):         # not in a backup
        return None
    recorded, current = {}, stat_pictures(options)
    for size, when, path in (line.split(b" ", 2) for line in lines):
        recorded[path] = size + b" " + when
    added, deleted = current.keys() - recorded.keys(), len(recorded.keys() - current.keys())
    changed = {path for path in current.keys() & recorded.keys() if current[path] != recorded[path]}
    if not added and not changed:
        return None
    return ("%s: files were changed after they were packed: %d new, %d changed, %d gone; none of "
            "that is submitted, such as %s: give another --name"
            % (options.name, len(added), len(changed), deleted, os.fsdecode(min(added | changed))))


def link_or_copy(path, target):
    """Makes a hard link or a copy; texcell-wu follows no symbolic link out of its inputs."""
    try:
        os.link(os.path.realpath(path), target)
    except OSError:
        shutil.copyfile(path, target)


def items_per_unit(texcell_wu, options, words):
    """(number of items in a unit of the requested size, estimated from the first picture; whether
    the number is limited by the bytes to download)."""
    inputs = ([(options.inputs[0], None)] if "--stack" in options.pack
              else list_files(options.inputs))
    problem_found = Problem("there is no picture from which to estimate the size: give --split")
    for path, inner in inputs:
        with tempfile.TemporaryDirectory(prefix="texcell-submit-") as folder:
            single_input = path
            try:
                # a picture in a folder is packed with its path within it, by which its mask is
                # found; a file that is no picture is skipped
                if inner is not None:
                    single_input = os.path.join(folder, "input")
                    os.makedirs(os.path.dirname(os.path.join(single_input, inner)))
                    link_or_copy(path, os.path.join(single_input, inner))
                unit, = pack(texcell_wu, words, "one", [single_input], folder,
                             quiet=inner is not None)
            except (Problem, OSError) as problem:
                if inner is None and "--skip-bad" not in options.pack:
                    raise
                text = str(problem).replace(single_input, os.path.dirname(path) if inner else path)
                problem_found = Problem(text, getattr(problem, "code", TRY_LATER))
                continue
            by_time = round(SIZES[options.size] / max(1.0, read_needs(texcell_wu,
                                                                      [unit])[0]["operations"]))
            by_bytes = UNIT_BYTES // os.path.getsize(unit)
            return max(1, min(MAX_ITEMS, by_time, by_bytes)), by_bytes < min(MAX_ITEMS, by_time)
    raise problem_found


def pack_all(texcell_wu, options, folder):
    """Packs all inputs; returns (paths of the units, the options of pack that give the same units
    again). Parameters are chosen once for all units, by a look at the pictures, unless the command
    line gives some."""
    words, look = list(options.pack), ["--suggest"] * options.suggest
    if options.size and "--split" not in words:
        n, large = items_per_unit(texcell_wu, options, words + look)
        print("--for %s: %d item%s a unit%s" % (options.size, n, "" if n == 1 else "s",
                                                ", for a download of about %d MiB" %
                                                (UNIT_BYTES // MIB) if large else ""))
        words += ["--split", str(n)]
    chosen = os.path.join(folder, "suggested.json")
    if look:
        look += ["--suggested", chosen]
    paths = pack(texcell_wu, words + look, options.name, options.inputs, folder)
    if os.path.exists(chosen):          # not of analyses that choose nothing
        for key, value in json.loads(read_file(chosen))["parameters"].items():
            words += ["--param", "%s=%s" % (key, json.dumps(value))]
        os.unlink(chosen)
    return paths, words


def digest_of(path, kind=hashlib.sha256):
    digest = kind()
    with open(path, "rb") as f:
        while block := f.read(MIB):
            digest.update(block)
    return digest.hexdigest()


def unit_of(path):
    return os.path.basename(path)[:-len(".zip")]
