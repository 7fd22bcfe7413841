#!/usr/bin/env python3
"""Includes only point down: the layers of README.md as a test.

Each source's own includes ("layer/file.h") must name a layer that its folder may see. Headers must
also have a guard. Prints every violation; exit status 1 where there is one.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()

BASE = {"core/base"}
BSON = BASE | {"core/bson"}
PLUGIN = BSON | {"core/plugin"}
STORAGE = PLUGIN | {"core/storage"}
STORE = STORAGE | {"core/store"}

# What a folder may include besides itself. The longest prefix that fits decides.
ALLOWED = {
    "core/base": set(),
    "core/bson": BASE,
    "core/plugin": BSON | {"core/storage/types.h"},
    "core/storage": BASE | {"core/plugin/codec.h"},
    "core/store": STORAGE,
    "plugins/codec-": PLUGIN,
    "plugins/collation-": PLUGIN,
    "plugins/index-": STORE,
    "plugins/query-engine": STORE - {"core/storage"} | {"core/storage/types.h"},
    "plugins/command-": STORE - {"core/storage"} | {"core/storage/types.h", "plugins/query-engine"},
    "server/wire": PLUGIN,
    "server/config": PLUGIN,
    "server/net": PLUGIN | {"server/wire", "server/dispatch"},
    # The dispatcher holds replies back until Store::when_durable, so it sees the store's front door.
    "server/dispatch": PLUGIN | {"core/store/store.h", "server/wire"},
    "server/runtime": PLUGIN | {"core/store/store.h", "server/dispatch"},
    "server/embed": PLUGIN | {"server/dispatch", "server/runtime"},
    "server/tools": STORE | {"server"},
    "server": PLUGIN | {"server"},
    "tests": None,
    "bench": None,
}
# Tests beside the code may also use the shared test tools, and those of other plugins.
TEST_EXTRA = {"tests/support", "tests/plugins/reference"}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def rule(path):
    best = max((p for p in ALLOWED if path.startswith(p)), key=len, default=None)
    return best, (ALLOWED[best] if best else None)


def own_folder(path, prefix):
    """The layer that a file belongs to: its folder, or for plugins the plugin's folder."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] in ("core", "plugins", "server") else prefix


def violations():
    for file in sorted(ROOT.rglob("*")):
        relative = file.relative_to(ROOT).as_posix()
        if file.suffix not in (".h", ".cpp") or relative.startswith(("build/", ".git/")):
            continue
        if not relative.startswith(("core/", "plugins/", "server/", "bench/", "tests/")):
            continue
        if "/node_modules/" in relative:
            continue
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".h" and "#pragma once" not in text:
            yield f"{relative}: no #pragma once"
        prefix, allowed = rule(relative)
        if prefix is None:
            yield f"{relative}: its folder is in no layer; add it to tests/include/check_includes.py"
            continue
        if allowed is None:
            continue
        is_test = file.stem.endswith(("_test", "_test_support")) or file.name.startswith("golden_")
        own = own_folder(relative, prefix)
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1)
            if target.startswith(own + "/"):
                continue
            if any(target == a or target.startswith(a + "/") for a in allowed):
                continue
            if is_test and any(target.startswith(a + "/") for a in TEST_EXTRA):
                continue
            if is_test and target.startswith("plugins/") and target.endswith("_test_support.h"):
                continue
            yield f"{relative}:{number}: {own} may not include {target}"


found = list(violations())
for line in found:
    print(line)
print(f"include check: {len(found)} violations")
sys.exit(1 if found else 0)
