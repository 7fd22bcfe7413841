"""Paired effects with bootstrap confidence intervals. Same data and seed, same digits."""
import math
import statistics


class Random:
    """splitmix64: written out, so that no version of a library changes a report."""

    def __init__(self, seed):
        self.state = seed & (2**64 - 1)

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return z ^ (z >> 31)

    def below(self, n):
        return self.next() % n

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]


def quantile(ordered, fraction):
    """Linear between the two nearest of a sorted list."""
    at = fraction * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def ratios(ours, theirs):
    """Per pair, ours over theirs. 0 over 0 is 1 (neither did anything); x over 0 has no ratio."""
    out = []
    for a, b in zip(ours, theirs, strict=True):
        if b == 0:
            out.append(1.0 if a == 0 else math.inf)
        else:
            out.append(a / b)
    return out


def paired_effect(ours, theirs, resamples, confidence, seed):
    """Median of the per-pair ratios, with a percentile bootstrap interval over pairs."""
    each = ratios(ours, theirs)
    if not each:
        return None
    random = Random(seed)
    n = len(each)
    medians = sorted(statistics.median([each[random.below(n)] for _ in range(n)]) for _ in range(resamples))
    tail = (1 - confidence) / 2
    return {"pairs": n, "estimate": statistics.median(each),
            "low": quantile(medians, tail), "high": quantile(medians, 1 - tail),
            "min": min(each), "max": max(each)}
