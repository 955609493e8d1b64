#!/bin/sh
# teardown emit: llm-dummy-8b for Dummy 8B on one H200; config sha256 4ecf86036de522f918e02c78a5f6b4ddf099d560311a58748804682e1f027edc
# Supervises the server on a host without systemd.
#   sh run.sh start     start it, wait until /health answers
#   sh run.sh stop      SIGTERM, up to 70 s for running requests, then SIGKILL
#   sh run.sh restart   stop, start
#   sh run.sh status    0 running, 1 gave up after crashes, 3 stopped
#   sh run.sh wait      wait until it answers (also called by the systemd unit)
#   sh run.sh logs      the end of the log
set -u
here=$(cd "$(dirname "$0")" && pwd -P)
base=$(dirname "$here")
if [ -f "$base/llm.env" ]; then
    set -a
    . "$base/llm.env"
    set +a
fi
host=${LLM_HOST:-127.0.0.1}
port=${LLM_PORT:-8080}
state=${LLM_STATE_DIR:-$base/run}
log=$state/server.log
start_timeout_s=${LLM_START_TIMEOUT_S:-1800}
stop_timeout_s=${LLM_STOP_TIMEOUT_S:-70}
restart_limit=${LLM_RESTART_LIMIT:-5}
restart_window_s=${LLM_RESTART_WINDOW_S:-600}
max_delay_s=${LLM_MAX_DELAY_S:-30}

say() { echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) $*"; }
nap() { sleep 0.2 2>/dev/null || sleep 1; }

alive() { # a zombie that nobody has collected is not alive
    [ -n "${1:-}" ] && kill -0 "$1" 2>/dev/null && ! grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null
}

born() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
note() { echo "$2 $(born "$2")" >"$state/$1.pid"; }

pid_of() { # the process noted as $1, unless it ended and its number went to another one
    [ -f "$state/$1.pid" ] || return 0
    read -r pid since <"$state/$1.pid" || return 0
    if alive "$pid" && [ "$(born "$pid")" = "$since" ]; then echo "$pid"; fi
}

healthy() {
    case $host in
        0.0.0.0) at=127.0.0.1 ;;
        ::) at=[::1] ;;
        *:*) at=[$host] ;;
        *) at=$host ;;
    esac
    url=http://$at:$port/health
    if command -v curl >/dev/null 2>&1; then
        curl -gfsS -o /dev/null --max-time 5 --noproxy '*' "$url" 2>/dev/null
    else
        python3 -c 'import sys, urllib.request as u
u.build_opener(u.ProxyHandler({})).open(sys.argv[1], timeout=5)' "$url" 2>/dev/null
    fi
}

wait_healthy() { # $1: a pid without which waiting is pointless
    deadline=$(($(date +%s) + start_timeout_s))
    until healthy; do
        if [ -n "${1:-}" ] && ! alive "$1"; then
            say "the server ended before it answered" >&2
            return 1
        fi
        if [ "$(date +%s)" -ge "$deadline" ]; then
            say "no answer on port $port after $start_timeout_s s" >&2
            return 1
        fi
        nap
    done
}

release() {
    if [ -f "$base/current/start" ]; then
        echo "$base/current"
    else
        echo "$base/stack/4ecf86036de5"
    fi
}

supervise() {
    note supervisor $$
    stopping=0 crashes=0 child='' pause=''
    trap 'stopping=1; for pid in $child $pause; do kill -TERM "$pid" 2>/dev/null; done' TERM INT
    trap '' HUP
    window=$(date +%s)
    while [ "$stopping" = 0 ]; do
        # a session of its own: the group holds the server and every worker that it starts
        setsid sh "$(release)/start" &
        child=$!
        [ "$stopping" = 0 ] || kill -TERM "$child" # asked to stop before the trap knew the pid
        note server "$child"
        say "started, pid $child"
        wait "$child"
        code=$?
        while alive "$child"; do # a signal ended `wait`, not the server
            wait "$child"
            code=$?
        done
        kill -s KILL -- "-$child" 2>/dev/null # workers that outlived it
        child=''
        rm -f "$state/server.pid"
        say "ended, exit code $code"
        if [ "$stopping" = 1 ] || [ "$code" = 0 ]; then break; fi
        now=$(date +%s)
        if [ $((now - window)) -gt "$restart_window_s" ]; then
            window=$now crashes=0
        fi
        crashes=$((crashes + 1))
        if [ "$crashes" -ge "$restart_limit" ]; then
            say "gave up: $crashes crashes within $restart_window_s s" | tee "$state/failed"
            rm -f "$state/supervisor.pid"
            exit 1
        fi
        delay=1 n=1
        while [ "$n" -lt "$crashes" ]; do delay=$((delay * 2)) n=$((n + 1)); done
        [ "$delay" -le "$max_delay_s" ] || delay=$max_delay_s
        say "crash $crashes of $restart_limit; next start in $delay s"
        sleep "$delay" &
        pause=$!
        wait "$pause"
        pause=''
    done
    rm -f "$state/supervisor.pid"
    say "stopped"
}

start() {
    supervisor=$(pid_of supervisor)
    if [ -n "$supervisor" ]; then
        echo "already running, supervisor pid $supervisor"
        return 0
    fi
    if healthy; then
        echo "port $port already answers, from another process; stop that one first" >&2
        return 1
    fi
    command -v setsid >/dev/null 2>&1 || { echo "setsid is missing; install util-linux" >&2; return 1; }
    mkdir -p "$state" || return 1
    rm -f "$state/failed" "$state/server.pid"
    if [ "$(wc -c <"$log" 2>/dev/null || echo 0)" -gt 50000000 ]; then mv -f "$log" "$log.1"; fi
    setsid sh "$here/run.sh" supervise </dev/null >>"$log" 2>&1 &
    if wait_healthy $!; then
        echo "running on port $port, log $log"
        return 0
    fi
    tail -n 20 "$log" >&2
    stop
    return 1
}

stop() {
    supervisor=$(pid_of supervisor) server=$(pid_of server)
    first=${supervisor:-$server} # the server alone, where its supervisor was killed
    if [ -z "$first" ]; then
        rm -f "$state/supervisor.pid" "$state/server.pid"
        echo "not running"
        return 0
    fi
    kill -TERM "$first" 2>/dev/null
    deadline=$(($(date +%s) + stop_timeout_s))
    while alive "$first" && [ "$(date +%s)" -lt "$deadline" ]; do nap; done
    if alive "$first"; then
        echo "still running after $stop_timeout_s s: killed" >&2
        kill -KILL "$first" 2>/dev/null
    fi
    [ -z "$server" ] || kill -s KILL -- "-$server" 2>/dev/null # workers that outlived it
    rm -f "$state/supervisor.pid" "$state/server.pid"
    echo "stopped"
}

status() {
    supervisor=$(pid_of supervisor) server=$(pid_of server)
    if [ -n "$supervisor" ]; then
        if healthy; then answer=answers; else answer="does not answer"; fi
        echo "running: supervisor $supervisor, server ${server:-restarting}, port $port $answer"
        return 0
    fi
    if [ -f "$state/failed" ]; then
        cat "$state/failed"
        return 1
    fi
    echo "stopped"
    return 3
}

case ${1:-} in
    start) start ;;
    stop) stop ;;
    restart) stop && start ;;
    status) status ;;
    wait) wait_healthy "${MAINPID:-}" ;;
    logs) tail -n "${2:-50}" "$log" ;;
    supervise) supervise ;;
    *)
        sed -n '3,9p' "$0"
        exit 2
        ;;
esac
