#!/bin/sh
# Lets a real Prometheus scrape two instances on one Redis for a minute, or for as many
# seconds as the first argument says: every scrape must work, and every rule of
# docs/alerts.yml be evaluated. Without a Prometheus it prints that, and succeeds.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}

for tool in prometheus promtool curl redis-server; do
  command -v $tool >/dev/null 2>&1 || { echo "skipped: there is no $tool here (apt-get install prometheus curl redis-server)"; exit 0; }
done

dir=$(mktemp -d)
started=
trap 'kill $started 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
fail() { echo "$1" >&2; tail -n 5 "$dir"/*.log >&2; exit 1; }
port=$((20000 + $$ % 10000))

redis-server --port $port --dir "$dir" --save '' >"$dir/redis.log" 2>&1 & started="$started $!"
targets=
for i in 1 2; do
  bin/redstalkd -l 127.0.0.1 -p $((port + i)) --http 127.0.0.1:$((port + 10 + i)) --store redis://127.0.0.1:$port/0 >"$dir/redstalkd$i.log" 2>&1 & started="$started $!"
  targets="$targets'127.0.0.1:$((port + 10 + i))',"
done
for i in 1 2; do
  curl -s --retry 20 --retry-delay 1 --retry-all-errors -f -o "$dir/metrics" http://127.0.0.1:$((port + 10 + i))/metrics || fail "an instance shows no metrics"
  promtool check metrics <"$dir/metrics" || fail "promtool does not like the metrics"
done

cat >"$dir/prometheus.yml" <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ['$PWD/docs/alerts.yml']
scrape_configs: [{job_name: redstalk, static_configs: [{targets: [${targets%,}]}]}]
END
promtool check config "$dir/prometheus.yml"
at=127.0.0.1:$((port + 20))
prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/data" --web.listen-address=$at >"$dir/prometheus.log" 2>&1 & started="$started $!"
sleep "$seconds"

# ask prints the value of a query of one value.
ask() {
  curl -sf -G http://$at/api/v1/query --data-urlencode "query=$1" | sed -n 's/.*"value":\[[^,]*,"\([^"]*\)"\].*/\1/p'
}
scrapes=$(ask "sum(count_over_time(up[1h]))") failed=$(ask "sum(count_over_time(up[1h])) - sum(sum_over_time(up[1h]))")
rules=$(curl -sf http://$at/api/v1/rules | grep -o '"health":"[a-z]*"' | sort | uniq -c | tr -s ' \n' ' ')
echo "$scrapes scrapes, $failed failed; rules by health:$rules"
[ "${scrapes:-0}" -gt "$seconds" ] || fail "too few scrapes"
[ "$failed" = 0 ] || fail "scrapes failed"
case $rules in *'"err"'* | *'"unknown"'* | '') fail "rules were not evaluated" ;; esac
