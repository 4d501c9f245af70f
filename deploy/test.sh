#!/usr/bin/env bash
# Builds both images from nothing, and runs a federation of the digits example in
# containers: 20 versions, with a SIGKILL and a stop of the server on the way.
# EXTRAS=torch builds the client with torch. Needs root and podman; see README.md.
set -euo pipefail
cd "$(dirname "$0")/.."

lacking() {
    echo "containers: $1" >&2
    exit 3
}

fail() {
    echo "containers: FAILED: $1" >&2
    tail -n 20 "$work/log" >&2
    for name in $(podman ps -aq --format '{{.Names}}'); do
        echo "--- $name" >&2
        podman logs --tail 10 "$name" >&2
    done
    exit 1
}

expect() { # what, expected, found
    [ "$2" = "$3" ] || fail "$1: expected $2, found $3"
    echo "ok    $1: $3"
}

timed() { # what, command...
    local what=$1 start=$EPOCHREALTIME
    shift
    "$@" >>"$work/log" 2>&1 || fail "$what"
    took "$what" "$start"
}

took() { # what, since when
    awk -v what="$1" -v from="$2" -v to="$EPOCHREALTIME" \
        'BEGIN { printf "%5.1f s  %s\n", to - from, what }' | tee -a "$work/figures"
}

[ "$(id -u)" = 0 ] || lacking "these tests need root"
for tool in podman runc iptables openssl; do
    command -v "$tool" >/dev/null || lacking "$tool is not installed; on Debian: \
apt-get install podman buildah runc conmon netavark aardvark-dns iptables catatonit \
mmdebstrap openssl"
done

