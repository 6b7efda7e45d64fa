package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"redstalk/storage"
	"redstalk/tube"
)

// TakeBack takes a reserved job back from whoever holds it, on any server, as at the end of its TTR: it counts as a timeout, and its rules
// decide what becomes of it. Its holder has lost it when TakeBack returns. The record of the attempt has the reason. It returns ErrNotFound
// if nobody holds the job.
func (q *Queue) TakeBack(ctx context.Context, id uint64, reason string) error {
	elsewhere, err := q.takeBackHere(ctx, id, reason)
	if elsewhere == "" {
		return err
	}
	job := &tube.JobStats{ID: id, HeldAt: elsewhere}
	return q.request(ctx, elsewhere, question{TakeBack: id, Reason: reason}, func(ctx context.Context, peers storage.PeerStore, text string) (string, error) {
		return peers.AskHolder(ctx, job, text)
	})
}

// TakenBackBy returns the reason of a job that a user has taken back; "" is nobody by name.
func TakenBackBy(user string) string {
	if user == "" {
		return "taken back"
	}
	return "taken back by " + user
}

// takeBackHere takes a job back from its lease, or from a connection of this server. If a connection of another server holds it, it
// returns the name of that one, as the part of the store that has the job calls it.
func (q *Queue) takeBackHere(ctx context.Context, id uint64, reason string) (elsewhere string, err error) {
	a, err := q.doOne(ctx, storage.Op{
		Kind: storage.Move, Move: tube.Expire, ID: id, Args: &storage.Args{By: q.nameHolderOf(ctx, id), Reason: reason},
	})
	if errors.Is(err, ErrNotFound) && a.Result != nil {
		elsewhere, _, _ = strings.Cut(a.Result.Elsewhere, " ")
	}
	return elsewhere, err
}

// nameHolderOf returns under which name a job is held, for its record; "" if that is not known.
func (q *Queue) nameHolderOf(ctx context.Context, id uint64) string {
	job, err := q.JobStats(ctx, id)
	if err != nil || job.HeldAt != "" {
		return ""
	}
	holder, err := q.HolderOf(ctx, job)
	if err != nil || holder == nil {
		return ""
	}
	if holder.Name == "" {
		return HolderName(holder.User)
	}
	return HolderName(holder.Name)
}

// Hung returns jobs that are held for much longer than their TTR, as tube.IsHung says, in the order of their ids: at most tube.MaxListed, of
// tubes of which shows is true.
func (q *Queue) Hung(ctx context.Context, shows func(tube string) bool) ([]tube.JobStats, error) {
	var all []tube.JobStats
	for skip := 0; ; {
		a, err := q.doOne(ctx, storage.Op{Kind: storage.ListHung, MaxJobs: tube.MaxListed, Args: &storage.Args{Skip: skip}})
		if err != nil {
			return nil, err
		}
		if a.Count > 0 { // the same page has others now
			continue
		}
		for _, j := range a.Result.Jobs {
			if shows(j.Tube) {
				all = append(all, j)
			}
		}
		if len(a.Result.Jobs) < tube.MaxListed || len(all) >= tube.MaxListed {
			break
		}
		skip += tube.MaxListed
	}
	slices.SortFunc(all, func(a, b tube.JobStats) int { return cmp.Compare(a.ID, b.ID) })
	all = slices.CompactFunc(all, func(a, b tube.JobStats) bool { return a.ID == b.ID }) // one was touched between two pages
	return all[:min(len(all), tube.MaxListed)], nil
}

// CloseClient closes a connection of a server that shares the store, as if its client had left: what it holds becomes ready, and that
// counts as no failure. instance is the name of the server; "" is this one. It returns ErrNotFound if there is no such connection.
func (q *Queue) CloseClient(ctx context.Context, instance string, id tube.Holder) error {
	if q.IsHere(instance) {
		return q.closeHere(id)
	}
	err := q.request(ctx, instance, question{Close: id}, func(ctx context.Context, peers storage.PeerStore, text string) (string, error) {
		return peers.AskPeer(ctx, instance, text)
	})
	if errors.Is(err, storage.ErrNoPeer) {
		return ErrNotFound
	}
	return err
}

// IsHere reports whether an instance is this server, which also has the name "".
func (q *Queue) IsHere(instance string) bool { return instance == "" || instance == q.peer() }

// closeHere closes a connection of this server.
func (q *Queue) closeHere(id tube.Holder) error {
	q.clients.mu.Lock()
	sources := q.clients.sources
	q.clients.mu.Unlock()
	for _, source := range sources {
		if source.CloseClient(id) {
			return nil
		}
	}
	return ErrNotFound
}

// PeerError is why another server has not done what was asked of it.
type PeerError struct {
	Peer string
	err  error
}

func (e *PeerError) Error() string { return fmt.Sprintf("the instance %s: %v", e.Peer, e.err) }
func (e *PeerError) Unwrap() error { return e.err }

// peerOutcome is what a server answers that was asked to do something. One of an earlier version answers an empty one.
type peerOutcome struct {
	Done     bool   `json:"done,omitempty"`
	NotFound bool   `json:"not-found,omitempty"`
	Failure  string `json:"failure,omitempty"`
}

func peerOutcomeOf(err error) peerOutcome {
	switch {
	case err == nil:
		return peerOutcome{Done: true}
	case errors.Is(err, ErrNotFound):
		return peerOutcome{NotFound: true}
	}
	return peerOutcome{Failure: err.Error()}
}

// answerTakeBack takes a job back for another server.
func (q *Queue) answerTakeBack(id uint64, reason string) peerOutcome {
	ctx, cancel := context.WithTimeout(context.Background(), PeerPatience)
	defer cancel()
	_, err := q.takeBackHere(ctx, id, reason)
	return peerOutcomeOf(err)
}

// request asks another server to do something. Errors other than ErrNotFound are PeerErrors.
func (q *Queue) request(ctx context.Context, peer string, what question, ask func(context.Context, storage.PeerStore, string) (string, error)) error {
	peers, ok := q.store.(storage.PeerStore)
	if !ok {
		return ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, PeerPatience)
	defer cancel()
	text, err := ask(ctx, peers, what.text())
	if err != nil {
		return &PeerError{peer, err}
	}
	var done peerOutcome
	switch err := json.Unmarshal([]byte(text), &done); {
	case err != nil:
		return &PeerError{peer, fmt.Errorf("its answer cannot be read: %w", err)}
	case done.Done:
		return nil
	case done.NotFound:
		return ErrNotFound
	case done.Failure != "":
		return &PeerError{peer, errors.New(done.Failure)}
	}
	return &PeerError{peer, errors.New("it is of a version that cannot do this")}
}
