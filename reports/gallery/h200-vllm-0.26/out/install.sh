#!/bin/sh
# teardown emit: llm-dummy-8b for Dummy 8B on one H200; config sha256 4ecf86036de522f918e02c78a5f6b4ddf099d560311a58748804682e1f027edc
# Puts this stack on this host, starts it, and waits until it answers. Running it again is safe.
#   sh install.sh [--supervisor systemd|process] [--prefix DIR] [--host ADDRESS] [--port N] [--model FILE]
#   sh install.sh --remove [--supervisor systemd|process] [--prefix DIR]     --purge: models too
# systemd needs root; process runs as the user who calls it.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
service=llm-dummy-8b
prefix=/opt/llm-server
supervisor=systemd host='' port='' model='' remove=no purge=no
unit_dir=${LLM_UNIT_DIR:-/etc/systemd/system}

fail() { echo "install: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
    case $1 in
        --remove) remove=yes; shift ;;
        --purge) remove=yes purge=yes; shift ;;
        --supervisor | --prefix | --host | --port | --model)
            [ $# -ge 2 ] || fail "$1 needs a value"
            eval "${1#--}=\$2"
            shift 2
            ;;
        *) fail "unknown argument $1" ;;
    esac
done
case $supervisor in systemd | process) ;; *) fail "--supervisor takes systemd or process" ;; esac
case $prefix in
    *[!A-Za-z0-9._/-]* | *..*) fail "--prefix takes letters, digits, . _ - and /" ;;
    /*/*) ;;
    *) fail "--prefix takes an absolute path of its own, at least two folders deep" ;;
esac

if [ "$remove" = yes ]; then
    [ -d "$prefix/releases" ] || { echo "nothing installed in $prefix"; exit 0; }
    if [ "$supervisor" = systemd ]; then
        systemctl disable --now "$service.service" || :
        rm -f "$unit_dir/$service.service"
        systemctl daemon-reload
    else
        sh "$prefix/supervisor/run.sh" stop
    fi
    # models are kept: a new configuration needs them again, and they take long to fetch
    [ "$purge" = no ] || rm -rf "$prefix/models"
    rm -rf "$prefix/releases" "$prefix/current" "$prefix/venv" "$prefix/supervisor" "$prefix/run" \
        "$prefix/var" "$prefix/llm.env"
    rmdir "$prefix/models" "$prefix" 2>/dev/null || :
    echo "removed from $prefix"
    exit 0
fi

mkdir -p "$prefix/releases" "$prefix/models" "$prefix/supervisor" "$prefix/var"
for release in "$here"/stack/* "$here"/rollback/*; do
    [ -f "$release/start" ] || continue
    name=$(basename "$release")
    rm -rf "$prefix/releases/.$name"
    cp -R "$release" "$prefix/releases/.$name"
    rm -rf "$prefix/releases/$name"
    mv "$prefix/releases/.$name" "$prefix/releases/$name"
done
cp "$here/supervisor/run.sh" "$prefix/supervisor/run.sh"
{
    [ -z "$host" ] || echo "LLM_HOST=$host"
    [ -z "$port" ] || echo "LLM_PORT=$port"
} >"$prefix/llm.env"

kept=$prefix/models/model
if [ -n "$model" ]; then
    cp -R "$model" "$kept.part"
    rm -rf "$kept"
    mv "$kept.part" "$kept"
fi
[ -e "$kept" ] || fail "the model $kept is missing; copy it there or give --model FILE"
[ -x "$prefix/venv/bin/python" ] || python3 -m venv "$prefix/venv"
"$prefix/venv/bin/python" -m pip install --quiet -r "$prefix/releases/4ecf86036de5/packages.txt"

ln -sfn "releases/4ecf86036de5" "$prefix/current"
if [ "$supervisor" = process ]; then
    exec sh "$prefix/supervisor/run.sh" restart
fi
id teardown >/dev/null 2>&1 ||
    useradd --system --home-dir "$prefix/var" --no-create-home --shell /usr/sbin/nologin teardown
chown -R teardown "$prefix/var"
sed "s|/opt/llm-server|$prefix|g" "$here/systemd/$service.service" >"$unit_dir/.$service.service"
mv "$unit_dir/.$service.service" "$unit_dir/$service.service"
systemctl daemon-reload
systemctl enable "$service.service"
exec systemctl restart "$service.service"
