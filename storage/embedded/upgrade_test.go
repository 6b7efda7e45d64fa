package embedded

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"redstalk/storage/embedded/tables"
	"redstalk/storage/storetest"
)

// leaseOfData is the lease in testdata/data-0.1.0/embedded.tar.gz.
const leaseOfData = 1795730901580636

// TestUpgrade opens a directory that 0.1.0 has written. After that the layout is the present one,
// which 0.1.0 refuses.
func TestUpgrade(t *testing.T) {
	dir := t.TempDir()
	unpack(t, "../../testdata/data-0.1.0/embedded.tar.gz", dir)
	e, err := Open(Options{Dir: dir, FileSize: minFileSize, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	storetest.CheckData(t, waitingEngine{e}, leaseOfData)
	if is, err := e.journal.tables.Layout(); err != nil || is != tables.LayoutVersion {
		t.Errorf("after the upgrade the layout is %d, %v", is, err)
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
