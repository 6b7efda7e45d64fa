package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/server/access"
)

// read configures from arguments and variables, both separated by spaces.
func read(args, env string) (*settings, error) {
	return configure(strings.Fields(args), environment(env), io.Discard)
}

// environment is made of NAME=value pairs, the names without REDSTALK_.
func environment(pairs string) func(string) (string, bool) {
	m := make(map[string]string)
	for _, pair := range strings.Fields(pairs) {
		name, value, _ := strings.Cut(pair, "=")
		m["REDSTALK_"+name] = value
	}
	return func(name string) (string, bool) {
		value, found := m[name]
		return value, found
	}
}

// TestServiceLinks: variables that Kubernetes sets for a service named redstalk are not settings of this program.
func TestServiceLinks(t *testing.T) {
	for _, value := range []string{"tcp://10.96.0.12:11300", "udp://10.96.0.12:1", "sctp://[fd00::1]:11300"} {
		s, err := read("", "PORT="+value+" SERVICE_HOST=10.96.0.12 SERVICE_PORT=1 PORT_11300_TCP="+value+" PORT_11300_TCP_ADDR=10.96.0.12 HTTP_PORT="+value)
		if err != nil || s.port != 11300 || len(s.warnings) != 1 || !strings.Contains(s.warnings[0], "ignoring REDSTALK_PORT,") {
			t.Errorf("%s: %v, %+v", value, err, s)
		}
	}
	if s, err := read("-p 7", "PORT=tcp://10.96.0.12:11300"); err != nil || s.port != 7 || len(s.warnings) != 0 {
		t.Errorf("with a flag: %v, %+v", err, s)
	}
	for _, env := range []string{"PORT=tcp://host:11300", "PORT=tcp://10.96.0.12", "PORT=http://10.96.0.12:11300", "LISTEN=tcp://10.96.0.12:11300"} {
		if _, err := read("", env); exitCode(err) != exitUsage {
			t.Errorf("%s: %v", env, err)
		}
	}
}

// configured is a command line, an environment and a setting that results from them.
type configured struct {
	args, env string
	get       func(*settings) any
	want      any
}

const ms = time.Millisecond

var readDefaults = []configured{
	{"", "", func(s *settings) any { return s.addr }, "127.0.0.1"},
	{"", "", func(s *settings) any { return s.port }, 11300},
	{"", "", func(s *settings) any { return s.maxJobSize }, 65535},
	{"", "", func(s *settings) any { return s.grace }, 5 * time.Second},
	{"", "", func(s *settings) any { return s.engine }, engine{url: "embedded:./redstalk-data", namespace: "redstalk", fileSize: 10 << 20, reserve: 64 << 20, history: 256 << 20, timeout: 5 * time.Second}},
}

