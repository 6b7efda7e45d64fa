package transcript

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Play plays t on the server and returns nil if all went as written. A
// *Mismatch says where it did not, within a *LateError if the transcript is
// timed and was played late; other errors come from the connections or from
// ctx. The server must be fresh, started with the transcript's Flags.
func Play(ctx context.Context, t *Transcript, target Target) error {
	p := newPlayer(ctx, t, target)
	defer p.closeAll()
	for _, s := range t.steps {
		if !s.base().on(target.Kind) {
			continue
		}
		if err := p.run(s); err != nil {
			return p.blame(err)
		}
	}
	return p.blame(p.nothingLeft())
}

// A player is one play of a transcript.
type player struct {
	ctx    context.Context
	t      *Transcript
	target Target
	links  map[string]*link
	alias  map[string]string // names given by race
	vars   vars
	marks  map[string]time.Time
	log    dialog
	// question is the previous step, if that may be repeated.
	question *sendStep
	clock    clock
	// unanswered is the connection that has sent something and has no reply
	// yet, or anybody.
	unanswered string
}

// anybody is a value that is not the name of a connection.
const anybody = "*"

func newPlayer(ctx context.Context, t *Transcript, target Target) *player {
	return &player{
		ctx: ctx, t: t, target: target.withDefaults(),
		links: map[string]*link{}, alias: map[string]string{}, marks: map[string]time.Time{},
		vars: vars{byName: map[string]uint64{}, tokens: map[string]string{}},
		log:  dialog{start: time.Now()},
	}
}

// run plays one step; errors that are no Mismatch get file and line.
func (p *player) run(s step) error {
	p.clock.begin()
	err := s.play(p)
	p.clock.end()
	p.question, _ = s.(*sendStep)
	var m *Mismatch
	if err == nil || errors.As(err, &m) {
		return err
	}
	return fmt.Errorf("%s:%d: %w\n%s", p.t.Name, s.base().first, err, p.log.String())
}

func (p *player) closeAll() {
	for _, l := range p.links {
		l.close()
	}
}

// nothingLeft fails if a reply has come that no line expects.
func (p *player) nothingLeft() error {
	if err := p.sleep(5 * time.Millisecond); err != nil {
		return err
	}
	at := &place{first: len(p.t.lines)}
	for name, l := range p.links {
		if b := l.unread(); len(b) > 0 {
			return p.mismatch(at, "nothing more on "+name, clip(b))
		}
	}
	return nil
}

func (p *player) mismatch(at *place, want, got string) error {
	for name, l := range p.links {
		if b := l.unread(); len(b) > 0 {
			p.log.add(time.Now(), name, "unread "+clip(b))
		}
	}
	return &Mismatch{File: p.t.Name, Line: at.first, Want: want, Got: got, Log: p.log.String()}
}

func (p *player) sleep(d time.Duration) error {
	p.clock.allow(d)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

// link finds the connection of that name or alias and opens it if need be.
func (p *player) link(name string) (*link, error) {
	if real, ok := p.alias[name]; ok {
		name = real
	}
	if l, ok := p.links[name]; ok {
		return l, nil
	}
	conn, err := p.target.Dial()
	if err != nil {
		return nil, err
	}
	l := newLink(name, conn)
	p.links[name] = l
	return l, nil
}

// awaitTurn waits until the server must have read what the previous connection
// sent, and records that this one sends now.
func (p *player) awaitTurn(name string) error {
	before := p.unanswered
	p.unanswered = name
	if before == "" || before == name {
		return nil
	}
	return p.sleep(p.target.Pause)
}
