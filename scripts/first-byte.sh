#!/usr/bin/env bash
# first-byte.sh [PATH] [PAIRS]: the time to the first byte of a site by curl and by deadheat, in turns, on an emulated path (delay=5ms). Both
# visit the same nginx over TLS 1.3 and HTTP/2, 20 times with a new connection each; prints the medians of each pair, of the whole time and of the
# exchange after the handshakes, and the median ratios. curl is a process for each visit, which loads OpenSSL anew: some milliseconds of its handshake.
# DEADHEAT names the program (target/release/deadheat).
set -euo pipefail

cd "$(dirname "$0")/.."
PATH_SPEC="${1:-delay=5ms}"
PAIRS="${2:-15}"
DEADHEAT="$(realpath "${DEADHEAT:-target/release/deadheat}")"
scripts/need.sh nginx curl openssl python3

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out certificate.pem -days 2 \
  -subj /CN=far -addext subjectAltName=DNS:far -addext basicConstraints=critical,CA:FALSE 2>/dev/null
head -c 20000 /dev/zero | tr '\0' d > document
cat > nginx.conf <<'CONF'
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path temp;
    proxy_temp_path temp;
    fastcgi_temp_path temp;
    uwsgi_temp_path temp;
    scgi_temp_path temp;
    server {
        listen [::]:443 ssl http2 ipv6only=off;
        ssl_protocols TLSv1.3;
        ssl_certificate certificate.pem;
        ssl_certificate_key key.pem;
        root .;
    }
}
CONF
cat > pairs.py <<'PY'
import json, os, statistics, subprocess, sys

deadheat, pairs = sys.argv[1], int(sys.argv[2])
url = "https://far/document"


def by_curl():
    times = []
    for _ in range(20):
        done = subprocess.run(
            ["curl", "-4", "-s", "-o", "/dev/null", "--cacert", "certificate.pem", "--curves", "X25519", "-w",
             "%{time_namelookup} %{time_pretransfer} %{time_starttransfer} %{http_version}", url],
            capture_output=True, text=True, check=True)
        *seconds, version = done.stdout.split()
        assert version == "2", version
        lookup, asked, first = map(float, seconds)
        times.append(((first - lookup) * 1e3, (first - asked) * 1e3))
    return [statistics.median(column) for column in zip(*times)]


def by_deadheat():
    subprocess.run(
        [deadheat, "race", "-4", "tls", "-w", "connect:count=20", "--to", url, "--blocks", "1", "--idle", "host", "-q", "-o", "race.json"],
        check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open("race.json") as file:
        metrics = json.load(file)["trials"][0]["metrics"]
    os.remove("race.json")
    return [metrics[name] / 1e6 for name in ("first_byte_p50_ns", "exchange_p50_ns")]


ratios = []
for pair in range(pairs):
    # Either goes first in every other pair.
    order = [by_curl, by_deadheat] if pair % 2 == 0 else [by_deadheat, by_curl]
    figures = {one.__name__: one() for one in order}
    curl, own = figures["by_curl"], figures["by_deadheat"]
    ratios.append([ours / theirs for ours, theirs in zip(own, curl)])
    print(f"first byte: curl {curl[0]:.2f} ms, deadheat {own[0]:.2f} ms, ratio {ratios[-1][0]:.3f}; "
          f"exchange: {curl[1]:.2f}, {own[1]:.2f}, {ratios[-1][1]:.3f}", flush=True)
whole, exchange = zip(*ratios)
for what, all_of in (("first byte", whole), ("exchange", exchange)):
    print(f"{what}: median ratio of {pairs} pairs {statistics.median(all_of):.3f} ({min(all_of):.3f} to {max(all_of):.3f})")
PY
SSL_CERT_FILE=certificate.pem "$DEADHEAT" path run -q "$PATH_SPEC" --far "nginx -p $work -c nginx.conf" --far-ready 443 \
  -- python3 pairs.py "$DEADHEAT" "$PAIRS"
