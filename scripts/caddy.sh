#!/usr/bin/env bash
# caddy.sh [DEADHEAT]: races `tls`, `quic` and `quic-noq`, where the program has it, at Caddy (Go module proxy) across an emulated path
# with delay and losses, as it comes with HTTP/1.1, 2 and 3, and with fewer of them: visits, resumed ones, requests at a rate and
# downloads. Checks the version, the document and the times of each. Caddy is built once, into target/peers; that takes minutes, so this
# is no part of `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh cargo cc ip go openssl python3
peers=$PWD/target/peers
deadheat=${1:-}
if [ -z "$deadheat" ]; then
  cargo build --release --locked --quiet --features quic-noq
  deadheat=$PWD/target/release/deadheat
fi
deadheat=$(realpath "$deadheat")
contenders=(tls quic)
! "$deadheat" list transports | grep '^ *quic-noq ' >/dev/null || contenders+=(quic-noq)
early=("${contenders[@]:1}")
mkdir -p "$peers/caddy"
if [ ! -x "$peers/caddy/caddy" ]; then
  printf 'module peers\ngo 1.25\nrequire github.com/caddyserver/caddy/v2 v2.10.2\n' >"$peers/caddy/go.mod"
  (cd "$peers/caddy" && GOFLAGS=-mod=mod go build -o caddy github.com/caddyserver/caddy/v2/cmd/caddy)
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mkdir site
head -c 50000 /dev/urandom >site/document
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out certificate.pem -days 2 \
  -subj /CN=far -addext subjectAltName=DNS:far -addext basicConstraints=critical,CA:FALSE 2>/dev/null
export SSL_CERT_FILE=$PWD/certificate.pem XDG_DATA_HOME=$PWD XDG_CONFIG_HOME=$PWD HOME=$PWD

# race PROTOCOLS WORK CONTENDER…: a race of these at Caddy with these protocols.
race() {
  local protocols=$1 work=$2
  shift 2
  cat >Caddyfile <<CADDY
{
	admin off
	auto_https off
	servers {
		protocols $protocols
	}
}
https://far {
	tls $PWD/certificate.pem $PWD/key.pem
	root * $PWD/site
	file_server
}
CADDY
  rm -f race.json
  "$deadheat" path run -q delay=5ms,loss=1%,seed=3 --far "exec $peers/caddy/caddy run --adapter caddyfile --config Caddyfile" \
    --far-ready 443 -- "$deadheat" race "$@" -w "$work" --to https://far/document --blocks 3 -q -o race.json \
    >said.txt 2>&1 || [ $? = 3 ] || { cat said.txt >&2; exit 1; }
  python3 - "$protocols" "$work" <<'READ'
import collections, hashlib, json, sys

protocols, work = sys.argv[1].split(), sys.argv[2]
result = json.load(open("race.json"))
digest = hashlib.sha256(open("site/document", "rb").read()).hexdigest()[:16]
names = [contender["spec"] for contender in result["contenders"]]
seen = collections.defaultdict(list)
resumed = collections.defaultdict(set)
def check(what, holds, shown):
    if not holds:
        sys.exit(f"{protocols} {work}: {what}: {json.dumps(shown, indent=1)[:3000]}")
for trial in result["trials"]:
    name = names[trial["contender"]]
    metrics = trial["metrics"]
    http = trial["effective"].get("http")
    if http is None:  # It got no connection.
        continue
    is_quic = name.startswith("quic")
    want = "HTTP/3" if is_quic else "HTTP/2" if "h2" in protocols else "HTTP/1.1"
    check("version", http == want, trial["effective"])
    announced = trial["effective"]["alt_svc"]
    # Over HTTP/3 Caddy announces it no more.
    check("Alt-Svc", is_quic or ("h3" in announced) == ("h3" in protocols), announced)
    if work.startswith("bulk"):
        check("bytes", trial["ledger"]["down"]["delivered"] == 2_000_000, trial["ledger"])
    else:
        check("document", digest in trial["effective"]["document"], trial["effective"])
        first = metrics.get("first_byte_p50_ns", metrics.get("response_p50_ns"))
        check("a round trip", first >= 10e6, metrics)
    if "resume=" in name:
        # A ticket for early data may come too late for the last connection.
        wants = {"on": ["on"], "0rtt": ["0rtt", "no early data"]}[name.split("resume=")[1]]
        check("resumption", trial["effective"]["resume"] in wants, trial["effective"])
        resumed[name].add(trial["effective"]["resume"])
    seen[name].append(trial["valid"])
for name in names:
    check(name, (name in seen) == (not name.startswith("quic") or "h3" in protocols), names)
def line(name, valid):
    return " ".join([f"{name} {sum(valid)} of {len(valid)} valid", *sorted(resumed[name])])
lines = [line(name, valid) for name, valid in seen.items()]
print(f"{'+'.join(protocols)} {work}: {', '.join(lines)}")
READ
  "$deadheat" report race.json | sed -n '1,3p'
}

race "h1 h2 h3" connect:count=20 "${contenders[@]}"
race "h1 h2 h3" connect:count=20,pause=30ms "${contenders[@]/%/:resume=on}"
race "h1 h2 h3" connect:count=20,pause=30ms tls:resume=on "${early[@]/%/:resume=0rtt}"
race "h1 h2 h3" rpc:rate=50pps,count=50 "${contenders[@]}"
race "h1 h2 h3" bulk:bytes=2MB,direction=down "${contenders[@]}"
race "h1 h3" connect:count=20 "${contenders[@]}"
race "h1 h2" connect:count=20 "${contenders[@]}"
race "h1" rpc:rate=50pps,count=50 "${contenders[@]}"
