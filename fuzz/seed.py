#!/usr/bin/env python3
"""Writes the replies of the test corpus to corpus/<target>/, as seeds for the fuzzer."""

import json
import pathlib
import re

HERE = pathlib.Path(__file__).parent
DATA = HERE.parent / "patterns" / "tests" / "data"
OPS = {
    "tag": {"tag", "stream"},
    "tags": {"tags"},
    "label": {"label"},
    "verdict": {"verdict"},
    "gate": {"gate"},
    "stream": {"tag", "stream"},
    "tasks": {"tags"},
    "score": {"label"},
    "write": {"tag"},
}
# the name that a target asks for
NAMES = {"tag": "answer", "stream": "answer", "tags": "task", "tasks": "task"}


def text(rule):
    """A string, or a rule that makes one; long runs are shortened."""
    if isinstance(rule, str):
        return rule
    if isinstance(rule, list):
        return "".join(map(text, rule))
    kind, value = next(iter(rule.items()))
    if kind == "repeat":
        return text(value[0]) * min(value[1], 20)
    if kind == "split_every":
        return text(value[0])
    return text(value)


for file in sorted(DATA.glob("tags*.jsonl")):
    for line in file.read_text().splitlines():
        case = json.loads(line)
        for target, ops in OPS.items():
            if case["op"] not in ops:
                continue
            reply = text(case["input"])
            if target in NAMES and "tag" in case:
                reply = re.sub(re.escape(case["tag"]), NAMES[target], reply, flags=re.IGNORECASE)
            if target == "score":
                reply = re.sub("label", "score", reply).replace("billing", "8/10").replace("technical", "85 %")
            folder = HERE / "corpus" / target
            folder.mkdir(parents=True, exist_ok=True)
            (folder / case["id"]).write_text(reply[:4000])
