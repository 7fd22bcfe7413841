#!/usr/bin/env python3
"""Every example's evidence is whole, and its committed report is what it says, byte for byte."""
import pathlib
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from lab import freeze, protocol as protocols, report  # noqa: E402


def outputs(folder):
    return {f.relative_to(folder).as_posix(): f.read_bytes()
            for f in [folder / "report.md", *sorted((folder / "plots").glob("*.svg"))]}


class ExamplesTest(unittest.TestCase):
    def examples(self):
        found = sorted((HERE / "examples").glob("*/protocol.json"))
        self.assertTrue(found, "there are no examples")
        return found

    def with_evidence(self):
        return [path for path in self.examples() if (path.parent / "evidence").is_dir()]

    def test_protocols_are_valid_and_final(self):
        for path in self.examples():
            with self.subTest(path.parent.name):
                protocols.refuse_draft(protocols.read(path))

    def test_evidence_gives_the_committed_report(self):
        for path in self.with_evidence():
            with self.subTest(path.parent.name), tempfile.TemporaryDirectory() as temp:
                copy = pathlib.Path(temp) / "evidence"
                shutil.copytree(path.parent / "evidence", copy)
                committed = outputs(copy)
                for name in committed:
                    (copy / name).unlink()
                report.write(freeze.Evidence(copy))
                self.assertEqual(outputs(copy), committed)

    def test_protocol_beside_the_evidence_is_the_frozen_one(self):
        for path in self.with_evidence():
            with self.subTest(path.parent.name):
                self.assertEqual(path.read_bytes(), (path.parent / "evidence/protocol.json").read_bytes())


if __name__ == "__main__":
    unittest.main()
