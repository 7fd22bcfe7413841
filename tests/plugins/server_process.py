"""Starts a server with a configuration of its own, or sees it refuse to start."""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from raw_client import Client

START_SECONDS = 60


class Work:
    """A temporary directory for one script."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="multifora-plugins-"))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def dbpath(self, name):
        return self.path / name

    def config(self, dbpath, settings):
        file = self.path / f"{dbpath.name}.json"
        settings = json.loads(json.dumps(settings))
        settings.setdefault("net", {})["port"] = 0
        settings.setdefault("storage", {})["dbpath"] = str(dbpath)
        file.write_text(json.dumps(settings, indent=2))
        return file


class Server:
    def __init__(self, binary, work, dbpath, **settings):
        self._process = subprocess.Popen(
            [binary, "--config", work.config(dbpath, settings)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.ready = self._wait_ready()
        self.port = self.ready["port"]
        self.client = Client(self.port)

    def _wait_ready(self):
        lines = []
        for line in self._process.stdout:
            lines.append(line)
            event = json.loads(line)
            if "port" in event and "ready" in line:
                return event
        raise AssertionError("no start: " + "".join(lines) + self._process.stderr.read())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self.kill()

    def stop(self):
        self.client.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=START_SECONDS)
        code = self._process.returncode
        check(code == 0, f"a clean stop exits 0, not {code}")

    def kill(self):
        self.client.close()
        self._process.kill()
        self._process.communicate()


def refused(binary, work, dbpath, **settings):
    """What the server says where it does not start; checks that it exits with a failure."""
    done = subprocess.run([binary, "--config", work.config(dbpath, settings)], text=True,
                          capture_output=True, timeout=START_SECONDS)
    check(done.returncode == 1, f"exit status {done.returncode}, not 1\n{done.stdout}{done.stderr}")
    check(done.stderr.startswith("multiforadb: "), done.stderr)
    return done.stderr


def files(dbpath):
    """Hash of every file of a database but the lock, which holds its last owner's process id."""
    return {str(f.relative_to(dbpath)): hashlib.sha256(f.read_bytes()).hexdigest()
            for f in sorted(dbpath.rglob("*")) if f.is_file() and f.name != "lock"}


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def check_says(text, *parts):
    for part in parts:
        check(str(part) in text, f"'{part}' is not named in: {text}")


def plugin_file(binary, *parts):
    file = pathlib.Path(binary).resolve().parent.parent.joinpath(*parts)
    check(file.exists(), f"{file} is not built")
    return os.fspath(file)


def passed(text):
    print(f"ok: {text}", flush=True)
