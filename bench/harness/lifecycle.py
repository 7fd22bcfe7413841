"""Rows of a server's life: start, idle memory, size of the binary, open after kill -9, memory under load."""
import pathlib
import shutil
import statistics
import subprocess
import time

from . import process


def _server(options, path, config=None):
    return process.Server(pathlib.Path(options.build_dir) / "bin/multiforadb", path, config=config)


def stripped_bytes(binary):
    target = pathlib.Path(binary).parent / ".stripped"
    subprocess.run(["strip", "-o", str(target), str(binary)], check=True)
    size = target.stat().st_size
    target.unlink()
    return size


def _fill(options, server, documents, size=16384):
    process.run_json([pathlib.Path(options.build_dir) / "bin/bench_fill", "--port", server.port, "--documents", documents,
                      "--size", size])


def start_rows(options, work):
    starts = []
    idle = None
    for i in range(2 if options.tiny else 10):
        path = work / "start"
        server = _server(options, path)
        starts.append(server.start_ms)
        if i == 0:
            time.sleep(0.1 if options.tiny else 3)
            idle = process.process_rss_kib(server.pid)
        server.stop()
        shutil.rmtree(path)
    binary = stripped_bytes(pathlib.Path(options.build_dir) / "bin/multiforadb")
    yield {"row": "start", "title": "start on an empty dbpath, to the first answer", "unit": "ms",
           "value": statistics.median(starts), "all": starts, "goal": ["<=", 30]}
    yield {"row": "idle", "title": "idle memory, anonymous", "unit": "MB", "value": idle["anonymous"] * 1024 / 1e6,
           "goal": None}
    yield {"row": "idle_all", "title": "idle memory, anonymous + file", "unit": "MB",
           "value": sum(idle.values()) * 1024 / 1e6, "goal": ["<=", 25]}
    yield {"row": "binary", "title": "binary, stripped", "unit": "MB", "value": binary / 1e6, "goal": ["<=", 25]}


def open_rows(options, work):
    """Open after kill -9 with no log tail, one of 64 MB, and the longest that the default settings leave."""
    megabytes = 16 if options.tiny else options.open_mb
    for name, tail_mb in (("none", 0), ("64mb", 8 if options.tiny else 64), ("longest", 12 if options.tiny else 250)):
        opens, scans = [], []
        for attempt in range(1 if options.tiny else 3):
            path = work / "open"
            server = _server(options, path, {"storage": {"checkpoint_log_mb": 256, "checkpoint_secs": 3600}})
            _fill(options, server, megabytes * 64)
            server.connection.command("admin", {"fsync": 1})
            if tail_mb:
                process.run_json([pathlib.Path(options.build_dir) / "bin/bench_load", "--port", server.port, "--op", "insert",
                                  "--clients", 8, "--size", 16384, "--count", tail_mb * 64, "--seconds", 600])
            server.kill()
            server = _server(options, path)
            opens.append(server.start_ms)
            started = time.perf_counter()
            found = server.connection.command("bench", {
                "aggregate": "c", "pipeline": [{"$match": {"k": {"$gte": 0}}}, {"$group": {"_id": 1, "n": {"$sum": 1}}}],
                "cursor": {}})["cursor"]["firstBatch"][0]["n"]
            scans.append((time.perf_counter() - started) * 1000)
            if found != megabytes * 64:
                raise process.ProcessError(f"{found} of {megabytes * 64} documents after kill -9")
            server.stop()
            shutil.rmtree(path)
        yield {"row": f"open_{name}", "title": f"open after kill -9, log tail: {name}", "unit": "ms",
               "value": statistics.median(opens), "all": opens, "goal": ["<=", 300]}
        if name == "none":
            yield {"row": "first_scan", "title": f"first scan after that open ({megabytes} MB)", "unit": "ms",
                   "value": statistics.median(scans), "all": scans, "goal": None}


def load_memory_row(options, work):
    """Anonymous memory while more is loaded than the budget holds."""
    path = work / "large"
    budget, megabytes = (8, 32) if options.tiny else (512, options.large_mb)
    server = _server(options, path, {"storage": {"memory_budget_mb": budget}})
    program = subprocess.Popen([str(pathlib.Path(options.build_dir) / "bin/bench_fill"), "--port", str(server.port), "--documents",
                                str(megabytes * 64), "--size", "16384"], stdout=subprocess.DEVNULL)
    most = {"anonymous": 0, "file": 0}
    while program.poll() is None:
        now = process.process_rss_kib(server.pid)
        most = {k: max(most[k], now[k]) for k in most}
        time.sleep(0.02)
    if program.returncode != 0:
        raise process.ProcessError("the load failed")
    server.stop()
    shutil.rmtree(path)
    yield {"row": "load_rss", "title": f"anonymous memory at most, loading {megabytes} MB", "unit": "MB",
           "value": most["anonymous"] * 1024 / 1e6, "goal": ["<=", 512]}
    yield {"row": "load_rss_file", "title": f"file memory at most then, with a budget of {budget} MB", "unit": "MB",
           "value": most["file"] * 1024 / 1e6, "goal": None}


def rows(options, work, say):
    for part in (start_rows, open_rows, load_memory_row):
        for entry in part(options, work):
            goal = entry["goal"]
            entry["met"] = None if goal is None else entry["value"] <= goal[1]
            say(f"{entry['title']:58} {entry['value']:>10.1f} {entry['unit']}"
                + (f"   goal {goal[0]} {goal[1]}" if goal else ""))
            yield entry
