#!/usr/bin/python3
"""Writes year.txt: a year of random cron expressions in six time zones.

    python3 testdata/year.py        # Debian: python3-croniter 1.3.5, Python 3.11, tzdata

The local times come from croniter, which gets no time zone. The instants come from
Python's zoneinfo by the rules of the package comment (fires, below). Each line of
year.txt is an expression, then for each zone the number of times and the beginning of
the SHA-256 of all of them, as Unix times with a line feed after each.

croniter alone, with a time zone, has other rules and defects: 02:30 in a gap is 03:30, and
the first time after a change of the clock, even months later, is often off by the change.
The end of year.txt counts these differences for the expressions of at most 400 times a
year, about 2 in 100 times.

Known differences of croniter 1.3.5 in local times, and how this program avoids them:

- "*/2" in a day field does not count as "*", so the day fields are joined by OR: it passes
  day_or=False, which is cron's rule.
- A list of days with 1 and 31, also as "*/6", can miss 1 March: it merges the times of the
  single days.
- "1-31" counts as "*". Here, as in cron, only the first character decides: no random range
  has all values.
- The second is the last field: it moves it.
"""
import hashlib
import heapq
import itertools
import os
import random
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter

ZONES = [("America/New_York", 2024), ("Europe/Berlin", 2024), ("America/Sao_Paulo", 2018),
         ("America/Santiago", 2024), ("Australia/Lord_Howe", 2024), ("Pacific/Apia", 2011)]
COUNT = 200
MOST = 9000  # times a year, of every 20th expression: every hour is 8784
FEW = 800  # of the others
ALONE = 400  # of those that croniter computes with a time zone too
LARGE = timedelta(hours=3)
UTC = timezone.utc
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
DAYS = "sun mon tue wed thu fri sat".split()


def field(rnd, low, high, star, names=None):
    """Returns a random field; it is * with the probability star."""
    def value(v):
        return names[v - low] if names and rnd.random() < 0.4 else str(v)
    if rnd.random() < star:
        return "*"
    kind = rnd.randrange(6)
    a, b = sorted(rnd.sample(range(low, high + 1), 2))
    if (a, b) == (low, high):
        b -= 1
    if kind == 0:
        return "*/%d" % rnd.randint(2, (high - low) // 2 + 1)
    if kind == 1:
        return "%s-%s" % (value(a), value(b))
    if kind == 2:
        return "%d-%d/%d" % (a, b, rnd.randint(1, 4))
    if kind == 3:
        return ",".join(value(v) for v in rnd.sample(range(low, high + 1), rnd.randint(2, 4)))
    return value(a)


def expression(rnd):
    fields = [field(rnd, 0, 59, 0.03), field(rnd, 0, 5 if rnd.random() < 0.5 else 23, 0.25), field(rnd, 1, 31, 0.5),
              field(rnd, 1, 12, 0.7, MONTHS), field(rnd, 0, 6, 0.5, DAYS)]
    if rnd.random() < 0.15:
        fields.insert(0, field(rnd, 0, 59, 0.02))
    return " ".join(fields)


def iterate(expr, start, split=False):
    """Yields croniter's times after start, until it finds no more."""
    fields = expr.split()
    minute = len(fields) - 5
    both = fields[minute + 2][0] == "*" or fields[minute + 4][0] == "*"
    if fields[minute + 2].startswith("*/"):
        fields[minute + 2] = ",".join(map(str, range(1, 32, int(fields[minute + 2][2:]))))
    days = fields[minute + 2].split(",") if split else [fields[minute + 2]]
    each = []
    for day in days:
        line = fields[:minute + 2] + [day] + fields[minute + 3:]
        if minute == 1:
            line = line[1:] + line[:1]
        each.append(until_error(croniter(" ".join(line), start, ret_type=datetime, day_or=not both, max_years_between_matches=2)))
    for t, _ in itertools.groupby(heapq.merge(*each)):
        yield t


def until_error(times):
    try:
        yield from times.all_next()
    except CroniterBadDateError:  # none within two years
        pass


def local_times(expr, year, most):
    """Returns the local times of a year, or None if there are more than most, or none."""
    times = []
    for t in iterate(expr, datetime(year, 1, 1) - timedelta(seconds=1), split=True):
        if t.year > year:
            break
        times.append(t)
        if len(times) > most:
            return None
    return times or None


def change(local, zone):
    """Returns the instant of the change that skipped a local time."""
    before = local.replace(tzinfo=zone, fold=0).utcoffset()
    after = local.replace(tzinfo=zone, fold=1).utcoffset()
    low, high = local - after, local - before
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
        if middle.replace(tzinfo=UTC).astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high.replace(tzinfo=UTC)


def fires(expr, times, zone):
    """Returns the Unix times at which a schedule fires."""
    fields = expr.split()
    wildcard = any(f[0] == "*" for f in fields[:len(fields) - 3])
    out = set()
    for local in times:
        first, second = (local.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
        shift = second.utcoffset() - first.utcoffset()
        if shift > timedelta(0):  # skipped
            if not wildcard and shift < LARGE:
                out.add(change(local, zone).timestamp())
            continue
        out.add(first.timestamp())
        if shift < timedelta(0) and (wildcard or -shift >= LARGE):
            out.add(second.timestamp())
    return sorted(int(t) for t in out)


def alone(expr, zone, year):
    """Returns the Unix times of croniter with a time zone."""
    times = iterate(expr, datetime(year, 1, 1, tzinfo=zone) - timedelta(seconds=1))
    return [int(t.timestamp()) for t in itertools.takewhile(lambda t: t.year <= year, times)]


def main():
    rnd = random.Random(47)
    table, differences = [], {}
    while len(table) < COUNT:
        expr = expression(rnd)
        most = FEW if len(table) % 20 else MOST
        if not local_times(expr, ZONES[0][1], most):
            continue
        years = {year: local_times(expr, year, MOST) for _, year in ZONES}
        if not all(years.values()):
            continue
        line = [expr]
        for name, year in ZONES:
            times = fires(expr, years[year], ZoneInfo(name))
            text = "".join("%d\n" % t for t in times)
            line.append("%d:%s" % (len(times), hashlib.sha256(text.encode()).hexdigest()[:16]))
            if len(times) <= ALONE:
                raw = alone(expr, ZoneInfo(name), year)
                total = differences.setdefault(name, [0, 0, 0])
                total[0] += len(times)
                total[1] += len(set(raw) - set(times))
                total[2] += len(set(times) - set(raw))
        table.append("\t".join(line))
        print(len(table), expr, file=sys.stderr)
    out = ["# Written by year.py.", "# expression\t" + "\t".join("%s %d" % z for z in ZONES)] + table
    out.append("# croniter with a time zone: times above, only there, only above")
    out += ["# %s %s" % (name, " ".join(map(str, n))) for name, n in differences.items()]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "year.txt"), "w") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