var readFlags = []configured{
	{"-l ::1", "", func(s *settings) any { return s.addr }, "::1"},
	{"--listen=unix:/x", "", func(s *settings) any { return s.addr }, "unix:/x"},
	{"-p0", "", func(s *settings) any { return s.port }, 0},
	{"-p 1 -p 2", "", func(s *settings) any { return s.port }, 2},
	{"-p http", "", func(s *settings) any { return s.port }, 80},
	{"-p 65535", "", func(s *settings) any { return s.port }, 65535},

	{"--http-host Q.example.org,*.pods --http-host *", "", func(s *settings) any { return fmt.Sprint(s.http.hosts) }, "[q.example.org *.pods *]"},
	{"", "HTTP_HOST=q.example.org,*.pods", func(s *settings) any { return fmt.Sprint(s.http.hosts) }, "[q.example.org *.pods]"},

	{"--trust-proxy 10.0.0.5,10.1.0.0/16 --trust-proxy=unix", "", func(s *settings) any { return s.http.proxies.String() }, "10.0.0.5/32,10.1.0.0/16,unix"},
	{"", "TRUST_PROXY=10.0.0.5,::1", func(s *settings) any { return s.http.proxies.String() }, "10.0.0.5/32,::1/128"},

	{"-z 12", "", func(s *settings) any { return s.maxJobSize }, 12},
	{"-z 0", "", func(s *settings) any { return s.maxJobSize }, -1},
	{"-z 1073741824", "", func(s *settings) any { return s.maxJobSize }, 1 << 30},
	{"-z 1073741825", "", func(s *settings) any { return s.maxJobSize }, 1 << 30},
	{"-z -1", "", func(s *settings) any { return s.maxJobSize }, 1 << 30},
	{"-z 99999999999999999999", "", func(s *settings) any { return s.maxJobSize }, 1 << 30},

	{"-f0", "", func(s *settings) any { return s.engine.syncEvery }, 0 * ms},
	{"-f 50", "", func(s *settings) any { return s.engine.syncEvery }, 50 * ms},
	{"-F", "", func(s *settings) any { return s.engine.syncEvery }, neverSync},
	{"-F -f50", "", func(s *settings) any { return s.engine.syncEvery }, 50 * ms},
	{"-f50 -F", "", func(s *settings) any { return s.engine.syncEvery }, neverSync},
	{"-f50", "NO_FSYNC=1", func(s *settings) any { return s.engine.syncEvery }, 50 * ms},
	{"-F", "FSYNC_MS=50", func(s *settings) any { return s.engine.syncEvery }, neverSync},
	{"-f -1", "", func(s *settings) any { return s.engine.syncEvery }, math.MaxInt64 / ms * ms},
	{"-s 4096", "", func(s *settings) any { return s.engine.fileSize }, int64(4096)},
	{"-s -1", "", func(s *settings) any { return s.engine.fileSize }, int64(math.MaxInt64)},

	{"-b d", "", func(s *settings) any { return s.engine.url }, "embedded:d"},
	{"-b d", "STORE=redis://h", func(s *settings) any { return s.engine.url }, "embedded:d"},
	{"--store memory:", "BINLOG=d", func(s *settings) any { return s.engine.url }, "memory:"},
	{"--store redis://u:p@h:1/2", "", func(s *settings) any { return s.engine.url }, "redis://u:p@h:1/2"},
	{"--namespace n", "", func(s *settings) any { return s.engine.namespace }, "n"},
	{"--access f", "", func(s *settings) any { return s.guards.access }, "f"},
	{"--access f --redact /card/number,/email", "", func(s *settings) any { return s.guards.redaction != nil }, true},
	{"", "AUTH_TIMEOUT=2s", func(s *settings) any { return s.guards.authTimeout }, 2000 * ms},
	{"", "", func(s *settings) any { return s.guards.authTimeout }, 10_000 * ms},
	{"--max-unauthenticated 7", "MAX_UNAUTHENTICATED=5", func(s *settings) any { return s.guards.unauthenticated }, 7},
	{"--tls :1 --tls-cert c --tls-key k --http-tls :2", "TLS_CLIENT_CA=a", func(s *settings) any { return fmt.Sprint(s.guards.httpTLS) },
		fmt.Sprint(tlsSettings{":2", access.CertificateFiles{Cert: "c", Key: "k", ClientCA: "a"}})},
	{"--tls :1 --tls-cert c --tls-key k --http-tls :2 --http-tls-cert d --http-tls-key l", "TLS_CLIENT_CA=a", func(s *settings) any { return fmt.Sprint(s.guards.httpTLS) },
		fmt.Sprint(tlsSettings{":2", access.CertificateFiles{Cert: "d", Key: "l"}})},
	{"-u who", "", func(s *settings) any { return s.user }, "who"},
	{"--quote-stats", "", func(s *settings) any { return s.quoteStats }, true},
	{"--quote-stats=false", "QUOTE_STATS=1", func(s *settings) any { return s.quoteStats }, false},
	{"-VVV", "", func(s *settings) any { return s.verbosity }, 3},
	{"--verbose --verbose", "", func(s *settings) any { return s.verbosity }, 2},
	{"-V", "VERBOSE=2", func(s *settings) any { return s.verbosity }, 1},
	{"--grace 0", "", func(s *settings) any { return s.grace }, time.Duration(0)},
	{"", "", func(s *settings) any { return s.limits }, limitSettings{autoConnections, 0, time.Minute, 1 << 30, 64 << 20}},
	{"--max-connections 0", "MAX_CONNECTIONS=5", func(s *settings) any { return s.limits.connections }, 0},
	{"--max-connections 7", "", func(s *settings) any { return s.limits.connections }, 7},
	{"--max-connections auto", "MAX_CONNECTIONS=5", func(s *settings) any { return s.limits.connections }, autoConnections},
	{"--idle-timeout 1m", "", func(s *settings) any { return s.limits.idleTimeout }, time.Minute},
	{"--write-timeout 0", "", func(s *settings) any { return s.limits.writeTimeout }, time.Duration(0)},
	{"", "MAX_CONNECTIONS=5", func(s *settings) any { return s.limits.connections }, 5},
	{"", "IDLE_TIMEOUT=2s", func(s *settings) any { return s.limits.idleTimeout }, 2 * time.Second},
	{"", "WRITE_TIMEOUT=2s", func(s *settings) any { return s.limits.writeTimeout }, 2 * time.Second},
	{"--max-incoming 5", "MAX_INCOMING=7", func(s *settings) any { return s.limits.incoming }, int64(5)},
	{"--history-bytes 5", "HISTORY_BYTES=7", func(s *settings) any { return s.engine.history }, int64(5)},
	{"", "HISTORY_BYTES=0", func(s *settings) any { return s.engine.history }, int64(0)},
	{"--max-unread 5", "MAX_UNREAD=7", func(s *settings) any { return s.limits.unread }, int64(5)},
	{"", "MAX_UNREAD=0", func(s *settings) any { return s.limits.unread }, int64(0)},
	{"--log-format json", "", func(s *settings) any { return s.logJSON }, true},
}

