"""Builds of arms, each made twice: in another folder and without a compiler cache the second time. The
binaries must be the same byte for byte, or the arm is not reproducible and is refused.

A build is kept under its inputs' hash (commit's tree, patch, options, plugins, compiler), so that arms that
differ only in configuration share one, and an experiment that is resumed finds it again."""
import json
import os
import pathlib
import shutil
import subprocess

from . import LabError, ledger

_RECIPE = 1  # raise with any change to how an arm is built


class Builder:
    """repository: the checkout whose commits are built. root: where builds are kept. prefix: put before
    each build command (nice, taskset ...)."""

    def __init__(self, repository, root, targets, prefix=(), say=print):
        self.repository = pathlib.Path(repository)
        self.root = pathlib.Path(root)
        self.targets = targets
        self.prefix = list(prefix)
        self.say = say

    def _git(self, *args):
        done = subprocess.run(["git", "-C", str(self.repository), *args], capture_output=True, text=True)
        if done.returncode != 0:
            raise LabError(f"git {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def _compiler(self):
        return subprocess.run([os.environ.get("CXX", "c++"), "--version"], capture_output=True, text=True,
                              check=True).stdout.splitlines()[0]

    def inputs(self, arm, folder):
        """Everything that decides what the binaries are."""
        patch = arm.get("patch")
        if patch is not None and not (pathlib.Path(folder) / patch).is_file():
            raise LabError(f"arm {arm['name']!r}: there is no patch {patch!r} beside the protocol")
        return {"recipe": _RECIPE, "commit": arm["commit"], "tree": self._git("rev-parse", arm["commit"] + "^{tree}"),
                "patch": ledger.sha256_file(pathlib.Path(folder) / patch) if patch else None,
                "options": arm.get("options", {}), "plugins": arm.get("plugins", ["all"]),
                "targets": sorted(self.targets), "compiler": self._compiler()}

    def build(self, arm, folder):
        """{inputs, binaries: {name: sha256}, identical: true, path} of an arm."""
        inputs = self.inputs(arm, folder)
        home = self.root / ledger.sha256_text(ledger.canonical(inputs))[:16]
        record = home / "build.json"
        if not record.exists():
            home.mkdir(parents=True, exist_ok=True)
            self.say(f"build: arm {arm['name']} ({home.name})")
            first = self._compile(arm, inputs, folder, home / "first", cached=True)
            self._keep(home / "first", home / "bin")
            self.say(f"build: arm {arm['name']} again, elsewhere and without a cache")
            second = self._compile(arm, inputs, folder, home / "elsewhere" / "second", cached=False)
            if first != second:
                differ = sorted(name for name in first if first[name] != second[name])
                raise LabError(f"arm {arm['name']!r}: two builds of the same inputs differ in {', '.join(differ)}")
            record.write_text(json.dumps({"inputs": inputs, "binaries": first}, indent=1), encoding="utf-8")
            shutil.rmtree(home / "first")
            shutil.rmtree(home / "elsewhere")
        kept = json.loads(record.read_text(encoding="utf-8"))
        found = {name: ledger.sha256_file(home / "bin" / name) for name in kept["binaries"]}
        if found != kept["binaries"]:
            raise LabError(f"{home}/bin is not what was built there: remove {home} and build again")
        return {"inputs": inputs, "binaries": found, "identical_twice": True, "path": str(home / "bin")}

    def _compile(self, arm, inputs, folder, where, cached):
        if where.exists():
            shutil.rmtree(where)
        where.mkdir(parents=True)
        with subprocess.Popen(["git", "-C", str(self.repository), "archive", inputs["commit"]],
                              stdout=subprocess.PIPE) as archive:
            subprocess.run(["tar", "-x", "-C", str(where)], stdin=archive.stdout, check=True)
        if archive.returncode != 0:
            raise LabError(f"arm {arm['name']!r}: commit {inputs['commit']} cannot be read")
        if arm.get("patch"):
            self._step(["git", "apply", "--unsafe-paths", f"--directory={where}",
                        str((pathlib.Path(folder) / arm["patch"]).resolve())], where, arm)
        env = {**os.environ, "CCACHE_BASEDIR": str(where), "CCACHE_NOHASHDIR": "1"}
        if not cached:
            env["CCACHE_DISABLE"] = "1"
        options = {"CMAKE_BUILD_TYPE": "Release", "MULTIFORA_TESTS": "OFF", "MULTIFORA_SHARED_PLUGINS": "OFF",
                   "MULTIFORA_PLUGINS": ";".join(inputs["plugins"]), **inputs["options"]}
        self._step(["cmake", "-G", "Ninja", "-S", str(where), "-B", str(where / "build/lab"),
                    *(f"-D{name}={value}" for name, value in options.items())], where, arm, env)
        self._step([*self.prefix, "cmake", "--build", str(where / "build/lab"), "-j", str(os.cpu_count() or 1),
                    "--target", *self.targets], where, arm, env)
        return {name: ledger.sha256_file(where / "build/lab/bin" / name) for name in self.targets}

    @staticmethod
    def _step(argv, where, arm, env=None):
        done = subprocess.run(argv, cwd=where, env=env, capture_output=True, text=True)
        if done.returncode != 0:
            raise LabError(f"arm {arm['name']!r} does not build: {' '.join(argv[:4])} ...\n"
                           + (done.stdout + done.stderr)[-3000:])

    def _keep(self, where, bin_folder):
        if bin_folder.exists():
            shutil.rmtree(bin_folder)
        bin_folder.mkdir()
        for name in self.targets:
            shutil.copy2(where / "build/lab/bin" / name, bin_folder / name)
