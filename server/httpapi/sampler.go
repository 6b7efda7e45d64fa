package httpapi

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"redstalk/server/access"
	"redstalk/server/queue"
)

const (
	// sampleEvery is the time between two events of a stream.
	sampleEvery = time.Second

	// sampleLimit is the timeout of the store calls for one sample.
	sampleLimit = 5 * time.Second

	// maxSampled is the maximum number of tubes in an event about all tubes.
	maxSampled = 1000
)

// sampler polls tubes once a second for all subscribers of /v1/events, while there are any.
type sampler struct {
	queue *queue.Queue

	mu          sync.Mutex
	subscribers map[*subscriber]struct{}
	stop        context.CancelFunc // ends the sampling; nil if there are no subscribers
}

// subscriber is a client of /v1/events.
type subscriber struct {
	tubes   []string     // nil means all tubes
	user    *access.User // nil means that all tubes are visible
	updates chan *sample // holds the latest sample that was not sent yet
}

// sample has the counts of tubes at one time.
type sample struct {
	at    time.Time
	tubes map[string][]byte // the JSON of a tubeInfo, by name
	err   error             // why there are no counts

	// all has, for each user who subscribes to all tubes, the first maxSampled names that
	// the user may read. Users who subscribed after the sample began are not in it.
	all map[*access.User][]string
}

func newSampler(q *queue.Queue) *sampler {
	return &sampler{queue: q, subscribers: make(map[*subscriber]struct{})}
}

// subscribe adds a subscriber. The first one starts the sampling.
func (s *sampler) subscribe(l *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers[l] = struct{}{}
	if s.stop == nil {
		var ctx context.Context
		ctx, s.stop = context.WithCancel(context.Background())
		go s.run(ctx)
	}
}

// unsubscribe removes a subscriber. The last one stops the sampling.
func (s *sampler) unsubscribe(l *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribers, l)
	if len(s.subscribers) == 0 {
		s.stop()
		s.stop = nil
	}
}

// run takes a sample every sampleEvery until ctx ends.
func (s *sampler) run(ctx context.Context) {
	every := time.NewTicker(sampleEvery)
	defer every.Stop()
	for {
		s.deliver(s.takeSample(ctx))
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// wanted returns the tubes that are subscribed to by name, and the users who subscribe to all
// tubes as the keys of a map without values.
func (s *sampler) wanted() (names []string, all map[*access.User][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all = make(map[*access.User][]string)
	for l := range s.subscribers {
		if names = append(names, l.tubes...); l.tubes == nil {
			all[l.user] = nil
		}
	}
	return names, all
}

// takeSample polls all tubes that are subscribed to.
func (s *sampler) takeSample(ctx context.Context) *sample {
	ctx, cancel := context.WithTimeout(ctx, sampleLimit)
	defer cancel()
	taken := &sample{at: time.Now(), tubes: make(map[string][]byte)}
	names, all := s.wanted()
	if len(all) > 0 {
		existing, err := s.queue.Tubes(ctx)
		if taken.err = err; err != nil {
			return taken
		}
		slices.Sort(existing)
		for user := range all {
			visible := visibleTo(user, existing)
			all[user] = visible[:min(len(visible), maxSampled)]
			names = append(names, all[user]...)
		}
	}
	taken.all = all
	slices.Sort(names)
	stats, err := tubeStats(ctx, s.queue, slices.Compact(names))
	if taken.err = err; err != nil {
		return taken
	}
	for _, one := range stats {
		if text, err := json.Marshal(tubeInfoOf(one)); err == nil {
			taken.tubes[one.Name] = text
		}
	}
	return taken
}

// deliver passes a sample to all subscribers. It replaces one that they have not sent yet.
func (s *sampler) deliver(taken *sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.subscribers {
		if _, known := taken.all[l.user]; l.tubes == nil && !known && taken.err == nil {
			continue // it subscribed after the sample began
		}
		select {
		case <-l.updates:
		default:
		}
		l.updates <- taken // never blocks: only deliver sends
	}
}

// event returns the event of a sample for a subscriber. Tubes that do not exist are left out.
func (s *sample) event(l *subscriber) []byte {
	if s.err != nil {
		p := problemOf(s.err)
		text, _ := json.Marshal(p) // strings and numbers can always be encoded
		return append(append([]byte("event: problem\ndata: "), text...), "\n\n"...)
	}
	b := append([]byte("event: tubes\ndata: {\"at\":"), s.at.UTC().Format(`"2006-01-02T15:04:05.000Z"`)...)
	b = append(b, `,"tubes":[`...)
	names, empty := l.tubes, true
	if names == nil {
		names = s.all[l.user]
	}
	for _, name := range names {
		if info, ok := s.tubes[name]; ok {
			if !empty {
				b = append(b, ',')
			}
			b, empty = append(b, info...), false
		}
	}
	return append(b, "]}\n\n"...)
}