var readVariables = []configured{
	{"", "LISTEN=unix:/x", func(s *settings) any { return s.addr }, "unix:/x"},
	{"", "PORT=5", func(s *settings) any { return s.port }, 5},
	{"-p 6", "PORT=5", func(s *settings) any { return s.port }, 6},
	{"-p 6", "PORT=wrong", func(s *settings) any { return s.port }, 6},
	{"", "PORT=", func(s *settings) any { return s.port }, 11300},
	{"", "MAX_JOB_SIZE=7", func(s *settings) any { return s.maxJobSize }, 7},
	{"", "BINLOG=d", func(s *settings) any { return s.engine.url }, "embedded:d"},
	{"", "STORE=redis://h", func(s *settings) any { return s.engine.url }, "redis://h"},
	{"", "NAMESPACE=n", func(s *settings) any { return s.engine.namespace }, "n"},
	{"", "FSYNC_MS=9", func(s *settings) any { return s.engine.syncEvery }, 9 * ms},
	{"", "NO_FSYNC=true", func(s *settings) any { return s.engine.syncEvery }, neverSync},
	{"", "BINLOG_SIZE=9", func(s *settings) any { return s.engine.fileSize }, int64(9)},
	{"", "USER=who", func(s *settings) any { return s.user }, "who"},
	{"", "QUOTE_STATS=1", func(s *settings) any { return s.quoteStats }, true},
	{"", "VERBOSE=2", func(s *settings) any { return s.verbosity }, 2},
	{"", "GRACE=1m", func(s *settings) any { return s.grace }, time.Minute},
	{"", "LOG_FORMAT=json", func(s *settings) any { return s.logJSON }, true},
}

func TestConfigure(t *testing.T) {
	for _, test := range slices.Concat(readDefaults, readFlags, readVariables) {
		s, err := read(test.args, test.env)
		if err != nil {
			t.Errorf("%q with %q: %v", test.args, test.env, err)
			continue
		}
		if got := test.get(s); got != test.want {
			t.Errorf("%q with %q: %v, want %v", test.args, test.env, got, test.want)
		}
	}
}

