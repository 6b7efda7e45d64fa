package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has who may do what, if there is a file of users. Who asks is found out for each
// request, and is in its context from then on. What the row of an operation says of tubes is
// checked before its handler runs; what only the handler knows, such as a second tube, it
// asks for itself.

// rights has the rights of the table as package access has them.
var rights = map[Right]access.Right{Put: access.Put, Work: access.Work, Read: access.Read, Admin: access.Admin}

// handlerRights are what other handlers need on every tube, by their paths. Those that are
// not here need nothing.
var handlerRights = map[string]access.Right{"/metrics": access.Read}

// identify finds out who sends a request. It answers the request if that is refused, and
// returns nil then.
func (d *Door) identify(w http.ResponseWriter, r *http.Request) *http.Request {
	if d.config.Access == nil {
		return r
	}
	era := d.present() // before the user: who is of the file of before is of that era, too
	u, err := d.config.Access.RequestUser(r)
	if err != nil {
		refuse(w, r, u, err)
		return nil
	}
	return r.WithContext(context.WithValue(access.WithUser(r.Context(), u), eraKey{}, era))
}

// consoleScheme is named to the console instead of access.Challenge, for which a browser
// would show a window of its own. The console asks for a user by itself.
const (
	consoleScheme = `Console realm="redstalk"`
	consoleHeader = "console" // value of changeHeader
)

// refuse answers who is not known, or may not do something.
func refuse(w http.ResponseWriter, r *http.Request, u *access.User, err error) {
	status := access.Status(u, err)
	p := newProblem(status, wordForbidden, "the user has not the right to do this")
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", access.Challenge)
		if r.Header.Get(changeHeader) == consoleHeader {
			w.Header().Set("WWW-Authenticate", consoleScheme)
		}
		p = newProblem(status, wordUnauthorized, "the user or the secret is wrong or missing")
	case http.StatusTooManyRequests:
		p = tooMany("too many attempts to come in wait already")
	}
	p.Write(w)
}

// mayCall tells whether the user of a request may do what a row does. It answers the request
// if not.
func (d *Door) mayCall(w http.ResponseWriter, r *http.Request, row *row) bool {
	u := access.UserIn(r.Context())
	if u == nil || u.Everywhere()&rights[row.Right] != 0 {
		return true
	}
	switch err := d.lacks(r, row, u); {
	case err == nil:
		return true
	case errors.Is(err, errForbidden):
		refuse(w, r, u, nil)
	default:
		d.fail(w, r, err)
	}
	return false
}

// errForbidden says that a user lacks a right.
var errForbidden = errors.New("forbidden")

// lacks returns errForbidden if a user who may not do the same everywhere may not do it with
// the tubes that a request names.
func (d *Door) lacks(r *http.Request, row *row, u *access.User) error {
	need := rights[row.Right]
	switch row.Tube {
	case InPath:
		return lack(u, need, r.PathValue("tube"))
	case InQuery:
		query, _ := url.ParseQuery(r.URL.RawQuery) // was checked before
		names := query["tube"]
		switch {
		case len(names) == 0 && row.Right == Read:
			return lackAll(u, need) // the others are left out
		case len(names) == 0:
			names = []string{tube.Default}
		}
		return lack(u, need, names...)
	case OfJob:
		if r.PathValue("id") == "" {
			return lackAny(u) // the ids are in the body
		}
		id, err := readID(r)
		if err != nil {
			return err
		}
		return d.lackOnJob(r.Context(), u, need, id)
	case Listed:
		return lackAll(u, need)
	}
	if row.Right == Read {
		return lackAll(u, need)
	}
	return errForbidden // it is for those who may everywhere
}

// lack returns errForbidden if the user has not the right on each of the tubes.
func lack(u *access.User, need access.Right, names ...string) error {
	for _, name := range names {
		if u.On(name)&need == 0 {
			return errForbidden
		}
	}
	return nil
}

// lackAll returns errForbidden if the user has the right nowhere.
func lackAll(u *access.User, need access.Right) error {
	if u.Anywhere()&need == 0 {
		return errForbidden
	}
	return nil
}

// lackAny returns errForbidden if the user has no right at all.
func lackAny(u *access.User) error { return lackAll(u, access.All) }

// lackOnJob is lack for the tube of a job. A job of a tube on which the user has no right at
// all is not found.
func (d *Door) lackOnJob(ctx context.Context, u *access.User, need access.Right, id uint64) error {
	if err := lackAny(u); err != nil {
		return err
	}
	s, err := d.queue.JobStats(ctx, id)
	if err != nil {
		return err
	}
	return lackIn(u, need, s.Tube)
}

