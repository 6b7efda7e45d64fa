package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"redstalk/storage/binlog"
	"redstalk/storage/transfer"
)

// A directory of -b that has a binlog of beanstalkd is not served from: at the first start its jobs
// are imported into a directory beside it, and that one is served from, then and later. While that
// is made it has another name, so it is whole if it is there. The binlog stays as it is.
const (
	besideSuffix    = ".redstalk"
	unfinishedMark  = ".importing"
	importedFrom    = "imported-from" // file in the new directory: what the binlog was like
	importedFromBad = "the binlog in %s is not what it was when its jobs were imported into %s: beanstalkd has gone on with it. " +
		"Say --store embedded:%s to serve the jobs that are there, or redstalkd import to bring those of the binlog as well"
	importedFromNone = "%s is there, but not made of the binlog in %s: say --store embedded:%s to serve the jobs that are there, or remove it: %w"
)

// noImportOption is the row of --no-import.
func (s *settings) noImportOption() *option {
	return &option{name: "no-import", set: setBool(&s.noImport),
		help: "do not import the jobs of beanstalkd's binlog in the directory of -b into DIR.redstalk,\nbut end at once"}
}

// moveIn sees to it that the store is not a binlog.
func (p *program) moveIn(ctx context.Context) error {
	dir, is := strings.CutPrefix(p.engine.url, "embedded:")
	if !is || p.noImport {
		return nil
	}
	if has, err := binlog.In(dir); err != nil || !has {
		return nil // an error shows again when the store is opened
	}
	beside := filepath.Clean(dir) + besideSuffix
	print, err := fingerprint(dir)
	if err != nil {
		return failure(exitFailure, "reading the binlog in %s: %w", dir, err)
	}
	p.engine.url = "embedded:" + beside
	os.Remove(beside) // if it is empty: somebody has made it for the jobs
	was, err := os.ReadFile(filepath.Join(beside, importedFrom))
	switch _, statErr := os.Stat(beside); {
	case err == nil && string(was) == print:
		p.log.Info("the jobs of a binlog of beanstalkd were imported earlier", "binlog", dir, "store", beside)
		return nil
	case err == nil:
		return failure(exitFailure, importedFromBad, dir, beside, beside)
	case statErr == nil:
		return failure(exitFailure, importedFromNone, beside, dir, beside, err)
	}
	return p.importBeside(ctx, dir, beside, print)
}

// importBeside imports the binlog in a directory into a new one.
func (p *program) importBeside(ctx context.Context, dir, beside, print string) error {
	say := func(line string) { p.log.Warn(line) }
	l, err := readBinlog(dir, newProgress(nil), say)
	if err != nil {
		return err
	}
	defer l.Close()
	making := p.engine
	making.url = "embedded:" + beside + unfinishedMark
	r, err := p.fill(ctx, making, l)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return failure(exitFailure, "importing the binlog in %s into %s%s: %w", dir, beside, unfinishedMark, err)
	}
	if err := finish(beside, print); err != nil {
		return failure(exitFailure, "importing the binlog in %s: %w", dir, err)
	}
	p.log.Warn("the jobs of a binlog of beanstalkd are imported; the old files stay as they are, and are not used any more",
		"jobs", r.Jobs+r.Before, "damaged", len(l.Damage), "binlog", dir, "store", beside)
	return nil
}

// fill imports a binlog into a store, which it opens and closes.
func (p *program) fill(ctx context.Context, e engine, l *binlog.Log) (r transfer.Result, err error) {
	store, err := p.open(ctx, e)
	if err != nil {
		return r, err
	}
	store.Listen(nobody{})
	r, err = transfer.Import(ctx, store, l, func(int) {})
	return r, errors.Join(err, store.Close())
}

// finish gives a directory that is whole its name, for good.
func finish(beside, print string) error {
	making := beside + unfinishedMark
	f, err := os.Create(filepath.Join(making, importedFrom))
	if err != nil {
		return err
	}
	_, err = f.WriteString(print)
	if err = errors.Join(err, f.Sync(), f.Close(), syncPath(making)); err != nil {
		return err
	}
	return errors.Join(os.Rename(making, beside), syncPath(filepath.Dir(beside)))
}

// syncPath has the names in a directory survive a power cut.
func syncPath(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// fingerprint changes if beanstalkd goes on with a binlog. It does not read the files.
func fingerprint(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, e := range entries {
		if _, is := binlog.Is(e.Name()); !is {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, e.Name(), info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(sum.Sum(nil)) + "\n", nil
}
