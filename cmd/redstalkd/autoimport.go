package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"redstalk/storage/beanstalkd"
	"redstalk/storage/embedded"
)

// If the directory of -b has a binlog of beanstalkd, the first start imports its jobs into a new store
// in a directory inside it. This and all later starts serve from that store. Until it is complete
// the new directory has another name. The binlog is not changed.
const (
	insideName     = "redstalk"
	siblingSuffix  = ".redstalk" // of the directory beside it, where earlier versions made the store
	unfinishedMark = ".importing"
	importedFrom   = "imported-from" // a file in the new directory: what the binlog was like, see fingerprint

	importedFromBad = "the binlog in %s is not what it was when its jobs were imported into %s: beanstalkd has written to it since. " +
		"Jobs that are finished in one of them may be waiting in the other. " +
		"Use --store embedded:%s to go on with the imported jobs, or move that directory away to import the binlog anew"
	importedFromNone = "%s exists, but was not made from the binlog in %s: use --store embedded:%s to serve its jobs, or remove it"
)

// noImportOption is the row of --no-import.
func (s *settings) noImportOption() *option {
	return &option{name: "no-import", set: setBool(&s.noImport),
		help: "do not import beanstalkd's binlog in the directory of -b into DIR/redstalk, but exit\nat once"}
}

// importAtStart selects the store for a directory with a beanstalkd binlog, and makes it at the first start.
func (p *program) importAtStart(ctx context.Context) error {
	dir, ok := strings.CutPrefix(p.engine.url, "embedded:")
	if !ok {
		return nil
	}
	has, err := beanstalkd.HasBinlog(dir)
	switch {
	case err != nil, has && p.noImport:
		return nil // an error occurs again when the store is opened
	case !has:
		p.warnParentBinlog(dir)
		return p.useImported()
	case embedded.Exists(dir):
		return failure(exitFailure, "%s has a binlog of beanstalkd and jobs of redstalk: "+
			"move the binlog to another directory, and run redstalkd import --from that one", dir)
	}
	store, err := p.importOnce(ctx, dir)
	if err == nil {
		p.engine.url = "embedded:" + store
	}
	return err
}

// useImported selects the store that an earlier start has made from the binlog in the directory, if there
// is one. The binlog may have been removed since.
func (s *settings) useImported() error {
	dir, ok := strings.CutPrefix(s.engine.url, "embedded:")
	if !ok {
		return nil
	}
	store, _, err := s.imported(dir)
	if err == nil && store != "" {
		s.engine.url = "embedded:" + store
	}
	return err
}

// refuseChanged fails if the store was made from the binlog in a directory, and beanstalkd has written
// to that since: jobs that are finished in the store would come back.
func (s *settings) refuseChanged(dir string) error {
	if err := s.useImported(); err != nil {
		return err
	}
	store, from, err := s.imported(dir)
	if err != nil || store == "" {
		return err
	}
	made, err := os.Stat(store)
	if err != nil {
		return failure(exitFailure, "looking for jobs of the binlog in %s that were imported: %w", dir, err)
	}
	target, err := os.Stat(strings.TrimPrefix(s.engine.url, "embedded:"))
	if err != nil || !os.SameFile(made, target) { // a new store, or none of the embedded engine
		return nil
	}
	return unchanged(dir, store, from)
}

// warnParentBinlog logs a warning if a new store is made in a subdirectory of a beanstalkd binlog, whose
// jobs are then not imported.
func (p *program) warnParentBinlog(dir string) {
	path, err := filepath.Abs(dir)
	if err != nil || p.noImport || embedded.Exists(dir) {
		return
	}
	above := filepath.Dir(path)
	if has, err := beanstalkd.HasBinlog(above); err == nil && has {
		p.log.Warn("the directory above the new store has a binlog of beanstalkd, whose jobs are not imported: use -b with that directory, or redstalkd import",
			"binlog", above, "store", dir)
	}
}

// imported returns the store that was made from the binlog in a directory, and the binlog's fingerprint
// at that time; "" if there is none.
func (s *settings) imported(dir string) (store, from string, err error) {
	inside, beside := filepath.Join(dir, insideName), filepath.Clean(dir)+siblingSuffix
	for _, store := range []string{inside, beside} {
		text, err := os.ReadFile(filepath.Join(store, importedFrom))
		own := embedded.Exists(dir)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR), own && (err != nil || store == beside):
			continue
		case err != nil:
			return "", "", failure(exitFailure, "looking for jobs of the binlog in %s that were imported: %w", dir, err)
		case own:
			return "", "", failure(exitFailure, "both %s and %s have jobs of redstalk: move one of them elsewhere", dir, inside)
		case store == beside:
			s.engine.log.Warn("the store is beside the directory of the binlog, where an earlier version made it: stop the server and move it inside",
				"from", beside, "to", inside)
		}
		return store, string(text), nil
	}
	return "", "", nil
}

