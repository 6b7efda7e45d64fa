package conn

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAddress(t *testing.T) {
	tests := []struct {
		url    string
		kind   Kind
		hosts  string
		master string
		user   string // user:password
		db     int
		tls    bool
	}{
		{"redis://h", Single, "h:6379", "", ":", 0, false},
		{"rediss://u:p@h:1/2", Single, "h:1", "", "u:p", 2, true},
		{"unix://u:p@/a/b?db=3", Single, "/a/b", "", "u:p", 3, false},
		{"redis+sentinel://a,b:1,[::1]:2,[::2]/jobs/4", Sentinels, "a:26379 b:1 [::1]:2 [::2]:26379", "jobs", ":", 4, false},
		{"redis+sentinel://a/jobs", Sentinels, "a:26379", "jobs", ":", 0, false},
		{"rediss+sentinel://u:p%40@a/jobs/1?skip_verify=true", Sentinels, "a:26379", "jobs", "u:p@", 1, true},
		{"redis+cluster://a,b:7", Cluster, "a:6379 b:7", "", ":", 0, false},
		{"rediss+cluster://:p@a:7/0?pool_size=99", Cluster, "a:7", "", ":p", 0, true},
	}
	for _, test := range tests {
		a, err := Parse(test.url, time.Second)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		user := a.options.Username + ":" + a.options.Password
		if a.kind != test.kind || !slices.Equal(a.hosts, strings.Fields(test.hosts)) || a.master != test.master ||
			user != test.user || a.options.DB != test.db || (a.options.TLSConfig != nil) != test.tls {
			t.Errorf("%s: %+v, %s, DB %d", test.url, a, user, a.options.DB)
		}
	}
}

func TestAddressRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"redis+raft://u:secret@h":                "begins with none of",
		"redis+cluster://u:secret@a,,b":          "a host is missing",
		"redis+cluster://u:secret@a/1":           "no database but 0",
		"redis+sentinel://u:secret@a,b":          "name that the sentinels have",
		"redis+sentinel://u:secret@a/jobs/x":     "invalid database number",
		"redis://:secret@h?ca=/nowhere":          "for rediss://",
		"rediss://:secret@h?ca=/nowhere":         "no such file",
		"rediss://:secret@h?cert=/nowhere":       "certificate and key",
		"rediss+cluster://:secret@h?nonsense=1":  "unexpected option",
		"redis+sentinel://secret@a/jobs":         "no password",
		"rediss+cluster://:secret@a:b:c:d/e:f@x": "must be written %23",
	} {
		_, err := Parse(url, time.Second)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

// Connections have the name of the URL, for CLIENT LIST, in every deployment.
func TestAddressNamesConnections(t *testing.T) {
	for _, url := range []string{"redis://h?client_name=me", "redis+sentinel://a/jobs?client_name=me", "redis+cluster://a?client_name=me"} {
		a, err := Parse(url, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if a.options.ClientName != "me" || a.failover().ClientName != "me" || a.cluster().ClientName != "me" {
			t.Errorf("%s: %q, %q, %q", url, a.options.ClientName, a.failover().ClientName, a.cluster().ClientName)
		}
	}
}
