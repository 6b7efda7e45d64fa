package embedded

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/embedded/tables"
	"redstalk/storage/storetest"
)

// leasesOfData are the leases in the directories of testdata, by the layout.
var leasesOfData = map[int]uint64{1: 1795730901580636, 2: 1795901552808894}

// TestUpgrade opens the directories that released versions have written. After that the layout is the present one,
// which these refuse.
func TestUpgrade(t *testing.T) {
	for layout, version := range storetest.DataVersions {
		t.Run(version, func(t *testing.T) { openOlder(t, layout, version) })
	}
}

func openOlder(t *testing.T, layout int, version string) {
	dir := t.TempDir()
	unpack(t, "../../testdata/data-"+version+"/embedded.tar.gz", dir)
	before := contents(t, vfs.Default, dir, make(map[string]string))
	if jobs, left, faults := fsckOf(t, Options{Dir: dir}, false); jobs == 0 || left > 0 {
		t.Errorf("fsck finds %d jobs, and %q", jobs, faults)
	}
	if !maps.Equal(before, contents(t, vfs.Default, dir, make(map[string]string))) {
		t.Error("fsck has changed files")
	}
	var logged bytes.Buffer
	e, err := Open(Options{Dir: dir, FileSize: minFileSize, Log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	storetest.CheckData(t, waitingEngine{e}, layout, leasesOfData[layout])
	if is, err := e.journal.tables.Layout(); err != nil || is != tables.LayoutVersion {
		t.Errorf("after the upgrade the layout is %d, %v", is, err)
	}
	if !strings.Contains(logged.String(), "older versions of redstalk refuse it") {
		t.Errorf("the log says: %s", &logged)
	}
}

// TestPackageKnowsTheLayout: the package starts no version that upgrades the layout.
func TestPackageKnowsTheLayout(t *testing.T) {
	script, err := os.ReadFile("../../tools/packages/postinstall.sh")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\nLAYOUT=%d SINCE=", tables.LayoutVersion); !strings.Contains(string(script), want) {
		t.Errorf("postinstall.sh lacks %q: set it, and since which version", want)
	}
}

// unpack writes the files of a tar to a directory.
func unpack(t *testing.T, path, dir string) {
	t.Helper()
	packed, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	text, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(text); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o700)
		} else {
			var content []byte
			if content, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(to, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