func TestConfigureRefuses(t *testing.T) {
	tests := []struct{ args, env, want string }{
		{"-z 5x", "", `-z, --max-job-size: "5x" is not a number`},
		{"-z --1", "", `-z, --max-job-size: "--1" is not a number`},
		{"--max-job-size=", "", `-z, --max-job-size: "" is not a number`},
		{"-f x", "", `-f, --fsync-ms: "x" is not a number`},
		{"-s 1k", "", `-s, --binlog-size: "1k" is not a number`},
		{"-p 65536", "", `-p, --port: "65536" is neither`},
		{"-p -1", "", `-p, --port: "-1" is neither`},
		{"-p nosuchservice", "", `-p, --port: "nosuchservice" is neither`},
		{"--port=", "", `-p, --port: "" is neither`},
		{"--listen=", "", "-l, --listen: empty address"},
		{"-l unix:", "", "-l, --listen: unix: needs a path"},
		{"-l redis://u:secret@h", "", `-l, --listen: "redis://xxxxx@h" is a URL`},
		{"--store nonsense", "", `--store: "nonsense" is none of`},
		{"--store embedded:", "", `--store: "embedded:" is none of`},
		{"--store memory:x", "", `--store: "memory:x" is none of`},
		{"--store redis:h", "", `--store: "redis:h" is none of`},
		{"--store reddis://u:secret@h", "", `--store: "reddis://xxxxx@h" is none of`},
		{"--binlog=", "", "-b, --binlog: empty"},
		{"-b d --store memory:", "", "-b and --store both"},
		{"", "BINLOG=d STORE=memory:", "REDSTALK_BINLOG and REDSTALK_STORE both"},
		{"--namespace=", "", "--namespace: empty"},
		{"--namespace a{0}", "", `--namespace: the namespace "a{0}" has a brace`},
		{"--store redis://h", "NAMESPACE=a\x7fb", `REDSTALK_NAMESPACE: the namespace "a\x7fb" has a control`},
		{"--user=", "", "-u, --user: empty"},
		{"--max-connections -1", "", `--max-connections: "-1" is neither`},
		{"--tls :1 --tls-cert c", "", "--tls needs --tls-cert and --tls-key"},
		{"--http-host https://x.example", "", `--http-host: "https://x.example" is not the name of a host`},
		{"", "HTTP_HOST=x.example:80", `REDSTALK_HTTP_HOST: "x.example:80" is not the name of a host`},
		{"", "TRUST_PROXY=0.0.0.0/0", `REDSTALK_TRUST_PROXY: "0.0.0.0/0" is every address`},
		{"--http-tls :1", "", "--http-tls needs --http-tls-cert and --http-tls-key"},
		{"--tls 1", "", `--tls: "1" is neither`},
		{"--access=", "", "--access: empty name"}, {"--redact /email", "", "--redact needs --access"}, {"--access f --redact email", "", `--redact: "email" is not a JSON pointer`},
		{"--auth-timeout 0", "", `--auth-timeout: "0" is not a duration`},
		{"--max-unauthenticated 0", "", `--max-unauthenticated: "0" is not a number`},
		{"--max-connections=", "", `--max-connections: "" is neither`},
		{"--idle-timeout 5", "", `--idle-timeout: "5" is not a duration`},
		{"--write-timeout -5s", "", `--write-timeout: "-5s" is not a duration`},
		{"--max-incoming=x", "", `--max-incoming: "x" is not`},
		{"--max-unread=x", "", `--max-unread: "x" is not`},
		{"", "IDLE_TIMEOUT=soon", `REDSTALK_IDLE_TIMEOUT: "soon" is not a duration`},
		{"--grace 5", "", `--grace: "5" is not a duration`},
		{"--grace -5s", "", `--grace: "-5s" is not a duration`},
		{"--log-format xml", "", `--log-format: "xml" is neither`},
		{"--quote-stats=perhaps", "", `--quote-stats: "perhaps" is neither`},
		{"--verbose=much", "", `-V, --verbose: "much" is not`},
		{"", "PORT=99999", `REDSTALK_PORT: "99999" is neither`},
		{"", "MAX_JOB_SIZE=5x", `REDSTALK_MAX_JOB_SIZE: "5x" is not a number`},
		{"", "STORE=reddis://u:secret@h", `REDSTALK_STORE: "reddis://xxxxx@h" is none of`},
		{"", "NO_FSYNC=perhaps", `REDSTALK_NO_FSYNC: "perhaps" is neither`},
		{"", "VERBOSE=-1", `REDSTALK_VERBOSE: "-1" is not`},
	}
	for _, test := range tests {
		_, err := read(test.args, test.env)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || exitCode(err) != exitUsage {
			t.Errorf("%q with %q: %v, want %q", test.args, test.env, err, test.want)
		}
	}
}

