package transcript

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// A Target is the server a transcript is played on.
type Target struct {
	// Kind selects the `only` blocks: "redstalk", "beanstalkd-1.12", ...
	Kind string
	// Dial opens a connection to the server. For half-close the connection
	// needs a CloseWrite method, as TCP and unix connections have.
	Dial func() (net.Conn, error)
	// Signal delivers a signal to the server process, or does what the
	// signal would. Transcripts that signal fail if it is nil.
	Signal func(os.Signal) error
	// Slack is how late a timed reply may come; 50 ms if zero. Nothing may
	// come early, apart from a clock's granularity of 2 ms.
	Slack time.Duration
	// Patience is how long a reply without a time is waited for; 5 s if zero.
	Patience time.Duration
	// Tolerance is how much longer a timed transcript's steps may take than they
	// should, in all, before its play counts as late; 50 ms if zero. See LateError.
	Tolerance time.Duration
	// Settle is the pause before another connection sends when the server
	// may still be busy with the one before; 20 ms or a quarter of Slack,
	// whichever is more, if zero.
	Settle time.Duration
}

// granularity is how much a server's clock may differ from ours over a
// transcript without being early.
const granularity = 2 * time.Millisecond

func (t Target) withDefaults() Target {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&t.Slack, 50*time.Millisecond)
	set(&t.Patience, 5*time.Second)
	set(&t.Tolerance, 50*time.Millisecond)
	set(&t.Settle, max(20*time.Millisecond, t.Slack/4))
	return t
}

// A Mismatch is where the server left the script.
type Mismatch struct {
	File      string
	Line      int
	Want, Got string
	Log       string // the dialogue so far
}

// Error names file and line, what was expected, what came, and how the
// dialogue went.
func (m *Mismatch) Error() string {
	return fmt.Sprintf("%s:%d: want %s, got %s\n%s", m.File, m.Line, m.Want, m.Got, m.Log)
}

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

// A player is one performance of a transcript.
type player struct {
	ctx    context.Context
	t      *Transcript
	target Target
	links  map[string]*link
	alias  map[string]string // names given by race
	vars   vars
	marks  map[string]time.Time
	log    dialog
	// question is the step before, if that may be sent again.
	question *sendStep
	clock    clock
	// unsettled is the connection that has sent something and has no answer
	// yet, or anybody.
	unsettled string
}

// anybody is no connection's name.
const anybody = "*"

func newPlayer(ctx context.Context, t *Transcript, target Target) *player {
	return &player{
		ctx: ctx, t: t, target: target.withDefaults(),
		links: map[string]*link{}, alias: map[string]string{}, marks: map[string]time.Time{},
		vars: vars{byName: map[string]uint64{}},
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

// settle waits until the server must have seen what the connection before
// sent, and notes that this one is at it now.
func (p *player) settle(name string) error {
	before := p.unsettled
	p.unsettled = name
	if before == "" || before == name {
		return nil
	}
	return p.sleep(p.target.Settle)
}

func (s *sendStep) play(p *player) error {
	l, err := p.link(s.conn)
	if err != nil {
		return err
	}
	var data []byte
	for i, t := range s.texts {
		b, err := t.bytes(&p.vars)
		if err != nil {
			return err
		}
		data = append(data, b...)
		if s.lineup[i] {
			data = append(data, crlf...)
		}
	}
	if err := p.settle(l.name); err != nil {
		return err
	}
	p.log.add(time.Now(), s.conn, "> "+clip(data))
	l.lastSend = time.Now()
	if !s.slowly {
		return l.send(data, p.target.Patience)
	}
	for i := range data {
		if err := errors.Join(l.send(data[i:i+1], p.target.Patience), p.sleep(time.Millisecond/2)); err != nil {
			return err
		}
	}
	l.lastSend = time.Now()
	return nil
}

func (s *connStep) play(p *player) error {
	l, err := p.link(s.conn)
	if err != nil {
		return err
	}
	if err := p.settle(anybody); err != nil {
		return err
	}
	p.log.add(time.Now(), s.conn, s.verb)
	l.lastSend = time.Now()
	switch s.verb {
	case "halfclose":
		return l.closeWrite()
	case "reset":
		err = l.reset()
		l.close()
		delete(p.links, l.name)
	case "close":
		l.close()
		delete(p.links, l.name)
	}
	return err
}

func (s *waitStep) play(p *player) error {
	if s.mark == "" {
		return p.sleep(s.d)
	}
	from, ok := p.marks[s.mark]
	if !ok {
		return fmt.Errorf("no mark %s", s.mark)
	}
	return p.sleep(time.Until(from.Add(s.d)))
}

func (s *markStep) play(p *player) error {
	if err := p.settle(anybody); err != nil {
		return err
	}
	p.unsettled = ""
	p.marks[s.name] = time.Now()
	return nil
}

var signals = map[string]os.Signal{
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "PIPE": syscall.SIGPIPE, "HUP": syscall.SIGHUP,
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT,
}

func (s *signalStep) play(p *player) error {
	if p.target.Signal == nil {
		return errors.New("this target takes no signals")
	}
	if err := p.settle(anybody); err != nil {
		return err
	}
	p.log.add(time.Now(), "server", "signal "+s.name)
	return p.target.Signal(signals[s.name])
}

func (s *silentStep) play(p *player) error {
	if err := p.sleep(s.d); err != nil {
		return err
	}
	for _, name := range s.conns {
		l, err := p.link(name)
		if err != nil {
			return err
		}
		if b := l.unread(); len(b) > 0 {
			return p.mismatch(s.base(), fmt.Sprintf("%s silent for %v", name, s.d), clip(b))
		}
		if over, _ := l.ended(); over {
			return p.mismatch(s.base(), fmt.Sprintf("%s silent for %v", name, s.d), "its end")
		}
	}
	return nil
}

func (s *raceStep) play(p *player) error {
	p.clock.allow(p.target.Patience)
	deadline := time.Now().Add(p.target.Patience)
	for time.Now().Before(deadline) {
		for i, name := range s.conns {
			l, err := p.link(name)
			if err != nil {
				return err
			}
			if l.whole() {
				p.crown(s, i)
				return nil
			}
		}
		if err := p.sleep(time.Millisecond); err != nil {
			return err
		}
	}
	return p.mismatch(s.base(), fmt.Sprintf("a reply on one of %v", s.conns), "none")
}

// crown gives the winner the first name and the others theirs in order.
func (p *player) crown(s *raceStep, winner int) {
	names := s.names[1:]
	for i, c := range s.conns {
		if real, ok := p.alias[c]; ok {
			c = real
		}
		if i == winner {
			p.alias[s.names[0]] = c
			continue
		}
		p.alias[names[0]] = c
		names = names[1:]
	}
}

func (s *eofStep) play(p *player) error {
	l, err := p.link(s.conn)
	if err != nil {
		return err
	}
	due, err := p.due(l, s.when)
	if err != nil {
		return err
	}
	over := func() bool { end, _ := l.ended(); return end }
	if err := l.until(p.ctx, due.giveUp, over); err != nil {
		return err
	}
	if b := l.unread(); len(b) > 0 {
		return p.mismatch(s.base(), "the end of "+s.conn, clip(b))
	}
	end, at := l.ended()
	if !end {
		p.clock.allowUntil(due.giveUp)
		return p.mismatch(s.base(), "the end of "+s.conn, "nothing")
	}
	if miss := due.misses(at); miss != "" {
		return p.mismatch(s.base(), "the end of "+s.conn+" "+s.when.src, miss)
	}
	return nil
}