func lackIn(u *access.User, need access.Right, name string) error {
	switch has := u.On(name); {
	case has == access.Nothing:
		return queue.ErrNotFound
	case has&need == 0:
		return errForbidden
	}
	return nil
}

// forbidden is the problem that the user lacks a right that only the handler knows of.
func forbidden() *problem {
	return newProblem(http.StatusForbidden, wordForbidden, "the user has not the right to do this")
}

// checkOther returns an error if the user may not do something with the other tube of an
// operation, "" being none.
func checkOther(ctx context.Context, need Right, name string) error {
	if u := access.UserIn(ctx); u != nil && name != "" && u.On(name)&rights[need] == 0 {
		return forbidden()
	}
	return nil
}

// checkRedirect returns an error if the user may not have the jobs of a tube go to another one,
// or out of the server ("").
func checkRedirect(ctx context.Context, from, to string) error {
	if u := access.UserIn(ctx); u != nil && !u.MayRedirect(from, to) {
		return forbidden()
	}
	return nil
}

// checkPut returns an error if the user may not put such a job, or has put too much.
func checkPut(ctx context.Context, op *storage.Op) error {
	u := access.UserIn(ctx)
	if u == nil {
		return nil
	}
	if op.Args != nil && op.Args.Tags != nil {
		if err := checkOther(ctx, Put, op.Args.Tags.Dead); err != nil {
			return err
		}
	}
	if !u.MayPut(len(op.Body)) {
		return tooMany("the user has put more than the limits allow")
	}
	return nil
}

// checkMoves takes down which jobs of a batch the user may not finish.
func (d *Door) checkMoves(ctx context.Context, all []one) error {
	u := access.UserIn(ctx)
	if u == nil || u.Everywhere()&access.Work != 0 {
		return nil
	}
	var lookups []storage.Op
	for i := range all {
		if all[i].err == nil {
			lookups = append(lookups, storage.Op{Kind: storage.JobStats, ID: all[i].op.ID})
		}
	}
	if len(lookups) == 0 {
		return nil
	}
	answers, err := d.queue.Do(ctx, lookups...)
	if err != nil {
		return err
	}
	next := 0
	for i := range all {
		if all[i].err != nil {
			continue
		}
		a := &answers[next]
		next++
		if all[i].err = answerError(a); all[i].err != nil {
			continue
		}
		if all[i].err = lackIn(u, access.Work, a.Job.Tube); errors.Is(all[i].err, errForbidden) {
			all[i].err = forbidden()
		}
	}
	return nil
}

// visible returns those of several tubes that the user of a request may see.
func visible(ctx context.Context, names []string) []string {
	if u := access.UserIn(ctx); u != nil {
		return slices.Clone(u.Visible(names, access.Read))
	}
	return names
}

// errChanged ends requests that wait or listen when the file of users has changed: their
// clients ask again, if they still may.
var errChanged = errors.New("the users have changed")

// eraKey is the key of the era in the context of a request.
type eraKey struct{}

// present returns a context that ends with the present file of users.
func (d *Door) present() context.Context {
	d.eraMu.Lock()
	defer d.eraMu.Unlock()
	return d.era
}

// newEra ends what waits or listens.
func (d *Door) newEra() {
	d.eraMu.Lock()
	defer d.eraMu.Unlock()
	if d.endEra != nil {
		d.endEra(errChanged)
	}
	d.era, d.endEra = context.WithCancelCause(context.Background())
}

// untilChange returns a context that ends with that of a request, and when the file of users changes: then
// with the cause errChanged. end must be called.
func untilChange(ctx context.Context) (_ context.Context, end func()) {
	era, ok := ctx.Value(eraKey{}).(context.Context)
	if !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(era, func() { cancel(errChanged) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// mayAct returns an error if the user has not the right admin on the tube of a job.
func (d *Door) mayAct(ctx context.Context, id uint64) error {
	u := access.UserIn(ctx)
	if u == nil || u.Everywhere()&access.Admin != 0 {
		return nil
	}
	return d.lackOnJob(ctx, u, access.Admin, id)
}

// problemOfAct tells whether an error concerns more than the one job of an action.
func problemOfAct(err error) bool {
	return err != nil && !errors.Is(err, queue.ErrNotFound) && !errors.Is(err, errForbidden)
}
