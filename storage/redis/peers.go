package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/lua"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// Instances ask each other questions by messages, which arrive between the wake-ups. A message
// is MARK KIND NUMBER SENDER TEXT, with spaces; no tube has such a name. Nothing is sent unless
// somebody asks.

const (
	questionKind = schema.MessageMark + "q"
	answerKind   = schema.MessageMark + "a"

	// answeredAtOnce limits the questions that an instance answers at the same time. Others are
	// dropped: who asks names this instance as one that did not answer.
	answeredAtOnce = 8
)

// messageScript sends a message.
var messageScript = lua.Load("message.lua")

// errSilent: an instance that was asked does not answer.
var errSilent = errors.New("it does not answer")

// questions are those of this instance that wait for answers. It is safe for concurrent use.
type questions struct {
	mu        sync.Mutex
	open      map[string]chan storage.PeerAnswer // by number
	answering chan struct{}                      // holds one element for each question being answered
}

func newQuestions() *questions {
	return &questions{open: make(map[string]chan storage.PeerAnswer), answering: make(chan struct{}, answeredAtOnce)}
}

// begin returns a number for a question to at most n instances, and the channel of the answers.
func (q *questions) begin(n int) (number string, answers chan storage.PeerAnswer) {
	number, answers = rand.Text(), make(chan storage.PeerAnswer, n)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open[number] = answers
	return number, answers
}

func (q *questions) end(number string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, number)
}

// answered passes an answer on to who has asked, if that still waits.
func (q *questions) answered(number string, a storage.PeerAnswer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case q.open[number] <- a:
	default:
	}
}

// receiveMessage handles what has come between the wake-ups. It returns false if it is a wake-up.
func (p *partition) receiveMessage(text string) bool {
	if !strings.HasPrefix(text, schema.MessageMark) {
		return false
	}
	if ids, ok := strings.CutPrefix(text, schema.EndedMessage); ok {
		p.jobsEnded(ids)
		return true
	}
	words := strings.SplitN(text, " ", 4)
	switch {
	case len(words) < 4:
	case words[0] == answerKind:
		p.questions.answered(words[1], storage.PeerAnswer{Peer: words[2], Answered: true, Text: words[3]})
	case words[0] == questionKind:
		select {
		case p.questions.answering <- struct{}{}:
			go p.answerQuestion(words[1], words[2], words[3])
		default:
		}
	}
	return true
}

// answerQuestion answers a question of another instance.
func (p *partition) answerQuestion(number, sender, text string) {
	defer func() { <-p.questions.answering }()
	listener, ok := p.listener.(storage.PeerListener)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.options.attempt())
	defer cancel()
	if _, err := p.sendMessage(ctx, answerKind, number, listener.Answer(text), sender); err != nil {
		p.log.Debug("an answer to another instance could not be sent", "err", p.pool.Redact(err))
	}
}

// sendMessage sends a message to instances, and returns the names of those that Redis knows.
func (p *partition) sendMessage(ctx context.Context, kind, number, text string, to ...string) ([]string, error) {
	node, err := p.pool.Node(ctx, p.prefix)
	if err != nil {
		return nil, err
	}
	args := []any{strings.Join([]string{kind, number, p.instance.name(), text}, " ")}
	for _, name := range to {
		args = append(args, name)
	}
	reached, err := node.Run(ctx, messageScript(), []string{p.prefix}, args...).Texts()
	if err != nil {
		return nil, fmt.Errorf("sending a message to other instances: %w", p.pool.Redact(err))
	}
	return reached, nil
}

// askInstances sends a question to instances, and collects the answers until all have come, or ctx ends.
func (p *partition) askInstances(ctx context.Context, text string, of ...string) (map[string]storage.PeerAnswer, error) {
	number, answers := p.questions.begin(len(of))
	defer p.questions.end(number)
	reached, err := p.sendMessage(ctx, questionKind, number, text, of...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]storage.PeerAnswer)
	for len(all) < len(reached) {
		select {
		case a := <-answers:
			all[a.Peer] = a
		case <-ctx.Done():
			return all, nil
		}
	}
	return all, nil
}

// Peer implements storage.PeerStore. An instance is called as in the first partition.
func (s *Store) Peer() string { return s.parts[0].instance.name() }

// AskPeers implements storage.PeerStore.
func (s *Store) AskPeers(ctx context.Context, from, question string) ([]storage.PeerAnswer, error) {
	instances, err := s.readInstances(ctx)
	if err != nil {
		return nil, err
	}
	var all []storage.PeerAnswer
	var alive []string
	for _, i := range instances {
		if i.Own || i.Name < from {
			continue
		}
		all = append(all, storage.PeerAnswer{Peer: i.Name})
		if i.SinceContact < schema.HeartbeatTimeout {
			alive = append(alive, i.Name)
		}
	}
	if len(alive) == 0 {
		return all, nil
	}
	answers, err := s.parts[0].askInstances(ctx, question, alive...)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if a, ok := answers[all[i].Peer]; ok {
			all[i] = a
		}
	}
	return all, nil
}

// AskPeer implements storage.PeerStore.
func (s *Store) AskPeer(ctx context.Context, peer, question string) (string, error) {
	return s.parts[0].askInstance(ctx, question, peer)
}

// AskHolder implements storage.PeerStore.
func (s *Store) AskHolder(ctx context.Context, job *tube.JobStats, question string) (string, error) {
	return s.parts[job.ID%uint64(len(s.parts))].askInstance(ctx, question, job.HeldAt)
}

// askInstance is askInstances for one of them.
func (p *partition) askInstance(ctx context.Context, text, of string) (string, error) {
	answers, err := p.askInstances(ctx, text, of)
	if err != nil {
		return "", err
	}
	a, ok := answers[of]
	switch {
	case ok:
		return a.Text, nil
	case ctx.Err() == nil: // the message has reached nobody
		return "", storage.ErrNoPeer
	}
	return "", errSilent
}

// heldPatience limits how long HeldBy waits for calls under way, which can take long while Redis
// fails.
const heldPatience = 300 * time.Millisecond

// HeldBy implements storage.HolderStore.
func (s *Store) HeldBy(holders []tube.Holder, first int) []storage.Held {
	parts := make(chan []storage.Held, len(s.parts))
	for _, p := range s.parts {
		once := sync.Once{}
		collect := func(*call) { // that is run by the caller, to whom the holdings belong
			once.Do(func() { parts <- p.holdings.listHeld(holders, first) })
		}
		go p.submit(&unit{background: collect}) // it can make the calls of others, too
	}
	all, late := make([]storage.Held, len(holders)), time.After(heldPatience)
	for range s.parts {
		select {
		case held := <-parts:
			for i := range held {
				all[i].Count += held[i].Count
				all[i].First = append(all[i].First, held[i].First[:min(len(held[i].First), first-len(all[i].First))]...)
			}
		case <-late:
			return nil
		}
	}
	return all
}

// listHeld is HeldBy in one partition.
func (hs *holdings) listHeld(holders []tube.Holder, first int) []storage.Held {
	all := make([]storage.Held, len(holders))
	for i, h := range holders {
		all[i].Count = hs.countOf(h)
		for _, r := range hs.firstOf(h, first) {
			all[i].First = append(all[i].First, r.id)
		}
	}
	return all
}
