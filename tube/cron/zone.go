package cron

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // used where the system has no time-zone database
)

// zones are the time zones that Zone has read, by name. There are about 600 names.
var zones sync.Map // string to *time.Location

// Zone returns the time zone of a name of the tz database, such as Europe/Berlin, or UTC.
// Zones are read once, and kept until the program ends.
//
// As everywhere in Go, a zone comes from $ZONEINFO, from the system's database or, if
// neither has it, from the one in the binary. The zone of the machine ("Local", or an empty
// name) is refused, because it is not the same on all machines.
func Zone(name string) (*time.Location, error) {
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fmt.Errorf("time zone %q: want a name of the tz database, such as Europe/Berlin or UTC", name)
	}
	zones.Store(name, loc)
	return loc, nil
}

// systemZones are the directories in which package time looks for the system's database, in
// that order.
var systemZones = []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}

// ZoneDatabase says which tz database Zone uses, and its version as far as that is known:
// "2025b (/usr/share/zoneinfo)", "unknown (/usr/share/zoneinfo)", or "go1.26.8 (built in)":
// the database in the binary does not say its version, but the Go release determines it. It
// reads files, so call it once.
func ZoneDatabase() string {
	return zoneDatabase(os.Getenv("ZONEINFO"), systemZones)
}

func zoneDatabase(zoneinfo string, dirs []string) string {
	if zoneinfo != "" {
		dirs = append([]string{zoneinfo}, dirs...)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			return fmt.Sprintf("%s (%s)", versionIn(dir), dir)
		}
	}
	return runtime.Version() + " (built in)"
}

// versionIn returns the version of the tz database in a directory, or "unknown". Debian and
// most others have tzdata.zi, which begins with "# version 2025b"; macOS and FreeBSD have
// +VERSION.
func versionIn(dir string) string {
	for _, name := range []string{"tzdata.zi", "+VERSION"} {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		line, _, _ := strings.Cut(string(text), "\n")
		if version := strings.TrimPrefix(line, "# version "); version != "" && len(version) < 20 {
			return strings.TrimSpace(version)
		}
	}
	return "unknown"
}
