package cron

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestZone(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Argentina/Ushuaia"} {
		first, again := zone(t, name), zone(t, name)
		if first != again || first.String() != name {
			t.Errorf("%s: %v and %v", name, first, again)
		}
	}
	for _, name := range []string{"", "Local", "Berlin", "europe/berlin ", "../etc/passwd", "+02:00"} {
		if loc, err := Zone(name); err == nil || !strings.Contains(err.Error(), "want a name of the tz database") {
			t.Errorf("%q: %v, %v", name, loc, err)
		}
	}
}

func TestZoneDatabase(t *testing.T) {
	debian, bsd, bare, none := t.TempDir(), t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "none")
	for path, text := range map[string]string{
		filepath.Join(debian, "tzdata.zi"): "# version 2025b\n# This zic input file is in the public domain.\n",
		filepath.Join(bsd, "+VERSION"):     "2024a\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		zoneinfo string
		dirs     []string
		want     string
	}{
		{"", []string{none, debian, bsd}, "2025b (" + debian + ")"},
		{bsd, []string{debian}, "2024a (" + bsd + ")"},
		{none, []string{bare, debian}, "unknown (" + bare + ")"},
		{none, []string{none}, runtime.Version() + " (built in)"},
	} {
		if got := zoneDatabase(test.zoneinfo, test.dirs); got != test.want {
			t.Errorf("%q, %q: %s, want %s", test.zoneinfo, test.dirs, got, test.want)
		}
	}
	if got := ZoneDatabase(); !strings.HasSuffix(got, ")") {
		t.Errorf("this system: %s", got)
	}
}
