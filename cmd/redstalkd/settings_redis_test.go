package main

import (
	"strings"
	"testing"
)

// TestRedisURLs: which URLs of Redis are accepted, and the other settings of Redis.
func TestRedisURLs(t *testing.T) {
	for _, url := range []string{
		"redis+sentinel://u:p@a:26379,b:26379/jobs/0", "rediss+sentinel://a/jobs?ca=/x",
		"redis+cluster://a:1,b:2", "rediss+cluster://a?cert=/x&key=/y",
	} {
		s, err := read("--store "+url, "")
		if err != nil || s.engine.url != url || s.engine.partitions != 0 {
			t.Errorf("%s: %v", url, err)
		}
	}
	for args, want := range map[string]string{
		"--store redis+sentinels://u:secret@a": `--store: "redis+sentinels://xxxxx@a" is none of`,
		"--store redis+cluster:a":              `--store: "redis+cluster:a" is none of`,
		"--partitions 0":                       `--partitions: "0" is not a number of partitions, 1 to 1024`,
		"--partitions 1025":                    `--partitions: "1025" is not a number`,
		"--partitions x":                       `--partitions: "x" is not a number`,
	} {
		if _, err := read(args, ""); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	if s, err := read("--partitions 8", "PARTITIONS=4"); err != nil || s.engine.partitions != 8 {
		t.Errorf("%v", err)
	}
}
