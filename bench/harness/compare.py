"""The comparison: rotations of all sides, forward and backward, and what comes of them."""
import statistics

from . import probes, process

PROBE_MOVED = 0.25


class Comparison:
    """Measures rows of one data set on sides that have been filled. The first side is MultiforaDB."""

    def __init__(self, sides, options, say):
        self.sides, self.options, self.say = sides, options, say

    def row(self, row, measure=lambda side, row_and_seconds: side.measure(*row_and_seconds)):
        """The report's entry of a row; None where MultiforaDB has it not."""
        first = self._check_answers(row, measure)
        sides = [s for s in self.sides if s.name in first]
        if self.sides[0].name not in first:
            return None
        values = {s.name: [] for s in sides}
        lines = {s.name: [] for s in sides}
        dropped = 0
        # Forward and back is A B B A: each half is a pair of every two sides. The first rotation is warm-up.
        for rotation in range(self.options.rotations + (0 if self.options.tiny else 1)):
            for order in (sides, sides[::-1]):
                before = self._probe(row)
                found = {s.name: measure(s, (row, self.options.seconds)) for s in order}
                after = self._probe(row)
                if rotation == 0 and not self.options.tiny:
                    continue
                moved = probes.moved(before, after) > PROBE_MOVED and not self.options.tiny
                if moved or any(line[row.value] <= 0 for line in found.values()):  # 0: nothing finished in time
                    dropped += 1
                    continue
                for name, line in found.items():
                    values[name].append(line[row.value])
                    lines[name].append(line)
        return self._entry(row, values, lines, dropped, first)

    def _probe(self, row):
        taken = probes.take(self.options.directory, self.options.tiny)
        null = next((s for s in self.sides if s.name == "null"), None)
        if null is not None and row.load is not None:
            taken["null_insert_us"] = process.run_json(
                [null.bin / "bench_load", "--port", null.port, "--op", "insert", "--clients", 1, "--size", 4096, "--seconds",
                 0.02 if self.options.tiny else 0.15])["p50_us"]
        return taken

    def _check_answers(self, row, measure):
        """A short measurement of each side: who has the row, and whether all agree on the answer."""
        first = {}
        agreed = None
        for side in self.sides:
            line = measure(side, (row, 0.01))
            if line is None:
                continue
            first[side.name] = line
            row.reply_bytes = row.reply_bytes or line.get("reply_bytes", 0)
            if "answer" not in line:
                continue
            if agreed is None:
                agreed = (side.name, line["answer"])
            elif line["answer"] != agreed[1]:
                raise process.ProcessError(f"row {row.name}: {side.name} answers {line['answer']}, {agreed[0]} {agreed[1]}; "
                                           "nothing was timed")
        return first

    def _entry(self, row, values, lines, dropped, first):
        ours = self.sides[0].name
        entry = {"row": row.name, "title": row.title, "unit": row.unit, "lower_is_better": row.lower_is_better,
                 "answer": next((line["answer"] for line in first.values() if "answer" in line), None),
                 "dropped": dropped, "sides": {}, "ratios": {}, "goals": []}
        for name, column in values.items():
            if column:
                extra = {k: statistics.median([line[k] for line in lines[name]])
                         for k in ("p99_us", "docs_per_s", "requests_per_sync", "reply_bytes")
                         if all(k in line for line in lines[name])}
                entry["sides"][name] = {"median": statistics.median(column), "values": column, **extra}
        for name, column in values.items():
            if name != ours and column:
                pairs = [a / b for a, b in zip(values[ours], column, strict=True)]
                entry["ratios"][name] = {"median": statistics.median(pairs), "min": min(pairs), "max": max(pairs),
                                         "pairs": pairs}
        return entry


def judge(entry, goals):
    """Adds the goals to a row's entry, with whether the median ratio meets each."""
    for side, relation, value in goals:
        ratio = entry["ratios"].get(side)
        met = None
        if ratio is not None:
            met = ratio["median"] <= value if relation == "<=" else ratio["median"] >= value
        entry["goals"].append({"side": side, "is": relation, "value": value, "met": met})
    return entry
