#!/usr/bin/env bash
# What `make image-demo` does within the image: what it holds starts, copies, answers its health check and stops, with no network but
# loopback. It ends with an error at the first thing that is not so, and prints what it measures in lines `measured NAME VALUE`.
# inside.sh HEALTH_CHECK [ARGUMENT ...]
set -euo pipefail

now_ms() { echo "$((${EPOCHREALTIME//[.,]/} / 1000))"; }
measured() { echo "measured $1 $(($(now_ms) - $2))"; }
fail() {
    echo "not so: $1" >&2
    [[ $# -lt 2 ]] || tail -n 40 "$2" >&2
    exit 1
}

echo "== confined"
id
grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status
! touch /opt/mirror-ray/written 2>/dev/null || fail "the root file system is read-only"
[[ "$(ls /sys/class/net)" == lo ]] || fail "there is no network but loopback"

echo "== versions"
begun=$(now_ms)
mirror-ray --version
measured first_command_ms "$begun"
begun=$(now_ms)
mirror-ray --version >/dev/null
measured command_ms "$begun"
ray --version
java -version 2>&1
sed 's/^/Debian /' /etc/debian_version
echo "measured packages $(wc -l </usr/share/mirror-ray/packages.txt)"

echo "== up, between brokers that run"
mirror-ray clusters up --dir /tmp/clusters >/tmp/clusters.log 2>&1 &
clusters=$!
until [[ -e /tmp/clusters/mm2.properties ]]; do
    kill -0 "$clusters" 2>/dev/null || fail "the brokers start" /tmp/clusters.log
    sleep 0.1
done
begun=$(now_ms)
mirror-ray up /tmp/clusters/mm2.properties >/tmp/up.log 2>&1 &
up=$!
until "$@" 2>/dev/null; do
    kill -0 "$up" 2>/dev/null || fail "up goes on" /tmp/up.log
    sleep 0.1
done
measured healthy_ms "$begun"
begun=$(now_ms)
kill -TERM "$up"
wait "$up" || fail "up ends well after SIGTERM" /tmp/up.log
measured stopped_ms "$begun"
mirror-ray clusters down
wait "$clusters" || fail "the brokers stop" /tmp/clusters.log

echo "== demo"
mirror-ray demo --for 120 >/tmp/demo.log 2>&1 &
demo=$!
until "$@" 2>/dev/null; do
    kill -0 "$demo" 2>/dev/null || fail "the demo goes on" /tmp/demo.log
    sleep 0.1
done
sleep 15
mirror-ray verify 'A->B' --spark >/tmp/verify.log 2>&1 || fail "Spark finds every record in the copy" /tmp/verify.log
head -n 6 /tmp/verify.log
wait "$demo" || fail "the demo copies all" /tmp/demo.log
tail -n 12 /tmp/demo.log
echo "measured tmp_bytes $(du --summarize --bytes /tmp | cut -f1)"
