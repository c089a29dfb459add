#!/usr/bin/env bash
# Runs the providers against servers that others wrote, installed from npm and PyPI into a cache folder:
#   aimock (answers from fixtures.json), llmock (faults on demand and at random, and a verdict on the client).
# With PATTERNS_SHARED set, every request body that the test suite sends is also checked against the types of the
# official Python SDK, by the script that lies there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${PATTERNS_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/patterns-peers}
work=$(mktemp -d)
pids=()
stop() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap stop EXIT

mkdir -p "$cache"
[ -x "$cache/node_modules/.bin/aimock" ] ||
    npm install --prefix "$cache" --silent --no-fund --no-audit @copilotkit/aimock@1.43.0
if [ ! -x "$cache/venv/bin/llmock" ]; then
    python3 -m venv "$cache/venv"
    "$cache/venv/bin/pip" install --quiet llmock==0.2.2 anthropic==2.14.0
fi

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# start NAME PORT COMMAND…: waits until something listens there
start() {
    local name=$1 port=$2
    shift 2
    "$@" >"$work/$name.log" 2>&1 &
    pids+=($!)
    for _ in $(seq 150); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return; fi
        sleep 0.2
    done
    echo "$name did not start:" >&2
    cat "$work/$name.log" >&2
    exit 1
}

aimock=$(port)
start aimock "$aimock" "$cache/node_modules/.bin/llmock" -p "$aimock" -f "$here/fixtures.json" --strict --log-level warn
# a pause between chunks, so that it is seen who hangs up on a broken one
llmock=$(port)
start llmock "$llmock" "$cache/venv/bin/llmock" serve -p "$llmock" --log-level warning --stream-chunk-delay-ms 20
chaos=$(port)
start chaos "$chaos" "$cache/venv/bin/llmock" serve -p "$chaos" --log-level warning --response-style echo --stream-chunk-delay-ms 20 \
    --error-rate 429=0.08 --error-rate 529=0.08 --error-rate 500=0.04 \
    --stream-fault truncate=0.08 --stream-fault malformed=0.04 --stream-fault disconnect=0.04

cd "$here/../.."
AIMOCK_URL=http://127.0.0.1:$aimock LLMOCK_URL=http://127.0.0.1:$llmock LLMOCK_CHAOS_URL=http://127.0.0.1:$chaos \
    cargo test --quiet --test peers
for server in "$llmock" "$chaos"; do
    "$cache/venv/bin/llmock" report --strict --url "http://127.0.0.1:$server"
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
