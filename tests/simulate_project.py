"""Simulates a BOINC project in which some hosts make errors and some cheat, and tests the cost for
each right result, and the number of accepted wrong results, with quorum 2, with adaptive
replication, and with quorum 1 and verify. Shares have 95% confidence intervals (Wilson).
`simulate_project.py --table` makes the tables of docs/scale.md in a minute or two.

Honest hosts rarely return a wrong result by accident, each time a different one; broken hosts (bad
memory) often do; cheats forge values that validation cannot find by itself, in all items of a unit
or in one, each cheat differently or all in the same way (collusion). A unit has 20 items. The cost
counts each computation, also of discarded results; forged results cost nothing, as they are not
computed."""
import math
import os
import random
import sys

from tap import SRC, done, note, ok

sys.path.insert(0, os.path.join(SRC, "validator", "deploy"))
import texcell_units

ITEMS = 20
HONEST_ERRORS, BROKEN_ERRORS = 1e-4, 0.2
# TRUST: the number of consecutive valid results after which BOINC trusts a host. REQUEST: the units
# that a host gets at a request (max_wus_in_progress of texcell-deploy --scale); the scheduler draws
# once per request whether its units go to no other host.
TRUST, REQUEST = 10, 20


class Host:
    """kind: "honest", "broken" or "cheat". in_a_row: consecutive valid results. left: units of the
    last request that are still to be computed; alone: whether these units go to no other host.
    wrong: wrong results that were accepted; found: whether verify found a wrong one."""

    def __init__(self, kind, user):
        self.kind, self.user, self.in_a_row = kind, user, 0
        self.left, self.alone, self.wrong, self.found = 0, False, 0, False

    def is_alone(self, world):
        """Whether the host's next unit goes to no other host. The unit is of the host's last
        request, or of a new one if no unit of that is left."""
        if self.left == 0:
            self.left = REQUEST
            self.alone = self.in_a_row >= TRUST and world.random.random() >= 1 / self.in_a_row
        self.left -= 1
        return self.alone

    def result(self, world):
        """(value, number of forged items, cost). value: "right", or a number that only equal
        forgeries share."""
        if self.kind == "cheat":
            return (("lie" if world.collude else world.next_lie()),
                    ITEMS if world.forged == "all" else 1, 0)
        wrong = world.random.random() < (BROKEN_ERRORS if self.kind == "broken" else HONEST_ERRORS)
        return (world.next_lie() if wrong else "right"), 1 if wrong else 0, 1


class World:
    """A project. hosts: the number of hosts; cheats, broken: the shares of hosts that cheat or are
    broken; collude: whether all cheats forge in the same way; forged: whether they forge "all"
    items of a unit, or "one"."""

    def __init__(self, seed, hosts=2000, cheats=0.0, broken=0.01, collude=False, forged="all"):
        self.random = random.Random(seed)
        self.collude, self.forged, self.lies = collude, forged, 0
        n_cheats, n_broken = round(cheats * hosts), round(broken * hosts)
        kinds = ["cheat"] * n_cheats + ["broken"] * n_broken + ["honest"] * (hosts - n_cheats -
                                                                             n_broken)
        self.hosts = [Host(kind, user) for user, kind in enumerate(kinds)]
        self.spent, self.accepted, self.wrong, self.lost = 0.0, 0, 0, 0

    def next_lie(self):
        self.lies += 1
        return self.lies

    def compute(self, used):
        """A random host not in `used` computes the unit. Returns (host, value, number of forged
        items)."""
        while True:
            host = self.random.choice(self.hosts)
            if host.user not in used:
                used.add(host.user)
                value, forged, spent = host.result(self)
                self.spent += spent
                return host, value, forged

    def verified(self, forged, share, chance):
        """With the probability `chance` the server computes the given share of the items again.
        Returns False if one of these items was forged, otherwise True."""
        if share == 0 or self.random.random() >= chance:
            return True
        n = max(1, math.ceil(share * ITEMS - 1e-9))
        self.spent += n / ITEMS
        return not any(i < forged for i in self.random.sample(range(ITEMS), n))

    def pair(self, used, results, share, chance):
        """Computes results until two agree, at most 12 (the limit that texcell-submit sets).
        Returns the value, or None."""
        while len(results) < 12:
            host, value, forged = self.compute(used)
            if not self.verified(forged, share, chance):
                host.in_a_row = 0
                continue
            results.append((host, value))
            same = [h for h, v in results if v == value]
            if len(same) >= 2:
                for h, v in results:
                    h.in_a_row = h.in_a_row + 1 if v == value else 0
                return value
        return None

    def single(self, used, share, chance):
        """The first result that passes verify is accepted. Returns its value, or None."""
        for _ in range(12):
            host, value, forged = self.compute(used)
            if self.verified(forged, share, chance):
                host.in_a_row += 1
                host.wrong += value != "right"
                return value
            host.in_a_row, host.found = 0, True
        return None

    def adaptive(self, used, share, chance):
        """Adaptive replication: a single result of a trusted host may be accepted; otherwise does
        the same as pair()."""
        host, value, forged = self.compute(used)
        alone = host.is_alone(self)
        if not self.verified(forged, share, chance):
            host.in_a_row = 0
            return self.pair(used, [], share, chance)
        if alone:
            return value
        return self.pair(used, [(host, value)], share, chance)

    def run(self, units, policy, share=0.0, chance=1.0):
        ways = {"quorum 2": lambda used: self.pair(used, [], share, chance),
                "adaptive": lambda used: self.adaptive(used, share, chance),
                "quorum 1": lambda used: self.single(used, share, chance)}
        for _ in range(units):
            value = ways[policy](set())
            self.accepted += value is not None
            self.wrong += value not in (None, "right")
            self.lost += value is None
        return self

    def cost(self):
        return self.spent / max(1, self.accepted - self.wrong)


