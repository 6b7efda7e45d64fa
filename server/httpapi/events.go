package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"redstalk/server/access"
	"redstalk/server/queue"
)

const (
	// sampleEvery is how often those who listen get counts.
	sampleEvery = time.Second

	// sampleLimit is how long the store may take for one sample.
	sampleLimit = 5 * time.Second

	// maxSampled is how many tubes there are in an event that is about all tubes.
	maxSampled = 1000

	// eventLimit is how long a client may take to read an event. Those that come
	// meanwhile are left out; who takes longer is cut off.
	eventLimit = 10 * time.Second
)

// eventsInput documents events.
type eventsInput struct {
	Tube []string `query:"tube,explode" maxItems:"1000" doc:"all tubes unless said"`
}

// eventsOutput documents the answer.
type eventsOutput struct {
	Body string `contentType:"text/event-stream"`
}

// sample is the counts of tubes at one time.
type sample struct {
	at    time.Time
	tubes map[string][]byte // a tubeInfo each, by name
	err   error             // why there are no counts

	// all is what those who listen to all tubes get: the first maxSampled, by name, of
	// those that the user may see. Who has come since is not in it.
	all map[*access.User][]string
}

// sampler looks at tubes once a second, while anybody listens, for all who do.
type sampler struct {
	queue *queue.Queue

	mu        sync.Mutex
	listeners map[*listener]struct{}
	stop      context.CancelFunc // ends the sampling; nil if nobody listens
}

// listener is a client that listens to events.
type listener struct {
	tubes []string     // nil: all
	user  *access.User // who may see only some of all; nil: all
	news  chan *sample // holds the last one that the client has not got
}

func newSampler(q *queue.Queue) *sampler {
	return &sampler{queue: q, listeners: make(map[*listener]struct{})}
}

// join adds a listener. The first one begins the sampling.
func (s *sampler) join(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l] = struct{}{}
	if s.stop == nil {
		var ctx context.Context
		ctx, s.stop = context.WithCancel(context.Background())
		go s.run(ctx)
	}
}

// leave takes a listener away. The last one ends the sampling.
func (s *sampler) leave(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	if len(s.listeners) == 0 {
		s.stop()
		s.stop = nil
	}
}

// run takes a sample now and then, until ctx ends.
func (s *sampler) run(ctx context.Context) {
	every := time.NewTicker(sampleEvery)
	defer every.Stop()
	for {
		s.hand(s.take(ctx))
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// wanted returns the tubes that somebody listens to by name, and the users who listen to all,
// without tubes yet.
func (s *sampler) wanted() (names []string, all map[*access.User][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all = make(map[*access.User][]string)
	for l := range s.listeners {
		if names = append(names, l.tubes...); l.tubes == nil {
			all[l.user] = nil
		}
	}
	return names, all
}

// take looks at the tubes that anybody wants.
func (s *sampler) take(ctx context.Context) *sample {
	ctx, cancel := context.WithTimeout(ctx, sampleLimit)
	defer cancel()
	taken := &sample{at: time.Now(), tubes: make(map[string][]byte)}
	names, all := s.wanted()
	if len(all) > 0 {
		there, err := s.queue.Tubes(ctx)
		if taken.err = err; err != nil {
			return taken
		}
		slices.Sort(there)
		for user := range all {
			its := visibleTo(user, there)
			all[user] = its[:min(len(its), maxSampled)]
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

// hand gives a sample to all who listen, in place of one that they have not taken yet.
func (s *sampler) hand(taken *sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		if _, known := taken.all[l.user]; l.tubes == nil && !known && taken.err == nil {
			continue // it has come meanwhile
		}
		select {
		case <-l.news:
		default:
		}
		l.news <- taken // has room: nobody else sends
	}
}

// event writes a sample as an event for a listener. A tube that there is not is left out.
func (s *sample) event(l *listener) []byte {
	if s.err != nil {
		p := problemOf(s.err)
		text, _ := json.Marshal(p) // strings and numbers have JSON
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

func (d *Door) events(w http.ResponseWriter, r *http.Request) {
	l, err := d.listen(r)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	s := d.openStream(w, r)
	if s == nil {
		return
	}
	defer s.end()
	d.sampler.join(l)
	defer d.sampler.leave(l)
	for err = s.begin(); err == nil; err = s.sendSample(l) {
	}
}

// listen returns who a request is from.
func (d *Door) listen(r *http.Request) (*listener, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("the query is broken: %v", err)
	}
	tubes, err := tubesIn(query)
	return &listener{tubes: tubes, user: access.UserIn(r.Context()), news: make(chan *sample, 1)}, err
}

// visibleTo returns the tubes that a user may see.
func visibleTo(u *access.User, names []string) []string {
	if u == nil {
		return names
	}
	return u.Visible(names, access.Read)
}

// sendSample waits for the next sample of a listener, and sends it.
func (s *stream) sendSample(l *listener) error {
	select {
	case <-s.ctx.Done():
		return s.ctx.Err()
	case taken := <-l.news:
		return s.send(taken.event(l))
	}
}
