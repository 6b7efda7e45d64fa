package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// play expects one reply. If the command may be repeated, it repeats
// it until the reply is right or Patience is over.
func (e *expectStep) play(p *player) error {
	q := p.question
	err := e.receive(p)
	if q == nil || !q.again || q.conn != e.conn {
		return err
	}
	p.clock.allow(p.target.Patience)
	var m *Mismatch
	for end := time.Now().Add(p.target.Patience); errors.As(err, &m) && time.Now().Before(end); err = e.receive(p) {
		if err := p.sleep(10 * time.Millisecond); err != nil {
			return err
		}
		if err := q.play(p); err != nil {
			return err
		}
	}
	return err
}

// receive takes the next reply and compares it.
func (e *expectStep) receive(p *player) error {
	r, d, err := e.await(p)
	if err != nil {
		return err
	}
	if miss := e.compare(p, r); miss != "" {
		return p.mismatch(e.base(), e.String(), r.String()+miss)
	}
	if miss := d.misses(r.at); miss != "" {
		return p.mismatch(e.base(), e.String(), miss)
	}
	return nil
}

// await takes the next reply on the connection; if there is none, the error is a Mismatch.
func (e *expectStep) await(p *player) (reply, due, error) {
	l, err := p.link(e.conn)
	if err != nil {
		return reply{}, due{}, err
	}
	d, err := p.due(l, e.when)
	if err != nil {
		return reply{}, d, err
	}
	if err := l.until(p.ctx, d.giveUp, l.whole); err != nil {
		return reply{}, d, err
	}
	r, ok, err := l.take()
	switch over, _ := l.ended(); {
	case err != nil:
		return r, d, p.mismatch(e.base(), e.String(), err.Error())
	case !ok && over:
		return r, d, p.mismatch(e.base(), e.String(), "the end of the connection")
	case !ok:
		p.clock.allowUntil(d.giveUp)
		return r, d, p.mismatch(e.base(), e.String(), "nothing")
	}
	p.log.add(r.at, e.conn, "< "+r.String())
	if p.unanswered == l.name {
		p.unanswered = ""
	}
	return r, d, nil
}

// String is the expectation as written.
func (e *expectStep) String() string {
	var b strings.Builder
	if e.when != nil {
		b.WriteString(e.when.src + " ")
	}
	switch e.form {
	case formLine:
		b.WriteString(e.head.src)
	case formBody:
		b.WriteString(e.head.src + " / " + e.body.src)
	case formList:
		b.WriteString("OK list " + strings.Join(e.list, " "))
	case formSet:
		b.WriteString("OK set " + strings.Join(e.list, " "))
	case formWith:
		b.WriteString("OK with " + joinKeys(e.keys))
	case formPage:
		b.WriteString("OK page " + joinKeys(e.keys))
	}
	return b.String()
}

func joinKeys(keys []keyed) string {
	var parts []string
	for _, k := range keys {
		parts = append(parts, k.key+": "+k.value.src)
	}
	return strings.Join(parts, ", ")
}

// compare explains how r differs from the expectation;
// it returns "" if they agree, and then binds the variables.
func (e *expectStep) compare(p *player, r reply) string {
	switch e.form {
	case formLine, formBody:
		return e.comparePlain(p, r)
	case formList, formSet:
		return e.compareList(r)
	}
	page, err := parsePage(r)
	if err != nil {
		return ": " + err.Error()
	}
	if e.form == formPage {
		return e.comparePage(p, page)
	}
	for _, k := range e.keys {
		i := slices.IndexFunc(page, func(l pageLine) bool { return l.key == k.key })
		if i < 0 {
			return ": no key " + k.key
		}
		if !k.accepts(page[i], &p.vars) {
			return fmt.Sprintf(": %s is %s", k.key, page[i].value)
		}
	}
	return ""
}

const differs = " (differs)"

func (e *expectStep) comparePlain(p *player, r reply) string {
	bind := map[string]uint64{}
	if !e.head.match(r.Head, &p.vars, bind) || r.Data != (e.form == formBody) {
		return differs
	}
	if r.Data && !e.body.match(r.Body, &p.vars, nil) {
		return differs
	}
	return p.bind(bind, r)
}

// bind gives new variables their ids. Only a put's reply may do so, and the
// id must be greater than all before.
func (p *player) bind(bind map[string]uint64, r reply) string {
	for name, id := range bind {
		word, _, _ := bytes.Cut(r.Head, []byte(" "))
		if string(word) != "INSERTED" && string(word) != "BURIED" {
			return ": $" + name + " has no value yet"
		}
		if id <= p.vars.max {
			return fmt.Sprintf(": id %d is not greater than %d", id, p.vars.max)
		}
		p.vars.max, p.vars.byName[name] = id, id
	}
	return ""
}

func (e *expectStep) compareList(r reply) string {
	names, err := parseList(r)
	if err != nil {
		return ": " + err.Error()
	}
	want := slices.Clone(e.list)
	if e.form == formSet {
		slices.Sort(want)
		slices.Sort(names)
	}
	if !slices.Equal(want, names) {
		return differs
	}
	return ""
}

func (e *expectStep) comparePage(p *player, page []pageLine) string {
	for i, k := range e.keys {
		switch {
		case i >= len(page):
			return ": no key " + k.key
		case page[i].key != k.key:
			return fmt.Sprintf(": key %d is %s instead of %s", i+1, page[i].key, k.key)
		case !k.accepts(page[i], &p.vars):
			return fmt.Sprintf(": %s is %s", k.key, page[i].value)
		}
	}
	return ""
}

// accepts compares a value, as it is or without its quotes.
func (k keyed) accepts(l pageLine, v *vars) bool {
	return k.value.match([]byte(l.value), v, nil) || k.value.match([]byte(unquote(l.value)), v, nil)
}
