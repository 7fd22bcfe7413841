"""The ledger: what was attempted, line by line, each line bound to the one before it by its hash.

One JSON object a line: {seq, at, event, data, previous, hash}; hash is the SHA-256 of the canonical JSON of
the other fields; `previous` of the first line is 64 zeros. Lines are only appended, aborted attempts too."""
import datetime
import hashlib
import json
import pathlib

from . import LabError


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256_text(text):
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_file(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _hash(entry):
    return sha256_text(canonical({k: v for k, v in entry.items() if k != "hash"}))


class Ledger:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.entries = self._read()

    def _read(self):
        """Every entry, checked; LabError names the first line that is not what was written."""
        entries = []
        previous = "0" * 64
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                good = (entry["seq"] == number and entry["previous"] == previous and entry["hash"] == _hash(entry))
            except (json.JSONDecodeError, KeyError, TypeError):
                good = False
            if not good:
                raise LabError(f"{self.path}: line {number} is not what was written: the chain is broken there")
            previous = entry["hash"]
            entries.append(entry)
        return entries

    @property
    def head(self):
        return self.entries[-1]["hash"] if self.entries else "0" * 64

    def append(self, event, data):
        entry = {"seq": len(self.entries) + 1,
                 "at": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                 "event": event, "data": data, "previous": self.head}
        entry["hash"] = _hash(entry)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(canonical(entry) + "\n")
        self.entries.append(entry)
        return entry

    def of(self, event):
        return [e for e in self.entries if e["event"] == event]