cache=$PWD/.cache/containers
work=$(mktemp -d)
mkdir -p "$cache" "$work/config"
touch "$work/log"
cleanup() {
    podman rm --all --force --time 0 >/dev/null 2>&1 || true
    podman network rm --force latecomer >/dev/null 2>&1 || true
    umount "$work/store/overlay" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

# A store and settings of our own: they work without systemd, and leave nothing behind.
cat >"$work/containers.conf" <<END
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
log_driver = "k8s-file"
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[network]
network_backend = "netavark"
network_config_dir = "$work/networks"
END
cat >"$work/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$work/store"
runroot = "$work/run"
END
export CONTAINERS_CONF=$work/containers.conf CONTAINERS_STORAGE_CONF=$work/storage.conf
export TMPDIR=$work

base=docker.io/library/python:3.11-slim
make_base() {
    if [ ! -f "$cache/merged.tar" ]; then
        # shellcheck disable=SC2016 # $1 is for mmdebstrap's own shell
        # The hook spares usrmerge, and with it Perl: 49 MB.
        mmdebstrap -q --variant=minbase \
            --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
            --include=usr-is-merged,ca-certificates,python3,python3-venv \
            --dpkgopt='path-exclude=/usr/share/doc/*' \
            --dpkgopt='path-exclude=/usr/share/man/*' \
            --dpkgopt='path-exclude=/usr/share/locale/*' \
            --customize-hook='ln -s /usr/bin/python3 "$1/usr/local/bin/python"' \
            bookworm "$work/base.tar"
        mv "$work/base.tar" "$cache/merged.tar"
    fi
    podman import -q --change 'CMD ["python"]' --change \
        'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin' \
        "$cache/merged.tar" "$base"
}
if timeout 120 podman pull -q "$base" >>"$work/log" 2>&1; then
    echo "base: $base"
elif command -v mmdebstrap >/dev/null; then
    timed "base image from Debian packages, since no registry answers" make_base
else
    lacking "no registry answers, and mmdebstrap is not installed"
fi

build=(podman build --network host --format docker --pull=never
    --build-arg "EXTRAS=${EXTRAS-}"
    --build-arg "VERSION=test"
    --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)")
for name in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_CERT; do
    [ -z "${!name-}" ] || build+=(--build-arg "$name=${!name}")
done
[ ! -d "${PIP_FIND_LINKS-}" ] || build+=(-v "$PIP_FIND_LINKS:$PIP_FIND_LINKS:ro")
[ ! -d /etc/ssl/certs ] || build+=(-v /etc/ssl/certs:/etc/ssl/certs:ro)
for image in server client; do
    timed "build latecomer-$image" \
        "${build[@]}" -f "deploy/$image.Dockerfile" -t "latecomer-$image" .
    size=$(podman image inspect -f '{{.Size}}' "latecomer-$image")
    added=$(((size - $(podman image inspect -f '{{.Size}}' "$base")) / 1000000))
    echo "$((size / 1000000)) MB  latecomer-$image" | tee -a "$work/figures"
    echo "$added MB  latecomer-$image, above its base" | tee -a "$work/figures"
    [ -n "${EXTRAS-}" ] || [ "$added" -le 120 ] ||
        fail "size of the $image image: expected at most 120 MB above the base"
    [ "$image" = client ] || [ "$size" -le 250000000 ] ||
        fail "size of the server image: expected at most 250 MB"
done

confined=(--network latecomer --read-only --tmpfs /tmp --cap-drop ALL
    --security-opt no-new-privileges --security-opt label=disable --memory 256m)
python() {
    podman run --rm --no-healthcheck "${confined[@]}" --entrypoint python \
        "latecomer-$1" -c "$2" 2>>"$work/log"
}
server() {
    podman run --rm --no-healthcheck "${confined[@]}" -v server:/data \
        latecomer-server "$@" 2>>"$work/log"
}
app=$PWD/fedsim/templates/numpy:/app:ro
podman network create latecomer >/dev/null

for image in server client; do
    expect "user of the $image image" 10001 "$(python $image 'import os; print(os.getuid())')"
done
for image in server client; do
    expect "plotly in the $image image" None \
        "$(python $image 'from importlib.util import find_spec as f; print(f("plotly"))')"
done
expect "torch in the server image" None \
    "$(python server 'from importlib.util import find_spec as f; print(f("torch"))')"

timed "fedclient model" podman run --rm "${confined[@]}" -v model:/data -v "$app" \
    latecomer-client model --app my_app:workload -o /data/model.safetensors
sed -e 's/versions: 200/versions: 20/' -e 's/steps: 20/steps: 2000/' \
    -e 's/^server:/&\n  web: 0.0.0.0:9464/' \
    deploy/federation.yaml >"$work/config/federation.yaml"

started=$EPOCHREALTIME
podman run -d --name server "${confined[@]}" --cpus 0.5 -v server:/data \
    -v model:/model:ro -v "$work/config:/config:ro" latecomer-server >>"$work/log" 2>&1
for i in 0 1 2; do
    podman run -d --name "client-$i" "${confined[@]}" --cpus 0.25 -v "client-$i:/data" \
        -v "$app" latecomer-client join server:8443 --plaintext --app my_app:workload \
        --state /data --name "client-$i" --index "$i" --count 3 >>"$work/log" 2>&1
done
podman run -d --name evaluator "${confined[@]}" --cpus 0.25 -v evaluator:/data \
    -v "$app" latecomer-client evaluate server:8443 --plaintext --app my_app:workload \
    --state /data >>"$work/log" 2>&1

version() {
    podman logs server 2>/dev/null |
        sed -n 's/.*"event": "stepped".*"version": \([0-9]*\).*/\1/p' | tail -n 1
}
reach() {
    local end=$((SECONDS + 120)) now
    while now=$(version) && [ "${now:-0}" -lt "$1" ]; do
        [ $SECONDS -lt $end ] || fail "version $1 was not reached"
        sleep 0.2
    done
}
again() {
    podman start server
    local end=$((SECONDS + 60))
    until podman healthcheck run server >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "the server is not healthy after its start"
    done
}

reach 3
timed "podman healthcheck run" podman healthcheck run server
get() { # path on the HTTP port
    podman exec server python -c "from urllib.request import urlopen
print(urlopen('http://127.0.0.1:9464$1').read().decode(), end='')"
}
expect "GET /readyz" ready "$(get /readyz)"
expect "accepted updates in /metrics" 1 \
    "$(get /metrics | grep -c '^fed_updates_total{verdict="accepted"} [1-9]')"
timed "fedclient check, from a container" podman run --rm "${confined[@]}" -v "$app" \
    latecomer-client check server:8443 --plaintext --app my_app:workload --name check \
    --index 2 --count 3
names() { # container, run: of its clients, as the operator is told
    podman exec "$1" fedserver status "$2" --json | grep -o '"name": "[^"]*"' |
        cut -d '"' -f 4 | sort | paste -sd ' '
}
expect "clients at the server, after a check" "client-0 client-1 client-2 evaluator" \
    "$(names server /data/run)"
reach 6
podman kill --signal KILL server >/dev/null
timed "from SIGKILL to healthy again" again
reach "$(($(version) + 2))"
timed "fedserver backup of the running server" \
    podman exec server fedserver backup /data/run /data/backup
timed "podman stop" podman stop --time 20 server
expect "exit status after podman stop" 0 "$(podman inspect -f '{{.State.ExitCode}}' server)"
timed "from stopped to healthy again" again
podman stats --no-stream --format '{{.Name}}: {{.MemUsage}}'

for name in server client-0 client-1 client-2 evaluator; do
    expect "exit status of $name at the end" 0 "$(timeout 120 podman wait $name)"
done
took "the run of 20 versions in all" "$started"

verified=$(server journal verify /data/run) || fail "journal verify: $verified"
echo "$verified"
count() { grep -o "[0-9]* $1" <<<"$verified" | cut -d ' ' -f 1; }
accepted=$(count 'updates accepted')
expect "updates in the model or in the buffer" "$accepted" \
    $(($(count 'in the model') + $(count 'in the buffer')))
expect "updates that clients were told are accepted" "$accepted" \
    "$(for i in 0 1 2; do podman logs "client-$i" 2>&1; done | grep -c ' accepted at ')"
timed "fedserver restore of the backup" server restore /data/backup /data/restored
timed "fedserver journal verify of what was restored" server journal verify /data/restored

# The same with TLS: who has no certificate of the authority is not let in.
certify() { # name: its key, and a certificate for it
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
        -keyout "$work/tls/$1.key" -out "$work/tls/$1.csr"
    openssl x509 -req -days 2 -in "$work/tls/$1.csr" -out "$work/tls/$1.pem" \
        -CA "$work/tls/ca.pem" -CAkey "$work/ca.key" -CAcreateserial \
        -extfile <(printf 'subjectAltName=DNS:%s,IP:127.0.0.1' "$1")
}
make_certificates() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
        -subj /CN=authority -keyout "$work/ca.key" -out "$work/tls/ca.pem"
    certify secure
    certify device-7
    chown -R 10001:10001 "$work/tls" # a key is readable by its owner only
}
mkdir "$work/tls"
timed "an authority and two certificates" make_certificates
trusted=(--ca /tls/ca.pem --certificate /tls/secure.pem --key /tls/secure.key)
podman run -d --name secure "${confined[@]}" -v server:/data -v model:/model:ro \
    -v "$work/config:/config:ro" -v "$work/tls:/tls:ro" \
    --health-cmd "fedserver healthcheck 127.0.0.1:8443 ${trusted[*]}" \
    latecomer-server run /config/federation.yaml --set server.plaintext=false \
    --set server.journal=/data/secure --set stop.versions=null --set \
    'server.tls={certificate: /tls/secure.pem, key: /tls/secure.key, client_ca: /tls/ca.pem}' \
    >>"$work/log" 2>&1
