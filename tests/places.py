"""Which calls are made to fail: of each place in a program (a call with all its callers) the first
and the last, once and from there on, in the first case that has it. What a variable of the
environment says: N for each N-th of these, 1 for all of them, "all" for every call of every
case."""
import collections
import os

import tap


class Sweep:
    def __init__(self, variable, step):
        """step: as N where the variable is not set."""
        wanted = os.environ.get(variable)
        self.every = wanted == "all"
        self.step = 1 if self.every else int(wanted or step)
        self.had, self.next, self.codes = set(), 0, collections.Counter()

    def trials(self, program, places):
        """[(place, "N" or "N+")] of {place: numbers of its calls}, as many as the step leaves."""
        found = []
        for place in sorted(places):
            numbers = list(places[place])
            if not self.every:
                numbers = [] if (program, place) in self.had else sorted({numbers[0], numbers[-1]})
                self.had.add((program, place))
            found += [(place, "%d%s" % (n, more)) for n in numbers for more in ("", "+")]
        taken = found[self.next::self.step]
        self.next = (self.next - len(found)) % self.step
        return taken

    def tell(self, title, places, trials, codes, bad):
        """The test point of a case: how its trials ended, and what was wrong."""
        self.codes.update(codes)
        if trials:
            tap.ok(not bad, "%s: %d failures, %d calls in %d places: %s" %
                   (title, len(trials), sum(map(len, places.values())), len(places),
                    dict(collections.Counter(codes))), "\n".join(bad[:12]))

    def done(self):
        """A failure that nobody meets is none."""
        if sum(self.codes.values()) > 20:
            tap.ok(set(self.codes) - {0}, "all of them: %s" % dict(self.codes))
        tap.done()


def told(file):
    """What hooks/places.h told there; of several processes that had calls of a place the most."""
    found = {}
    with open(file, encoding="ascii") as f:
        for place, times in map(str.split, f):
            found[place] = max(found.get(place, 0), int(times))
    return {place: range(1, times + 1) for place, times in found.items()}
