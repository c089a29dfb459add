# What the scripts that run peers share: `source` it. It needs $work, a folder for logs, and adds to $pids what it starts.

pids=()

# again COMMAND…: a network has its hiccups; what fails three times in a row has failed
again() {
  local pause
  for pause in 5 30; do
    if "$@"; then return; fi
    echo "once more in $pause s: $*" >&2
    sleep "$pause"
  done
  "$@"
}

# has FOLDER PACKAGE…: whether they were installed there, to the end; if not, the folder is emptied
has() {
  local folder="$1"
  shift
  if [ "$(cat "$folder/installed" 2>/dev/null)" = "$*" ]; then return; fi
  rm -rf "$folder"
  mkdir -p "$folder"
  return 1
}

# from_npm FOLDER PACKAGE…
from_npm() {
  if has "$@"; then return; fi
  again npm install --silent --no-audit --no-fund --prefix "$@"
  echo "${@:2}" >"$1/installed"
}

# from_pypi FOLDER PACKAGE…
from_pypi() {
  if has "$@"; then return; fi
  python3 -m venv "$1"
  again "$1/bin/pip" install --quiet "${@:2}"
  echo "${@:2}" >"$1/installed"
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# serve COMMAND…: starts a server, with a free port in the place of @port@, and waits until it listens; $port tells which
serve() {
  local pid
  for _ in 1 2 3 4 5; do
    # below those that the system gives away unasked, so that nothing takes it before the server does
    port=$((10000 + RANDOM % 20000))
    if listens "$port"; then continue; fi
    "${@//@port@/$port}" >"$work/$port.log" 2>&1 &
    pid=$!
    pids+=("$pid")
    for _ in $(seq 600); do
      kill -0 "$pid" 2>/dev/null || break
      if listens "$port"; then return; fi
      sleep 0.2
    done
    kill "$pid" 2>/dev/null || true
  done
  echo "it does not start: $*" >&2
  cat "$work/$port.log" >&2
  exit 1
}

# stop: ends what was started
stop() {
  if [ ${#pids[@]} -gt 0 ]; then kill "${pids[@]}" 2>/dev/null || true; fi
  wait 2>/dev/null || true
}