// importOnce returns the store that was made from the binlog in a directory, and makes it if there is
// none.
func (p *program) importOnce(ctx context.Context, dir string) (store string, err error) {
	lock, err := lockImport(dir)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	store, from, err := p.imported(dir)
	if err != nil {
		return "", err
	}
	if store != "" {
		if err := unchanged(dir, store, from); err != nil {
			return "", err
		}
		p.log.Info("the jobs of a binlog of beanstalkd were imported earlier", "binlog", dir, "store", store)
		return store, p.lockOutBeanstalkd(dir)
	}
	store = filepath.Join(dir, insideName)
	syscall.Rmdir(store) // succeeds if it is empty: somebody has made it for the jobs
	if _, err := os.Lstat(store); err == nil {
		return "", failure(exitFailure, importedFromNone, store, dir, store)
	}
	if err := p.importInto(ctx, dir, store); err != nil {
		return "", err
	}
	return store, p.lockOutBeanstalkd(dir)
}

// lockOutBeanstalkd takes beanstalkd's own lock until the process ends: a beanstalkd that is started
// there would hand out the imported jobs once more.
func (p *program) lockOutBeanstalkd(dir string) (err error) {
	if p.binlogLock, err = beanstalkd.Lock(dir); errors.Is(err, beanstalkd.ErrLocked) {
		return failure(exitLocked, "%w", err)
	}
	return err
}

// lockImport takes an exclusive lock on the directory of a binlog, so that one process at a time
// imports it. beanstalkd's own lock does not exclude them: importing processes share it.
func lockImport(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, failure(exitFailure, "reading the binlog in %s: %w", dir, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) { // any other error means that the file system has no locks
		f.Close()
		return nil, failure(exitLocked, "importing the binlog in %s: %w", dir, embedded.ErrLocked)
	}
	return f, nil
}

// importInto makes a store from the binlog in a directory. It removes the remains of an interrupted
// import: beanstalkd may have written to its binlog since.
func (p *program) importInto(ctx context.Context, dir, store string) error {
	l, err := readBinlog(dir, newProgress(nil), func(line string) { p.log.Warn(line) })
	if err != nil {
		return err
	}
	defer l.Close()
	making := store + unfinishedMark
	var r beanstalkd.Result
	if err = os.RemoveAll(making); err == nil {
		r, err = p.fill(ctx, making, l)
	}
	if err == nil {
		err = finish(dir, making, store)
	}
	if err != nil {
		os.RemoveAll(making) // frees the disk space
		return failure(exitFailure, "importing the binlog in %s into %s: %w", dir, making, err)
	}
	p.log.Warn("the jobs of a binlog of beanstalkd are imported; the old files stay as they are, and are not used any more",
		"jobs", r.Jobs, "damaged", len(l.Damage), "binlog", dir, "store", store)
	return nil
}

// fill imports a binlog into a new store.
func (p *program) fill(ctx context.Context, making string, l *beanstalkd.Binlog) (r beanstalkd.Result, err error) {
	e := p.engine
	e.url = "embedded:" + making
	store, err := p.open(ctx, e)
	if err != nil {
		return r, err
	}
	store.Listen(nopListener{})
	r, err = beanstalkd.Import(ctx, store, l, func(int) {})
	return r, errors.Join(err, store.Close())
}

// finish renames a complete store to its final name. The binlog cannot have changed since it was read.
func finish(dir, making, store string) error {
	files, err := fingerprint(dir, false)
	if err != nil {
		return err
	}
	contents, err := fingerprint(dir, true)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(making, importedFrom), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(files + contents)
	if err = errors.Join(err, f.Sync(), f.Close(), syncPath(making)); err != nil {
		return err
	}
	if err := os.Rename(making, store); err != nil {
		return err
	}
	return syncPath(dir)
}

// syncPath makes the names in a directory durable.
func syncPath(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// unchanged fails if a binlog is not what it was when a store was made from it. from is what finish
// wrote then.
func unchanged(dir, store, from string) error {
	files, contents, _ := strings.Cut(from, "\n")
	now, err := fingerprint(dir, false)
	if err == nil && now != files+"\n" { // perhaps a copy, whose files have other times
		now, err = fingerprint(dir, true)
		if err == nil && now != contents {
			return failure(exitFailure, importedFromBad, dir, store, store)
		}
	}
	if err != nil {
		return failure(exitFailure, "reading the binlog in %s: %w", dir, err)
	}
	return nil
}

// fingerprint returns a hash of the names of the files of a binlog and, if contents is set, of what is
// in them; otherwise of their sizes and times, which it can tell without reading them. Both change
// when beanstalkd writes to the binlog.
func fingerprint(dir string, contents bool) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, e := range entries {
		if _, ok := beanstalkd.FileNumber(e.Name()); !ok {
			continue
		}
		info, err := e.Info()
		if err == nil && contents {
			fmt.Fprintln(sum, e.Name(), info.Size())
			err = addContents(sum, filepath.Join(dir, e.Name()))
		}
		if err != nil {
			return "", err
		}
		if !contents {
			fmt.Fprintln(sum, e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(sum.Sum(nil)) + "\n", nil
}

// addContents adds what is in a file to a hash.
func addContents(sum io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(sum, f)
	return errors.Join(err, f.Close())
}
