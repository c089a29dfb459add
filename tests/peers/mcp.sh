#!/usr/bin/env bash
# Drives MCP servers that we did not write, and lets the protocol's own conformance suite drive us.
# Needs npm. Fetches the servers and a newer Node by package name, into a folder outside of the repository.
set -euo pipefail
cd "$(dirname "$0")/../.."
home="${PATTERNS_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/patterns-peers}"
program="${PATTERNS_BIN:-target/debug/patterns}"
[ -n "${PATTERNS_BIN:-}" ] || cargo build --quiet
program="$(realpath "$program")"
work="$(mktemp -d)"
source tests/peers/start.sh
trap 'stop; rm -rf "$work"' EXIT

from_npm "$home/mcp" @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31 \
  @modelcontextprotocol/conformance@0.1.16
from_npm "$home/node22" node@22
mcp="$home/mcp/node_modules/.bin"
# the conformance suite needs Node 22
export PATH="$home/node22/node_modules/.bin:$PATH"

mkdir "$work/root" "$work/docs"
echo "Bees dance." > "$work/docs/bees.txt"

failed=0
# name, script, what must stand on standard error or output, arguments of the program
check() {
  local name="$1" script="$2" part="$3"
  shift 3
  printf '%s\n' "$script" > "$work/script.jsonl"
  if "$program" agent "Go." --root "$work/root" --model "script:$work/script.jsonl" "$@" \
      --progress plain < /dev/null > "$work/out" 2>&1 && grep -qF -- "$part" "$work/out"; then
    echo "ok    $name"
  else
    echo "FAIL  $name: no \`$part\` in:"
    sed 's/^/      /' "$work/out"
    failed=1
  fi
}
call() { printf '{"path": "turn 1", "content": [{"type": "tool_use", "id": "toolu_1", "name": "%s", "input": %s}]}\n{"reply": "done"}' "$1" "$2"; }

everything="$mcp/mcp-server-everything"
files="$mcp/mcp-server-filesystem $work/docs"
check "server-everything over stdio: a call has its result" "$(call get-sum '{"a": 2, "b": 3}')" "get-sum gives" --allow get-sum --mcp "$everything"
check "server-everything over stdio: wrong arguments are caught" "$(call get-sum '{"a": "two"}')" "invalid arguments for \`get-sum\`" --mcp "$everything"
check "server-filesystem: a file inside is read" "$(call read_text_file "{\"path\": \"$work/docs/bees.txt\"}")" "read_text_file gives" --mcp "$files"
check "server-filesystem: a file outside is refused by the server" "$(call read_text_file '{"path": "/etc/passwd"}')" "Access denied" --mcp "$files"
check "server-filesystem: nothing is written without a yes" "$(call write_file "{\"path\": \"$work/docs/new.txt\", \"content\": \"x\"}")" "not run: write_file" --mcp "$files"
[ ! -e "$work/docs/new.txt" ] || { echo "FAIL  a file was written"; failed=1; }

serve env PORT=@port@ "$everything" streamableHttp
check "server-everything over streamable HTTP: a call has its result" "$(call echo '{"message": "hello"}')" "echo gives" --mcp "http://127.0.0.1:$port/mcp"

# the suite puts its address at the end of the command
client() { printf '%s' "$program agent Go. --root $work/root --quiet --model script:$1 $2 --mcp"; }
printf '%s\n' "$(call add_numbers '{"a": 5, "b": 3}')" > "$work/tools_call.jsonl"
printf '{"reply": "done"}\n' > "$work/initialize.jsonl"
for scenario in initialize tools_call; do
  allow=""
  [ "$scenario" = initialize ] || allow="--allow add_numbers"
  if node "$mcp/conformance" client --command "$(client "$work/$scenario.jsonl" "$allow")" --scenario "$scenario" \
      > "$work/out" 2>&1 < /dev/null; then
    echo "ok    conformance, $scenario: $(grep -iE 'passed' "$work/out" | tail -n 1)"
  else
    echo "FAIL  conformance, $scenario:"
    sed 's/^/      /' "$work/out"
    failed=1
  fi
done
exit "$failed"
