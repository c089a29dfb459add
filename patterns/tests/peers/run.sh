#!/usr/bin/env bash
# Runs the providers against servers that others wrote, installed from npm and PyPI into a cache folder:
#   aimock (answers from fixtures.json), llmock (faults on demand and at random, and a verdict on the client).
# With PATTERNS_SHARED set, every request body that the test suite sends is also checked against the types of the
# official Python SDK, by the script that lies there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${PATTERNS_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/patterns-peers}
work=$(mktemp -d)
source "$here/../../../tests/peers/start.sh"
trap 'stop; rm -rf "$work"' EXIT

from_npm "$cache/aimock" @copilotkit/aimock@1.43.0
from_pypi "$cache/venv" llmock==0.2.2 anthropic==2.14.0

serve "$cache/aimock/node_modules/.bin/llmock" -p @port@ -f "$here/fixtures.json" --strict --log-level warn
aimock=$port
# a pause between chunks, so that it is seen who hangs up on a broken one
serve "$cache/venv/bin/llmock" serve -p @port@ --log-level warning --stream-chunk-delay-ms 20
llmock=$port
serve "$cache/venv/bin/llmock" serve -p @port@ --log-level warning --response-style echo --stream-chunk-delay-ms 20 \
    --error-rate 429=0.03 --error-rate 529=0.03 --error-rate 500=0.02 \
    --stream-fault truncate=0.03 --stream-fault malformed=0.02 --stream-fault disconnect=0.02
chaos=$port

cd "$here/../.."
AIMOCK_URL=http://127.0.0.1:$aimock LLMOCK_URL=http://127.0.0.1:$llmock LLMOCK_CHAOS_URL=http://127.0.0.1:$chaos \
    cargo test --quiet --test peers
for server in "$llmock" "$chaos"; do
    "$cache/venv/bin/llmock" report --json --url "http://127.0.0.1:$server" >"$work/verdict" || true
    "$cache/venv/bin/python" "$here/verdict.py" "$work/verdict"
done

check=${PATTERNS_SHARED:+$PATTERNS_SHARED/reference/schema_check.py}
if [ -z "$check" ]; then
    echo "NOT TESTED: the request bodies against the SDK's types; PATTERNS_SHARED is not set" >&2
    exit
fi
mkdir "$work/bodies"
PATTERNS_BODIES=$work/bodies cargo test --quiet --test providers
"$cache/venv/bin/python" "$check" messages "$work"/bodies/*.json >"$work/checked" || {
    grep -A9 '^BAD' "$work/checked" >&2
    exit 1
}
echo "$(grep -c '^OK' "$work/checked") request bodies follow the types of the official SDK"
