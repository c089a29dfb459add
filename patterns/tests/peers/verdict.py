"""Fails when llmock has found anything wrong with how its faults were taken, be it only worth a warning.

One finding is not counted: that waits do not grow. The server sees them from outside, and on a busy machine a short one
takes as long as the next. That they grow is tested to the millisecond in `tests/layers/retry.rs`. Waits that are none at
all cannot come from a busy machine, and count.
"""

import json
import sys

verdict = json.load(open(sys.argv[1]))
counted = [
    finding
    for finding in verdict["findings"]
    if not (finding["code"] == "no_backoff" and "constant interval" in finding["title"])
]
print(f"llmock saw {verdict['calls']} calls, {verdict['attempts']} attempts, {verdict['faults_injected']} faults of its own")
for finding in counted:
    print(f"{finding['severity']}: {finding['code']} at {finding['path']}: {finding['title']}", file=sys.stderr)
sys.exit(bool(counted) or not verdict["faults_injected"])
