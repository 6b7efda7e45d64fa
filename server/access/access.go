package access

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"redstalk/storage/telemetry"
)

// Access knows the users. All methods may be called from any goroutine.
type Access struct {
	path     string
	log      *slog.Logger
	key      [32]byte // of digests
	file     atomic.Pointer[file]
	guesses  *guesses
	flights  flights
	turns    turns // of comparisons
	failures telemetry.Log

	ctx  context.Context
	stop context.CancelFunc

	mu       sync.Mutex // guards what follows
	accounts map[string]*account
	watchers []func()
	changed  chan struct{} // closed when another file takes the place of the present one
}

// Open reads a file of users. Its errors hold nothing of it but names.
func Open(path string, log *slog.Logger) (*Access, error) {
	a := &Access{
		path: path, log: log, guesses: newGuesses(), accounts: make(map[string]*account), changed: make(chan struct{}),
		turns:   turns{free: max(1, runtime.NumCPU()/2)}, // the rest is the queue's
		flights: flights{all: make(map[question]*flight)},
	}
	rand.Read(a.key[:]) // never fails, see crypto/rand
	a.ctx, a.stop = context.WithCancel(context.Background())
	f, err := a.read()
	if err != nil {
		return nil, err
	}
	a.file.Store(f)
	return a, nil
}

func (a *Access) read() (*file, error) {
	text, err := ReadSecrets(a.path, a.log)
	var f *file
	if err == nil {
		f, err = parseFile(text, a.accountOf)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the users in %s: %w", a.path, err)
	}
	return f, nil
}

// accountOf returns the account of a user, by name.
func (a *Access) accountOf(name string) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.accounts[name] == nil {
		a.accounts[name] = new(account)
	}
	return a.accounts[name]
}

// Close ends all attempts to come in.
func (a *Access) Close() { a.stop() }

// Reload reads the file again. If it is faulty, nothing changes.
func (a *Access) Reload() error {
	f, err := a.read()
	if err != nil {
		return err
	}
	a.file.Store(f)
	a.log.Info("the users were read again", "file", a.path, "users", len(f.users))
	a.mu.Lock()
	watchers := slices.Clone(a.watchers)
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
	for _, changed := range watchers {
		changed()
	}
	return nil
}

// OnChange has changed called whenever another file has taken the place of the last one.
func (a *Access) OnChange(changed func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watchers = append(a.watchers, changed)
}

// untilChange returns what is closed when another file takes the place of the present one.
func (a *Access) untilChange() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// Anonymous returns the user that those are who have not said who they are. It has no
// rights unless the file says so.
func (a *Access) Anonymous() *User { return a.file.Load().anonymous }

// Certified returns the login of the user whom a certificate names, nil if there is none.
func (a *Access) Certified(name string) *Login {
	if u := a.file.Load().users[name]; u != nil && name != anonymous {
		return &Login{User: u}
	}
	return nil
}

// Renew returns what has become of a login in the present file: nil if the user is gone,
// or the secret with which it came in.
func (a *Access) Renew(l *Login) *Login {
	u := a.file.Load().users[l.User.name]
	switch {
	case u == l.User:
		return l
	case u == nil:
		return nil
	case l.hash != "" && !slices.ContainsFunc(u.secrets, func(h hash) bool { return h.text == l.hash }):
		return nil
	}
	return &Login{u, l.hash}
}
