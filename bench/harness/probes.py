"""Short measurements of the machine itself, taken around what is compared. Where one moves, the
machine was busy with something else, and what lies between is not believed."""
import mmap
import os
import pathlib
import statistics
import time

_MIB = 1 << 20


def fdatasync_us(directory, count=60):
    """Median of write + fdatasync of 16 KiB to a zero-written file, in microseconds."""
    path = pathlib.Path(directory) / ".probe"
    size = 16384
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.pwrite(descriptor, bytes(size * (count + 1)), 0)
        os.fsync(descriptor)
        block = os.urandom(size)
        times = []
        for i in range(count):
            start = time.perf_counter_ns()
            os.pwrite(descriptor, block, i * size)
            os.fdatasync(descriptor)
            times.append((time.perf_counter_ns() - start) / 1000)
        return statistics.median(times)
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)


_scanned = None


def memory_scan_ms(mebibytes=64, rounds=3):
    """The fastest of some walks over memory that is already there, in milliseconds."""
    global _scanned
    if _scanned is None or len(_scanned) != mebibytes * _MIB:
        _scanned = mmap.mmap(-1, mebibytes * _MIB)
        _scanned.write(b"\1" * len(_scanned))
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter_ns()
        _scanned.find(b"\2")  # memchr: nothing is found
        best = min(best, (time.perf_counter_ns() - start) / 1e6)
    return best


def take(directory, quick=False):
    return {"fdatasync_us": round(fdatasync_us(directory, 10 if quick else 60), 1),
            "memory_scan_ms": round(memory_scan_ms(8 if quick else 64), 3)}


def moved(before, after):
    """The largest relative move of a probe between two takings: 0.25 is a quarter up or down."""
    moves = [max(before[name], after[name]) / max(min(before[name], after[name]), 1e-9) - 1
             for name in before if name in after]
    return max(moves, default=0.0)
