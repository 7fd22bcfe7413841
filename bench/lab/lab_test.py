#!/usr/bin/env python3
"""Tests of the laboratory itself: refusals, freezing, the ledger, resuming, statistics, verdicts, reports.

Arms are small scripts here; one test builds a real CMake project twice. Runs in seconds."""
import contextlib
import io
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from lab import LabError, analysis, builds, cli, freeze, ledger, protocol as protocols, report, runner, schema  # noqa: E402
from harness import stats, svg, wire  # noqa: E402

COMMIT = "0" * 40

# Prints what its arm, block and workload make it: the slow arm takes 1.5 times as much.
PROGRAM = """#!/bin/sh
if [ -e "$4/../../fail-$2" ]; then echo "told to fail" >&2; exit 1; fi
case $2 in block-00*) digit=${2#block-00} ;; *) digit=0 ;; esac
work=$((200 + 2 * digit))
if [ "$1 $3" = "slow hot" ]; then work=$((work * 3 / 2)); fi
echo noise
echo "{\\"work\\": $work, \\"nested\\": {\\"n\\": 5}}"
"""


def make_protocol(**changes):
    workloads = [{"name": name, "kind": "program",
                  "steps": [{"name": "p", "run": ["{bin}/program", "{arm}", "{block}", name, "{dir}"]}],
                  "metrics": {"work": {"value": "p.work", "unit": "units"},
                              "over_n": {"value": "p.work", "minus": "p.nested.n", "over": "p.nested.n"}}}
                 for name in ("hot", "cold")]
    protocol = {
        "lab": 1, "status": "final", "name": "a-test", "question": "Does the slow arm do more work than the base?",
        "arms": [{"name": "base", "commit": COMMIT}, {"name": "slow", "commit": COMMIT},
                 {"name": "base-again", "same_as": "base"}],
        "baseline": "base", "workloads": workloads, "blocks": 6, "warm_up_blocks": 1,
        "order": {"design": "all", "seed": 3},
        "primary": {"metric": "work", "workloads": ["hot"], "better": "lower"}, "secondary": ["over_n"],
        "controls": [
            {"name": "A/A", "kind": "same-arm-twice", "arm": "base-again", "against": "base", "workload": "hot",
             "metric": "work", "band": [0.99, 1.01], "guards": {"metrics": ["work"]}},
            {"name": "cold", "kind": "untouched-workload", "arm": "slow", "against": "base", "workload": "cold",
             "metric": "work", "band": [0.99, 1.01], "guards": {"metrics": ["work"], "workloads": ["hot"]}}],
        "gate": {"candidates": ["slow"], "all": [
            {"metric": "work", "workload": "hot", "bound": "high", "is": "<=", "value": 0.9, "why": "to pay for it"}]},
        "exclusions": {"probe_move_max": 1e9, "excluded_max": 0.3},
        "bootstrap": {"resamples": 300, "confidence": 0.95, "seed": 5}}
    protocol.update(changes)
    return protocol


