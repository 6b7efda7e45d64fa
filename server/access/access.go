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

	"redstalk/server/sight"
	"redstalk/storage/telemetry"
)

// Access has the users of the current file of users. All methods are safe for concurrent use.
type Access struct {
	path        string
	redaction   *sight.Redaction
	log         *slog.Logger
	key         [32]byte // the key of digests
	file        atomic.Pointer[file]
	guesses     *guessLimiter
	flights     flights
	comparisons semaphore // limits concurrent comparisons of secrets
	failures    telemetry.Throttle

	ctx  context.Context
	stop context.CancelFunc

	mu       sync.Mutex // guards the fields below
	accounts map[string]*account
	watchers []func()
	changed  chan struct{} // closed when another file replaces the current one
}

// Open reads a file of users, for whom a redaction applies, which can be nil. Its errors quote only names of users.
func Open(path string, redaction *sight.Redaction, log *slog.Logger) (*Access, error) {
	a := &Access{
		path: path, redaction: redaction, log: log, guesses: newGuessLimiter(), accounts: make(map[string]*account), changed: make(chan struct{}),
		comparisons: semaphore{free: max(1, runtime.NumCPU()/2)}, // the rest is for the queue
		flights:     flights{all: make(map[flightKey]*flight)},
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
	f.anonymous.redaction = a.redaction
	for _, u := range f.users {
		u.redaction = a.redaction
	}
	return f, nil
}

// accountOf returns the account of a user.
func (a *Access) accountOf(name string) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.accounts[name] == nil {
		a.accounts[name] = new(account)
	}
	return a.accounts[name]
}

// Close ends all login attempts.
func (a *Access) Close() { a.stop() }

// Reload reads the file again. If it is invalid, nothing changes.
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

// OnChange registers a function that is called after each change of the file of users.
func (a *Access) OnChange(changed func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watchers = append(a.watchers, changed)
}

// untilChange returns a channel that is closed when another file replaces the current one.
func (a *Access) untilChange() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// Anonymous returns the user of unauthenticated clients. It has no rights unless the file
// gives it some.
func (a *Access) Anonymous() *User { return a.file.Load().anonymous }

// Certified returns the login of the user that a certificate names, or nil if there is no such
// user.
func (a *Access) Certified(name string) *Login {
	if u := a.file.Load().users[name]; u != nil && name != anonymous {
		return &Login{User: u}
	}
	return nil
}

// Renew returns the login in the current file that corresponds to l. It is nil if the file no
// longer has the user, or the secret with which it logged in.
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
