package main

import (
	"time"

	"redstalk/server/access"
)

// watchInterval is how often it is checked whether files have changed.
const watchInterval = 2 * time.Second

// watchedFile is a file that is reread when it has changed: on Kubernetes a secret is replaced in its volume, and
// nobody can send a signal. The certificates do that by themselves.
type watchedFile struct {
	path   string
	reread func()

	current string // the stamp when it was last read
	last    string // the stamp at the last check
}

// watchedFiles returns the files that are watched. Their stamps are those of now, so it is called before the
// files are read.
func (p *program) watchedFiles() (files []*watchedFile) {
	for _, f := range []watchedFile{
		{path: p.guards.access, reread: func() { p.activeGuards.Load().reloadUsers(p.log) }},
		{path: p.pushes.secrets, reread: p.reloadPush},
	} {
		if f.path != "" {
			f.wasRead()
			files = append(files, &f)
		}
	}
	return files
}

// wasRead notes that the file as it is now was read.
func (f *watchedFile) wasRead() {
	f.current, _ = access.StampOf(f.path)
	f.last = f.current
}

// check rereads the file if it has changed and then stayed the same for one interval: it may be half written
// at the first check.
func (f *watchedFile) check() {
	stamp, found := access.StampOf(f.path)
	settled := stamp == f.last
	if f.last = stamp; found && settled && stamp != f.current {
		f.current = stamp
		f.reread()
	}
}
