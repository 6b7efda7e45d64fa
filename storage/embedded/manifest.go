package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
)

// manifest describes a backup. Its file is written last. The first line has the digest of the
// rest, which is JSON.
type manifest struct {
	Store  string         `json:"store"` // its path; "" in backups of versions before 0.3.0
	Made   time.Time      `json:"made"`
	LastID uint64         `json:"last_id"` // no larger id had been given out at that time
	Layout int            `json:"layout"`  // of the tables
	Files  []manifestFile `json:"files"`
}

// manifestFile is a file of a backup.
type manifestFile struct {
	Name   string `json:"name"` // below the directory of the backup, with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

const (
	manifestName   = "MANIFEST"
	manifestPrefix = "redstalk backup 1 sha256:"
)

// ErrNoManifest is in the chain of an error if a directory is no complete backup.
var ErrNoManifest = errors.New("it is no complete backup of redstalk")

// errDamaged is in the chain of an error if a file of a backup is not as it was written.
var errDamaged = errors.New("it is not as it was written")

func (m *manifest) summary() storage.Backup {
	b := storage.Backup{Files: len(m.Files), LastID: m.LastID}
	for i := range m.Files {
		b.Bytes += m.Files[i].Bytes
	}
	return b
}

// write writes the manifest into the directory of its backup.
func (m *manifest) write(fs vfs.FS, dir string) error {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return fmt.Errorf("encoding the manifest: %w", err)
	}
	text = append(text, '\n')
	f, err := fs.Create(fs.PathJoin(dir, manifestName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("creating the manifest: %w", err)
	}
	_, err = f.Write(append([]byte(manifestPrefix+digestOf(text)+"\n"), text...))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// readManifest reads the manifest of a backup.
func readManifest(fs vfs.FS, dir string) (*manifest, error) {
	path := fs.PathJoin(dir, manifestName)
	f, err := openRegular(fs, path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoManifest, err)
	}
	defer f.Close()
	all, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	first, text, _ := bytes.Cut(all, []byte{'\n'})
	m := new(manifest)
	if string(first) != manifestPrefix+digestOf(text) || json.Unmarshal(text, m) != nil {
		return nil, fmt.Errorf("reading %s: %w", path, errDamaged)
	}
	if err := tables.CheckLayout(m.Layout); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	for i := range m.Files {
		if name := filepath.FromSlash(m.Files[i].Name); !filepath.IsLocal(name) || strings.HasPrefix(name, manifestName) {
			return nil, fmt.Errorf("reading %s: %q is not the name of a file of a backup", path, name)
		}
	}
	return m, nil
}