// TestNumericVariables: values of variables come from files and charts, so malformed numbers
// are refused, even where the flag accepts them as beanstalkd does.
func TestNumericVariables(t *testing.T) {
	huge := "99999999999999999999"
	tests := []struct {
		name      string
		good, bad []string
	}{
		{"PORT", []string{"0", "65535", "http"}, []string{"65536", huge, "-1", "-0", "+80", " 80", "80 ", "8 0", "1e3", "0x50"}},
		{"FSYNC_MS", []string{"0", "50", "007", "9223372036854"}, []string{"9223372036855", huge, "-1", "+5", " 5", "5ms", "0.5"}},
		{"BINLOG_SIZE", []string{"0", "4096", "9223372036854775807"}, []string{"9223372036854775808", huge, "-1", "+5", "5 ", "1k", "1e6"}},
		{"DISK_RESERVE", []string{"0", "1"}, []string{"9223372036854775808", huge, "-1", "+5", " 5", "64M"}},
		{"MAX_JOB_SIZE", []string{"0", "65535", "1073741825"}, []string{"9223372036854775808", huge, "-1", "+5", "5 ", "64k"}},
		{"MAX_CONNECTIONS", []string{"0", "auto"}, []string{"2147483648", huge, "-1", "+5", " 5", "many"}},
		{"PARTITIONS", []string{"1", "16"}, []string{"0", "65536", huge, "-1", "+5", " 5"}},
		{"WAIT_REPLICAS", []string{"0", "65535"}, []string{"65536", huge, "-1", "+1", "1 "}},
		{"VERBOSE", []string{"0", "2"}, []string{"256", huge, "-1", "+1", " 1"}},
		{"GRACE", []string{"0", "5s", "1h30m"}, []string{"-1s", "5", huge + "s", " 5s", "5 s"}},
		{"IDLE_TIMEOUT", []string{"0", "5s"}, []string{"-1s", "5", huge + "s", " 5s"}},
		{"WRITE_TIMEOUT", []string{"0", "5s"}, []string{"-1s", "5", huge + "s", "5s "}},
		{"METRICS_TUBES", []string{"0", "100000"}, []string{"-1", "100001", "1.5", " 1"}},
		{"READY_LAG", []string{"1ms", "5s"}, []string{"0", "-1s", "5", huge + "s", " 5s"}},
		{"STORE_TIMEOUT", []string{"5s"}, []string{"0", "-1s", "5", huge + "s", " 5s"}},
	}
	for _, test := range tests {
		name := "REDSTALK_" + test.name
		try := func(value string) error {
			variables := map[string]string{name: value}
			_, err := configure(nil, func(name string) (string, bool) {
				value, found := variables[name]
				return value, found
			}, io.Discard)
			return err
		}
		for _, value := range append(test.good, "") {
			if err := try(value); err != nil {
				t.Errorf("%s=%q: %v", name, value, err)
			}
		}
		for _, value := range append(test.bad, "NaN", "Inf", "x", " ", "1\n", "1,000", "１") {
			err := try(value)
			if err == nil || !strings.HasPrefix(err.Error(), name+": ") || exitCode(err) != exitUsage {
				t.Errorf("%s=%q: %v", name, value, err)
			}
		}
	}
}

func TestConnectionsFor(t *testing.T) {
	for descriptors, want := range map[uint64]int{0: 0, 64: 32, 256: 128, 1024: 896, 1 << 20: 1<<20 - 128, math.MaxUint64: 0} {
		if got := connectionsFor(descriptors, 0); got != want {
			t.Errorf("%d descriptors: %d connections, want %d", descriptors, got, want)
		}
	}
	if got := connectionsFor(4096, 1000); got != 4096-128-1000 {
		t.Errorf("with 1,000 pushes there may be %d connections", got)
	}
	if got := connectionsFor(1024, 1000); got != 512 {
		t.Errorf("with more pushes than descriptors there may be %d connections", got)
	}
}

func TestWarnings(t *testing.T) {
	s, err := read("-c -n -z -1", "")
	want := []string{
		"flag -c is out of use and ignored",
		"flag -n is out of use and ignored",
		"maximum job size was set to 1073741824",
	}
	if err != nil || !slices.Equal(s.warnings, want) {
		t.Errorf("%q, %v", s.warnings, err)
	}
}

// Every flag of the table is in the help, with its variable.
func TestHelp(t *testing.T) {
	var out strings.Builder
	s, err := configure([]string{"-h"}, environment("PORT=wrong"), &out)
	if s != nil || err != nil {
		t.Fatal(s, err)
	}
	for _, o := range defaults().options() {
		line := "\n  " + o.title()
		if o.short == 0 {
			line = "\n      " + o.title()
		}
		if o.hidden == (strings.Contains(out.String(), line+" ") || strings.Contains(out.String(), line+"\n")) {
			t.Errorf("%s: hidden is %v", o.title(), o.hidden)
		}
		if o.set != nil && !o.hidden && !strings.Contains(out.String(), "["+o.env()+"]") {
			t.Errorf("%s is missing", o.env())
		}
	}
}
