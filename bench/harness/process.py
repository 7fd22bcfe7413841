"""Processes under measurement: the server, and programs that print one JSON line."""
import json
import os
import pathlib
import resource
import signal
import subprocess
import time

from . import wire


class ProcessError(Exception):
    pass


def allocated_bytes(path):
    """Blocks allocated to everything under `path` (a file or a folder): not the files' sizes."""
    path = pathlib.Path(path)
    files = [path] if path.is_file() else path.rglob("*")
    return sum(f.stat().st_blocks * 512 for f in files if f.is_file())


def last_json(text):
    """The last line of `text` that is a JSON object."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise ProcessError(f"no JSON line in the output: {text[-300:]!r}")


class Finished:
    """What one process did and took. cpu_s: user + system; bytes_written: what it caused to be
    written to the device (the kernel's ru_oublock)."""

    def __init__(self, argv, code, out, err, wall_s, usage):
        self.argv, self.code, self.out, self.err = argv, code, out, err
        self.wall_s = wall_s
        self.cpu_s = usage.ru_utime + usage.ru_stime
        self.bytes_written = usage.ru_oublock * 512
        self.max_rss_kib = usage.ru_maxrss


def run(argv, prefix=(), timeout=None, cwd=None, env=None):
    """Runs to the end; raises ProcessError where it cannot be started or takes too long."""
    argv = [*prefix, *map(str, argv)]
    started = time.monotonic()
    try:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=env)
    except OSError as error:
        raise ProcessError(f"{argv[0]}: {error}") from error
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException as error:
        process.kill()
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise ProcessError(f"{' '.join(argv)}: more than {timeout} s") from error
        raise
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    class Usage:
        ru_utime = after.ru_utime - before.ru_utime
        ru_stime = after.ru_stime - before.ru_stime
        ru_oublock = after.ru_oublock - before.ru_oublock
        ru_maxrss = after.ru_maxrss
    return Finished(argv, process.returncode, out, err, wall, Usage)


def run_json(argv, **options):
    """The JSON line of a program that must succeed."""
    done = run(argv, **options)
    if done.code != 0:
        raise ProcessError(f"{' '.join(done.argv)}: exit {done.code}: {done.err.strip()[-500:]}")
    return last_json(done.out)


def process_cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def process_bytes_written(pid):
    """Handed to the device by this process so far; dirty pages of mappings count when they are written."""
    for line in pathlib.Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    return 0


def process_rss_kib(pid):
    """{"anonymous": KiB, "file": KiB}; shared memory counts as file."""
    rows = dict(line.split(":", 1) for line in
                pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines())
    kib = {name: int(rows[name].split()[0]) for name in ("RssAnon", "RssFile", "RssShmem")}
    return {"anonymous": kib["RssAnon"], "file": kib["RssFile"] + kib["RssShmem"]}


class Server:
    """A running multiforadb; `port` is open when the constructor returns."""

    def __init__(self, binary, dbpath, config=None, args=(), prefix=(), start_timeout_s=60):
        dbpath = pathlib.Path(dbpath)
        dbpath.mkdir(parents=True, exist_ok=True)
        self.dbpath = dbpath
        argv = [*prefix, str(binary)]
        if config:
            file = dbpath.parent / (dbpath.name + ".config.json")
            file.write_text(json.dumps(config), encoding="utf-8")
            argv += ["--config", str(file)]
        argv += ["--port", "0", "--dbpath", str(dbpath), *args]
        self.argv = argv
        self.output = open(dbpath.parent / (dbpath.name + ".log"), "w+", encoding="utf-8")
        started = time.monotonic()
        self.process = subprocess.Popen(argv, stdout=self.output, stderr=subprocess.STDOUT)
        self.port = self._await_port(started + start_timeout_s)
        self.connection = wire.Connection(self.port)
        self.connection.command("admin", {"ping": 1})
        self.start_ms = (time.monotonic() - started) * 1000  # from spawn to the first answer

    def _await_port(self, deadline):
        path = self.output.name
        while time.monotonic() < deadline:
            text = pathlib.Path(path).read_text(encoding="utf-8")
            for line in text.splitlines(keepends=True):
                if line.endswith("\n") and '"port"' in line:
                    try:
                        return json.loads(line)["port"]
                    except (json.JSONDecodeError, KeyError):
                        pass
            if self.process.poll() is not None:
                raise ProcessError(f"the server ended at start: {text[-500:]}")
            time.sleep(0.001)
        self.kill()
        raise ProcessError("the server did not say its port")

    @property
    def pid(self):
        return self.process.pid

    def status(self):
        return self.connection.command("admin", {"serverStatus": 1})

    def stop(self, timeout=120):
        """A clean stop; raises where the server does not end well."""
        self.connection.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessError("the server did not stop") from None
        self.output.close()
        if code != 0:
            raise ProcessError(f"the server stopped with {code}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.output.close()