class FakeBuilder:
    """Gives every arm the same script as its binary."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        program = self.folder / "program"
        if not program.exists():
            program.write_text(PROGRAM)
            program.chmod(0o755)

    def build(self, arm, folder):
        return {"inputs": {"commit": arm["commit"]}, "identical_twice": True, "path": str(self.folder),
                "binaries": {"program": ledger.sha256_file(self.folder / "program")}}


class LabTest(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory(prefix="lab-test-")
        self.addCleanup(self.temp.cleanup)
        self.root = pathlib.Path(self.temp.name)
        self.protocol_file = self.root / "protocol.json"
        self.probes = itertools.repeat(1.0)
        self.write(make_protocol())

    def write(self, protocol):
        self.protocol_file.write_text(json.dumps(protocol))

    @property
    def evidence(self):
        return freeze.Evidence(self.root / "evidence")

    def freeze(self):
        return freeze.freeze(self.protocol_file, self.evidence, FakeBuilder(self.root / "bin"))

    def run_blocks(self, stop_after=None):
        protocol, folders = self.freeze()
        runner.Runner(protocol, folders, self.evidence, self.root / "work", probe=lambda _: {"p": next(self.probes)},
                      say=lambda _: None).run(stop_after)

    def refused(self, what, call, *args):
        with self.assertRaisesRegex(LabError, what):
            call(*args)


class ProtocolTest(LabTest):
    def refuse(self, what, protocol):
        self.write(protocol)
        self.refused(what, protocols.read, self.protocol_file)

    def test_good_one_is_read(self):
        self.assertEqual(protocols.read(self.protocol_file)["name"], "a-test")

    def test_schema_refuses(self):
        self.refuse("lacks 'question'", {k: v for k, v in make_protocol().items() if k != "question"})
        self.refuse("unknown key 'extra'", make_protocol(extra=1))
        self.refuse("must be of type integer", make_protocol(blocks="6"))
        self.refuse("must be of type integer", make_protocol(blocks=True))
        self.refuse("below 2", make_protocol(blocks=1))
        self.refuse("not one of", make_protocol(status="nearly"))
        self.refuse("does not match", make_protocol(name="Has Capitals"))
        self.refuse("fewer than 1 items", make_protocol(controls=[]))
        self.protocol_file.write_text("{")
        self.refused("protocol.json", protocols.read, self.protocol_file)

    def test_meaning_is_checked(self):
        arms = make_protocol()["arms"]
        self.refuse("two arms are named", make_protocol(arms=[*arms, arms[0]]))
        self.refuse("baseline 'none'", make_protocol(baseline="none"))
        self.refuse("multiple of 6", make_protocol(blocks=7))
        self.refuse("names no commit", make_protocol(arms=[arms[0], {"name": "slow"}, arms[2]]))
        control = {**make_protocol()["controls"][0], "arm": "slow"}
        self.refuse("is not the same as", make_protocol(controls=[control]))
        gate = {"candidates": ["slow"], "all": [{**make_protocol()["gate"]["all"][0], "metric": "speed"}]}
        self.refuse("has no metric 'speed'", make_protocol(gate=gate))

    def test_draft_cannot_run(self):
        self.write(make_protocol(status="draft"))
        self.refused("draft", self.freeze)
        self.assertFalse(self.evidence.frozen)

    def test_schema_with_an_unknown_keyword_is_no_schema(self):
        with self.assertRaises(ValueError):
            schema.errors({}, {"type": "object", "minProperties": 3})

    def test_orders_are_stratified(self):
        orders = protocols.orders(make_protocol(blocks=12))
        for half in (orders[:6], orders[6:]):
            self.assertEqual(len({tuple(o) for o in half}), 6)
        self.assertEqual(orders, protocols.orders(make_protocol(blocks=12)))
        for count in (2, 3, 4, 5):
            rows = protocols.design(count, "williams")
            places = {(i, row[i]) for row in rows for i in range(count)}
            self.assertEqual(len(places), count * count)
            follows = [(row[i], row[i + 1]) for row in rows for i in range(count - 1)]
            self.assertEqual(len({follows.count(pair) for pair in follows}), 1)
            self.assertEqual(len(set(follows)), count * (count - 1))


class LedgerTest(LabTest):
    def test_chain(self):
        book = ledger.Ledger(self.root / "ledger.jsonl")
        for i in range(4):
            book.append("event", {"i": i})
        self.assertEqual(ledger.Ledger(book.path).head, book.head)
        lines = book.path.read_text().splitlines()
        for changed in (lines[:1] + [lines[1].replace('"i":1', '"i":7')] + lines[2:],  # edited
                        lines[:1] + lines[2:],                                          # one removed
                        [lines[1], lines[0], *lines[2:]],                               # exchanged
                        lines[:3] + ["not json"]):
            book.path.write_text("\n".join(changed) + "\n")
            self.refused("chain is broken", ledger.Ledger, book.path)

    def test_rewritten_entry_with_a_new_hash_breaks_the_next(self):
        book = ledger.Ledger(self.root / "ledger.jsonl")
        for i in range(3):
            book.append("event", {"i": i})
        lines = [json.loads(line) for line in book.path.read_text().splitlines()]
        lines[1]["data"]["i"] = 9
        lines[1]["hash"] = ledger._hash(lines[1])
        book.path.write_text("".join(ledger.canonical(line) + "\n" for line in lines))
        self.refused("line 3", ledger.Ledger, book.path)


class FreezeTest(LabTest):
    def test_edited_protocol_is_refused_and_recorded(self):
        self.freeze()
        self.write(make_protocol(blocks=12))
        self.refused("protocol.json was edited after the freeze", self.freeze)
        self.assertEqual(len(self.evidence.ledger.of("refused")), 1)

    def test_edited_patch_is_refused(self):
        arms = make_protocol()["arms"]
        arms[1] = {**arms[1], "patch": "idea.patch"}
        self.write(make_protocol(arms=arms))
        (self.root / "idea.patch").write_text("one")
        self.freeze()
        (self.root / "idea.patch").write_text("two")
        self.refused("idea.patch was edited", self.freeze)

    def test_other_binaries_are_refused(self):
        self.freeze()
        with open(self.root / "bin/program", "a") as file:
            file.write("# changed\n")
        self.refused("builds are not those that were frozen", self.freeze)

    def test_changed_laboratory_is_refused(self):
        self.freeze()
        known = freeze.lab_sources
        self.addCleanup(setattr, freeze, "lab_sources", known)
        freeze.lab_sources = lambda: "other"
        self.refused("laboratory's code has changed", self.freeze)

    def test_edited_evidence_is_refused(self):
        self.run_blocks()
        report.write(self.evidence)
        for name, what in (("freeze.json", "freeze.json was edited"), ("protocol.json", "protocol.json in the evidence"),
                           ("raw/block-003.json", "block-003.json was edited")):
            file = self.evidence.folder / name
            text = file.read_text()
            file.write_text(text.replace("base", "bass", 1))
            self.refused(what, report.write, self.evidence)
            file.write_text(text)
        (self.evidence.raw / "block-002.json").unlink()
        self.refused("missing", report.write, self.evidence)

    def test_build_that_fails_is_recorded(self):
        class Broken(FakeBuilder):
            def build(self, arm, folder):
                raise LabError("two builds of the same inputs differ")
        self.refused("differ", freeze.freeze, self.protocol_file, self.evidence, Broken(self.root / "bin"))
        self.assertEqual(len(self.evidence.ledger.of("build-refused")), 1)
        self.assertFalse(self.evidence.frozen)


class RunTest(LabTest):
    def test_resumes_without_running_finished_blocks_again(self):
        self.run_blocks(stop_after=3)
        first = {f.name: f.read_bytes() for f in self.evidence.raw.iterdir()}
        self.assertEqual(len(first), 3)
        self.run_blocks()
        self.assertEqual(len(list(self.evidence.raw.iterdir())), 7)
        for name, content in first.items():
            self.assertEqual((self.evidence.raw / name).read_bytes(), content)
        self.assertEqual(len(self.evidence.ledger.of("block")), 7)
        self.assertEqual(len(self.evidence.ledger.of("begun")), 7)
        self.run_blocks()  # nothing is left
        self.assertEqual(len(self.evidence.ledger.of("session")), 2)

    def test_aborted_attempt_stays_in_the_ledger(self):
        (self.root / "work").mkdir()
        trigger = self.root / "work" / "fail-block-001"
        trigger.write_text("")
        self.refused("told to fail", self.run_blocks)
        trigger.unlink()
        self.run_blocks()
        aborted = self.evidence.ledger.of("aborted")
        self.assertEqual([e["data"]["block"] for e in aborted], ["block-001"])
        self.assertEqual(len(self.evidence.ledger.of("block")), 7)
        report.write(self.evidence)
        self.assertIn("aborted attempts: 1", (self.evidence.folder / "report.md").read_text())

    def test_killed_laboratory_is_noticed(self):
        self.run_blocks(stop_after=2)
        self.evidence.ledger.append("begun", {"block": "block-001"})
        self.run_blocks()
        self.assertEqual(self.evidence.ledger.of("aborted")[0]["data"]["block"], "block-001")

    def test_order_of_processes_is_the_registered_one(self):
        self.run_blocks()
        for name, order in zip((f"block-{i:03}" for i in range(6)), protocols.orders(make_protocol()), strict=True):
            record = json.loads((self.evidence.raw / f"{name}.json").read_text())
            for unit in record["units"]:
                self.assertEqual([r["arm"] for r in unit["runs"]], order)

    def test_raw_output_and_metrics_are_recorded(self):
        self.run_blocks()
        run = json.loads((self.evidence.raw / "block-000.json").read_text())["units"][0]["runs"][0]
        self.assertIn("noise", run["processes"][0]["out"])
        self.assertEqual(run["metrics"]["over_n"], (run["metrics"]["work"] - 5) / 5)
        self.assertTrue(run["processes"][0]["argv"][0].startswith("{bin}"))

    def test_metric_without_a_value_names_what_there_is(self):
        protocol = make_protocol()
        protocol["workloads"][0]["metrics"]["work"]["value"] = "p.nothing"
        self.write(protocol)
        self.refused("asks for 'p.nothing'; there are .*p.work", self.run_blocks)


class AnalysisTest(LabTest):
    def verdict(self, **changes):
        self.write(make_protocol(**changes))
        self.run_blocks()
        verdicts = report.write(self.evidence)
        return verdicts[0], (self.evidence.folder / "report.md").read_text()

    def test_effect_and_verdict(self):
        verdict, text = self.verdict()
        self.assertEqual(verdict["verdict"], "not adopted")
        self.assertAlmostEqual(verdict["conditions"][0]["found"], 1.5)
        self.assertLess(text.index("## Controls"), text.index("## Effects"))
        self.assertLess(text.index("## Effects"), text.index("## Gate"))
        self.assertIn("Every control is in its band.", text)

    def test_gate_that_holds(self):
        gate = {"candidates": ["slow"], "all": [{"metric": "work", "workload": "hot", "bound": "low", "is": ">=",
                                                 "value": 1.4}]}
        self.assertEqual(self.verdict(gate=gate)[0]["verdict"], "adopted")

    def test_control_out_of_band_forbids_the_claim(self):
        controls = make_protocol()["controls"]
        controls[1] = {**controls[1], "workload": "hot", "kind": "built-in-not-firing"}  # it does fire
        verdict, text = self.verdict(controls=controls)
        self.assertEqual(verdict["verdict"], "no verdict")
        self.assertIn("**OUT OF ITS BAND**", text)
        self.assertIn("nothing may be claimed here about work", text)
        self.assertIn("no claim: control \"cold\" is out of its band", text)

    def test_incomplete_run_gives_no_verdict(self):
        self.run_blocks(stop_after=4)
        self.assertEqual(report.write(self.evidence)[0]["verdict"], "no verdict")

    def test_moved_probe_excludes_the_block(self):
        exclusions = {"probe_move_max": 0.25, "excluded_max": 0.3}
        # Two probes a workload and block; the hot workload of the second block after the warm-up moves.
        self.probes = itertools.chain([1.0] * 8, [1.0, 1.3], itertools.repeat(1.0))
        verdict, text = self.verdict(exclusions=exclusions)
        data = analysis.Data(freeze.verify(self.evidence), self.evidence)
        self.assertEqual([b for b, _ in data.excluded["hot"]], ["block-001"])
        self.assertEqual(data.excluded["cold"], [])
        self.assertEqual(verdict["verdict"], "not adopted")
        self.assertIn("`hot`: block-001 (30%)", text)

    def test_too_many_exclusions_forbid_the_claim(self):
        self.probes = itertools.cycle([1.0, 0.5])
        verdict, text = self.verdict(exclusions={"probe_move_max": 0.25, "excluded_max": 0.3})
        self.assertEqual(verdict["verdict"], "no verdict")
        self.assertIn("6 blocks of hot were excluded", text)

    def test_report_is_the_same_every_time(self):
        self.verdict()
        files = lambda: {f: f.read_bytes() for f in [self.evidence.folder / "report.md",  # noqa: E731
                                                     *(self.evidence.folder / "plots").iterdir()]}
        first = files()
        self.assertGreaterEqual(len(first), 3)
        for file in first:
            file.unlink()
        report.write(self.evidence)
        self.assertEqual(files(), first)

    def test_after_the_fact_is_kept_apart(self):
        self.run_blocks()
        extra = self.root / "extra.json"
        extra.write_text(json.dumps({"name": "A look", "why": "Curiosity.", "compare": [
            {"workload": "cold", "metric": "over_n", "arm": "slow", "against": "base-again"}]}))
        options = cli._parser().parse_args([str(self.protocol_file), "--after-the-fact", str(extra)])
        cli._run(options)
        text = (self.evidence.folder / "report.md").read_text()
        self.assertLess(text.index("## After the fact"), text.index("### A look"))
        extra.write_text(json.dumps({"name": "B", "why": "c", "compare": [
            {"workload": "cold", "metric": "speed", "arm": "slow", "against": "base"}]}))
        self.refused("does not know", cli._run, options)

    def test_bootstrap_with_a_fixed_seed(self):
        ours, theirs = [3.0, 2.2, 2.6, 2.4, 9.0, 2.5], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
        effect = stats.paired_effect(ours, theirs, 2000, 0.95, 42)
        self.assertEqual(effect, stats.paired_effect(ours, theirs, 2000, 0.95, 42))
        self.assertAlmostEqual(effect["estimate"], 1.275)
        self.assertAlmostEqual(effect["low"], 1.15, places=6)
        self.assertAlmostEqual(effect["high"], 3.0, places=6)
        self.assertEqual((effect["min"], effect["max"], effect["pairs"]), (1.1, 4.5, 6))
        same = stats.paired_effect([5.0] * 4, [5.0] * 4, 500, 0.95, 1)
        self.assertEqual((same["low"], same["estimate"], same["high"]), (1.0, 1.0, 1.0))

    def test_interval_covers_as_often_as_it_says(self):
        random = stats.Random(9)
        hits = 0
        for i in range(120):
            pairs = [1.0 + (random.below(2001) - 1000) / 10000 for _ in range(12)]
            e = stats.paired_effect(pairs, [1.0] * 12, 400, 0.9, i)
            hits += e["low"] <= 1.0 <= e["high"]
        self.assertGreater(hits, 96)
        self.assertLess(hits, 120)


class BuilderTest(LabTest):
    """A real project, built twice."""

    def setUp(self):
        super().setUp()
        if shutil.which("ninja") is None or shutil.which("cmake") is None:
            self.skipTest("needs cmake and ninja")
        self.repository = self.root / "repository"
        self.repository.mkdir()
        self.git("init", "-q")
        (self.repository / "CMakeLists.txt").write_text(
            'cmake_minimum_required(VERSION 3.25)\nproject(p CXX)\n'
            'set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)\n'
            'add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)\nadd_executable(tool tool.cpp)\n')

    def git(self, *args):
        subprocess.run(["git", "-C", str(self.repository), "-c", "user.name=t", "-c", "user.email=t@localhost", *args],
                       check=True, capture_output=True)

    def commit(self, source):
        (self.repository / "tool.cpp").write_text(source)
        self.git("add", "-A")
        self.git("commit", "-qm", "tool")
        done = subprocess.run(["git", "-C", str(self.repository), "rev-parse", "HEAD"], check=True, capture_output=True)
        return done.stdout.decode().strip()

    def builder(self):
        return builds.Builder(self.repository, self.root / "builds", ["tool"], say=lambda _: None)

    def test_same_inputs_same_bytes(self):
        commit = self.commit('#include <cstdio>\nint main() { std::puts(__FILE__); }\n')
        built = self.builder().build({"name": "a", "commit": commit}, self.root)
        self.assertTrue(built["identical_twice"])
        self.assertTrue((pathlib.Path(built["path"]) / "tool").is_file())
        again = self.builder().build({"name": "b", "commit": commit}, self.root)
        self.assertEqual(again["path"], built["path"])
        with open(pathlib.Path(built["path"]) / "tool", "ab") as file:
            file.write(b"x")
        self.refused("is not what was built there", self.builder().build, {"name": "a", "commit": commit}, self.root)

    def test_build_that_knows_its_folder_is_refused(self):
        commit = self.commit('#include <cstdio>\nint main() { std::puts(WHERE); }\n')
        arm = {"name": "a", "commit": commit, "patch": "where.patch"}
        (self.root / "where.patch").write_text(
            "--- a/CMakeLists.txt\n+++ b/CMakeLists.txt\n@@ -4,2 +4,3 @@\n"
            " add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)\n add_executable(tool tool.cpp)\n"
            '+target_compile_definitions(tool PRIVATE WHERE="${CMAKE_BINARY_DIR}")\n')
        self.refused("two builds of the same inputs differ in tool", self.builder().build, arm, self.root)


class ToolsTest(unittest.TestCase):
    def test_bson_of_the_small_client(self):
        document = {"a": 1, "b": 2**40, "c": 1.5, "d": "text", "e": {"f": [1, "x", None]}, "g": True, "h": -1}
        self.assertEqual(wire.decode(wire.encode(document)), document)

    def test_callgrind_total(self):
        self.assertEqual(runner.callgrind_total("events: Ir\nfn=x\n1 2\n\ntotals: 12345\n"), 12345)
        with self.assertRaises(LabError):
            runner.callgrind_total("nothing")

    def test_plots_are_escaped_text(self):
        plot = svg.intervals("a < b & c", [("x", 1.1, 1.0, 1.2, [1.05, 1.15])])
        self.assertIn("a &lt; b &amp; c", plot)
        self.assertEqual(plot, svg.intervals("a < b & c", [("x", 1.1, 1.0, 1.2, [1.05, 1.15])]))

    def test_command_line_checks_a_protocol(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "p.json"
            file.write_text(json.dumps(make_protocol()))
            with contextlib.redirect_stderr(io.StringIO()) as out:
                self.assertIsNone(cli._run(cli._parser().parse_args([str(file), "--check"])))
            self.assertIn("3 arms, 2 workloads and 6 blocks", out.getvalue())


if __name__ == "__main__":
    unittest.main()