def wilson(k, n, z=1.96):
    """The 95% confidence interval (z = 1.96) of the share of an outcome seen k times in n."""
    middle, half = ((k + z * z / 2) / (n + z * z),
                    z / (n + z * z) * math.sqrt(k * (n - k) / n + z * z / 4))
    return max(0.0, middle - half), min(1.0, middle + half)


POLICIES = [("quorum 2", "quorum 2", 0.0, 1.0),
            ("quorum 2, `--fraction 0.001 --chance 0.02`", "quorum 2", 0.001, 0.02),
            ("adaptive", "adaptive", 0.0, 1.0),
            ("adaptive, `--fraction 0.05`", "adaptive", 0.05, 1.0),
            ("quorum 1", "quorum 1", 0.0, 1.0),
            ("quorum 1, `--verify 0.05`", "quorum 1", 0.05, 1.0),
            ("quorum 1, `--verify 0.2`", "quorum 1", 0.2, 1.0)]
WORLDS = [("no cheats", {}), ("1% cheat, all items", {"cheats": 0.01}),
          ("1% cheat, one item", {"cheats": 0.01, "forged": "one"}),
          ("5% cheat alike, all items", {"cheats": 0.05, "collude": True})]


def table(units):
    print("| setting | " + " | ".join(name for name, _ in WORLDS) + " |\n" +
          "|---" * (len(WORLDS) + 1) + "|")
    for name, policy, share, chance in POLICIES:
        cells = []
        for _what, world in WORLDS:
            w = World(1, **world).run(units, policy, share, chance)
            low, high = wilson(w.wrong, w.accepted)
            cells.append("%.2f; %.3f%% (%.3f to %.3f)" % (w.cost(), 100 * w.wrong / w.accepted,
                                                          100 * low, 100 * high))
        print("| %s | %s |" % (name, " | ".join(cells)), flush=True)


def test_quorum():
    w = World(2, hosts=300, cheats=0.05, broken=0.02).run(4000, "quorum 2")
    ok(w.wrong == 0 and w.lost == 0, "quorum 2: no result of cheats without collusion is accepted",
       (w.wrong, w.lost))
    ok(1.99 < w.cost() < 2.1,
       "quorum 2 costs two results, and more after errors: %.3f for a right one" % w.cost())
    w = World(3, hosts=300, cheats=0.1, broken=0, collude=True).run(6000, "quorum 2")
    low, high = wilson(w.wrong, w.accepted)
    # The chance that two of the first three results are of cheats, who agree: 3 c^2 - 2 c^3.
    ok(low <= 3 * 0.1 ** 2 - 2 * 0.1 ** 3 <= high,
       "quorum 2: colluding cheats are accepted as often as they meet: %.4f to %.4f" % (low, high))


