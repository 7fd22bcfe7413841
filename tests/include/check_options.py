#!/usr/bin/env python3
"""No option of a command is accepted and forgotten.

Each row of an option table in plugins/command-* is either refused (kUnsupported), or known to have no
effect here (kNoEffect, with a comment above it or above rows like it that says why), or its name occurs
in the plugin's handlers too. Prints every row that is neither; exit status 1 where there is one.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
# Functions of the query engine that read an option for commands.
SHARED_READERS = {"read_cursor_option(": "cursor"}
ROW = re.compile(r'\{"([^"]+)",\s*(kOpt[^{}]*)\}')


def reason_stands_above(lines, index):
    """A comment above the row, or above a run of rows that have no effect either."""
    while index > 0:
        index -= 1
        if lines[index].strip().startswith("//"):
            return True
        if "kNoEffect" not in lines[index]:
            return ".options" in lines[index] and lines[index - 1].strip().startswith("//")
    return False


def violations():
    rows = 0
    for plugin in sorted(ROOT.glob("plugins/command-*")):
        sources = [f for f in sorted(plugin.glob("*.cpp")) + sorted(plugin.glob("*.h"))
                   if not f.name.endswith("_test.cpp")]
        # What is left without the tables: the handlers.
        handlers = "".join(ROW.sub("", f.read_text(encoding="utf-8")) for f in sources)
        for file in sources:
            lines = file.read_text(encoding="utf-8").splitlines()
            for index, line in enumerate(lines):
                for name, rest in ROW.findall(line):
                    rows += 1
                    where = f"{file.relative_to(ROOT)}:{index + 1}: option '{name}'"
                    if "kUnsupported" in rest:
                        continue
                    if "kNoEffect" in rest:
                        if not reason_stands_above(lines, index):
                            yield f"{where} has no effect, but no comment above says why"
                    elif f'"{name}"' not in handlers and not any(
                        option == name and reader in handlers
                        for reader, option in SHARED_READERS.items()
                    ):
                        yield f"{where} is accepted, but no handler asks for it"
    if rows < 100:
        yield f"only {rows} options found: this check no longer understands the tables"


found = list(violations())
for line in found:
    print(line)
print(f"option check: {len(found)} violations")
sys.exit(1 if found else 0)
