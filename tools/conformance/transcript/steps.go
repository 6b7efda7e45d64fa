package transcript

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

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
			data = append(data, "\r\n"...)
		}
	}
	if err := p.awaitTurn(l.name); err != nil {
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
	if err := p.awaitTurn(anybody); err != nil {
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
	if err := p.awaitTurn(anybody); err != nil {
		return err
	}
	p.unanswered = ""
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
	if err := p.awaitTurn(anybody); err != nil {
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
				p.nameRacers(s, i)
				return nil
			}
		}
		if err := p.sleep(time.Millisecond); err != nil {
			return err
		}
	}
	return p.mismatch(s.base(), fmt.Sprintf("a reply on one of %v", s.conns), "none")
}

// nameRacers gives the winner the first name and the others theirs in order.
func (p *player) nameRacers(s *raceStep, winner int) {
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