joins() { # options...
    podman run --rm "${confined[@]}" -v "$app" -v "$work/tls:/tls:ro" latecomer-client \
        join secure --app my_app:workload --state /tmp/state --give-up 3 --updates 2 "$@"
}
healthy() {
    local end=$((SECONDS + 60))
    until podman healthcheck run secure >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "the server with TLS is not healthy"
    done
}
timed "healthy with TLS" healthy
timed "two updates with a certificate" joins --ca /tls/ca.pem \
    --certificate /tls/device-7.pem --key /tls/device-7.key
expect "name of a client with a certificate" device-7 "$(names secure /data/secure)"
if joins --ca /tls/ca.pem >>"$work/log" 2>&1; then
    fail "a client without a certificate was let in"
fi
echo "ok    a client without a certificate is refused"
podman stop --time 20 secure >>"$work/log" 2>&1
expect "exit status of the server with TLS" 0 \
    "$(podman inspect -f '{{.State.ExitCode}}' secure)"
if [ -n "${SAVE-}" ]; then # a JSON object: how many seconds or MB for what
    sed -E 's/^ *([0-9.]+) (s|MB)  (.*)$/ "\3": \1,/; 1s/^/{\n/; $s/,$/\n}/' \
        "$work/figures" >benchmarks/results/containers.json
fi
echo "containers: all well"