def test_verify():
    for forged, share, passes in (("one", 0.1, 0.9), ("all", 0.05, 0.0), ("one", 0.5, 0.5)):
        w = World(4, hosts=300, cheats=0.2, broken=0, forged=forged).run(5000, "quorum 1", share)
        low, high = wilson(w.wrong, w.accepted)
        expected = 0.2 * passes / (0.8 + 0.2 * passes)
        ok(low - 1e-3 <= expected <= high + 1e-3,
           "quorum 1, verify %g, %s forged: %.4f to %.4f are accepted, expected %.4f"
           % (share, forged, low, high, expected))
    ok(abs(World(5, broken=0).run(3000, "quorum 1", 0.1).cost() - 1.1) < 0.01,
       "quorum 1: --verify costs the share of the items that it computes again")


def test_adaptive():
    w = World(6, hosts=100, cheats=0.05, broken=0.02).run(10000, "adaptive")
    q = World(6, hosts=100, cheats=0.05, broken=0.02).run(10000, "quorum 2")
    ok(1.0 < w.cost() < q.cost() - 0.5, "adaptive: %.2f results for each right one, quorum 2 %.2f" %
       (w.cost(), q.cost()))
    low, high = wilson(w.wrong, w.accepted)
    ok(high < 0.01, "adaptive: cheats are never trusted, so that only honest hosts' errors are "
       "accepted: %.5f to %.5f" % (low, high))


def test_sleepers():
    """Cheats that are honest until BOINC trusts them, and then forge all results: how many are
    accepted before one of their requests goes to another host, too."""
    world, counts = World(8), []
    for _ in range(4000):
        host, forged = Host("cheat", 0), 0
        host.in_a_row = TRUST
        while host.is_alone(world):
            forged += 1
        counts.append(forged)
    mean = sum(counts) / len(counts)
    # A request goes to the host alone with the probability 1 - 1 / TRUST.
    ok(abs(mean - REQUEST * (TRUST - 1)) < 10 and min(counts) in (0, REQUEST),
       "adaptive: %.0f results of a host that forges once it is trusted are accepted" % mean, mean)


def test_loss():
    """texcell-deploy --accept-loss, with the formula that it uses itself."""
    for loss in (0.001, 0.003):
        share, wrong_after_again, wrong, accepted = texcell_units.share_for_loss(loss), 0, 0, 0
        # Four times as many cheats as the formula assumes, for better statistics.
        for seed in range(16):
            w = World(seed, hosts=500, cheats=4 * texcell_units.FORGERS, broken=0, forged="one")
            w.verified = lambda forged, _share, _chance, w=w, share=share: not (
                forged and w.random.random() < share)
            w.run(500 * texcell_units.RESULTS_OF_HOST, "quorum 1", share)
            cheats = [host for host in w.hosts if host.kind == "cheat"]
            wrong_after_again += sum(host.wrong for host in cheats if not host.found) / 4
            wrong, accepted = wrong + sum(host.wrong for host in cheats) / 4, accepted + w.accepted
        ok(0.5 * loss < wrong_after_again / accepted < 1.5 * loss and wrong / accepted > 2 * loss,
           "--accept-loss %g: verify %.3f leaves %.5f of the results wrong, %.5f without "
           "texcell-again" % (loss, share, wrong_after_again / accepted, wrong / accepted))


def test_bounds():
    ok(wilson(0, 100)[0] == 0 and abs(wilson(0, 100)[1] - 0.0370) < 1e-3 and
       abs(wilson(50, 100)[0] - 0.4038) < 1e-3,
       "the confidence interval is Wilson's", (wilson(0, 100), wilson(50, 100)))
    a, b = (World(7, hosts=50, cheats=0.1).run(300, "adaptive") for _ in range(2))
    ok((a.spent, a.wrong) == (b.spent, b.wrong), "the same seed gives the same project")


if sys.argv[1:] == ["--table"]:
    table(100000)
    sys.exit(0)
test_bounds()
test_quorum()
test_verify()
test_adaptive()
test_sleepers()
test_loss()
note("simulated")
done()
