"""Chooses the calls of a program that tests make fail. A place is a call with the stack of all its
callers. The first and the last call of each place fail, alone or with all later calls ("N+"), in
the first test case that reaches the place. An environment variable selects some of these trials:
its value N means every N-th trial, 1 all trials, and "all" makes each call of each case fail."""
import collections
import os

import tap


class Sweep:
    """The trials of a test, in all of its cases."""
    def __init__(self, variable, step):
        """variable: the environment variable; step: the N if the variable is not set."""
        setting = os.environ.get(variable)
        self.every = setting == "all"
        self.step = 1 if self.every else int(setting or step)
        self.had, self.next, self.codes = set(), 0, collections.Counter()

    def trials(self, program, places):
        """[(place, "N" or "N+")], the trials of a program. places: {place: numbers of its
        calls}."""
        found = []
        for place in sorted(places):
            numbers = list(places[place])
            if not self.every:
                numbers = [] if (program, place) in self.had else sorted({numbers[0], numbers[-1]})
                self.had.add((program, place))
            found += [(place, "%d%s" % (n, more)) for n in numbers for more in ("", "+")]
        selected_trials = found[self.next::self.step]
        self.next = (self.next - len(found)) % self.step
        return selected_trials

    def tell(self, title, places, trials, codes, bad):
        """One test point for a case: the number of its trials, their exit codes, and the errors."""
        self.codes.update(codes)
        if trials:
            tap.ok(not bad, "%s: %d failures, %d calls in %d places: %s" %
                   (title, len(trials), sum(map(len, places.values())), len(places),
                    dict(collections.Counter(codes))), "\n".join(bad[:12]))

    def done(self):
        """Ends the test, after a test point: at least one injected failure changed an exit code."""
        if sum(self.codes.values()) > 20:
            tap.ok(set(self.codes) - {0},
                   "at least one injected failure changed an exit code: %s" % dict(self.codes))
        tap.done()


def told(file):
    """{place: numbers of its calls} as hooks/places.h writes them; if several processes called a
    place, the most calls."""
    found = {}
    with open(file, encoding="ascii") as f:
        for place, times in map(str.split, f):
            found[place] = max(found.get(place, 0), int(times))
    return {place: range(1, times + 1) for place, times in found.items()}
