package differ

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	wire "redstalk/tools/conformance/answer"
)

// Server is a server process that a script is played on: fresh, empty, and
// not used by anyone else.
type Server struct {
	// Dial opens a connection that has a CloseWrite method.
	Dial func() (net.Conn, error)
	// Signal delivers a signal to the process.
	Signal func(os.Signal) error
	// Stop ends the process.
	Stop func()
}

// side is one of the two servers with its connections.
type side struct {
	name    string
	server  Server
	control net.Conn // for asking whether the server is idle
	answers *bufio.Reader
	probes  int // pages asked for there

	mu    sync.Mutex
	links map[int]*link
	news  chan struct{} // holds a token when something has come
}

// link is one connection. Its goroutine reads from it.
type link struct {
	side *side
	conn net.Conn
	done chan struct{}

	// guarded by side.mu
	buf     []byte
	replies []reply
	ended   bool
}

// reply is one answer: a line and, for data replies, what follows.
type reply struct {
	head string
	body string
	data bool
	at   time.Time // when it was complete
}

func newSide(name string, server Server) (*side, error) {
	s := &side{name: name, server: server, links: make(map[int]*link), news: make(chan struct{}, 1)}
	var err error
	if s.control, err = server.Dial(); err != nil {
		return nil, err
	}
	s.answers = bufio.NewReader(s.control)
	return s, nil
}

// stop ends the server and its connections.
func (s *side) stop() {
	s.control.Close()
	for _, l := range s.links {
		l.conn.Close()
		<-l.done
	}
	s.server.Stop()
}

func (s *side) open(id int) error {
	conn, err := s.server.Dial()
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	l := &link{side: s, conn: conn, done: make(chan struct{})}
	s.mu.Lock()
	s.links[id] = l
	s.mu.Unlock()
	go l.read()
	return nil
}

// drop ends a connection on our side.
func (s *side) drop(id int) {
	s.mu.Lock()
	l := s.links[id]
	delete(s.links, id)
	s.mu.Unlock()
	l.conn.Close()
	<-l.done
}

func (l *link) read() {
	defer close(l.done)
	chunk := make([]byte, 16<<10)
	for {
		n, err := l.conn.Read(chunk)
		l.side.mu.Lock()
		l.buf = append(l.buf, chunk[:n]...)
		l.cut()
		l.ended = err != nil
		l.side.mu.Unlock()
		select {
		case l.side.news <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// cut removes complete replies from buf.
func (l *link) cut() {
	for {
		r, n, err := wire.Cut(l.buf)
		if n == 0 {
			return
		}
		head := string(r.Head)
		if err != nil {
			head += " (no CRLF after the body)" // which will be found different
		}
		l.replies = append(l.replies, reply{head, string(r.Body), r.Data, time.Now()})
		l.buf = append([]byte(nil), l.buf[n:]...)
	}
}

// wait returns when something has arrived or the time is over.
func (s *side) wait(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.news:
	case <-timer.C:
	}
}

// received returns how many replies have arrived on a connection and whether it ended.
func (s *side) received(id int) (replies int, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.links[id]
	return len(l.replies), l.ended
}

// take removes the first n replies of a connection.
func (s *side) take(id, n int) []reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.links[id]
	taken := l.replies[:n:n]
	l.replies = l.replies[n:]
	return taken
}

// peek returns the replies that were not taken.
func (s *side) peek(id int) []reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]reply(nil), s.links[id].replies...)
}

// state is a part of a server's stats.
type state struct {
	waiting, connections int // without the control connection
	draining             bool
	counted              int // puts and reserves, also those that are not complete
}

// page requests the server's stats.
func (s *side) page() (page, error) {
	s.control.SetDeadline(time.Now().Add(probeLimit))
	s.probes++
	if _, err := io.WriteString(s.control, "stats\r\n"); err != nil {
		return page{}, fmt.Errorf("%s: %w", s.name, err)
	}
	r, err := wire.Read(s.answers)
	if err != nil {
		return page{}, fmt.Errorf("%s: %w", s.name, err)
	}
	if !r.Data {
		return page{}, fmt.Errorf("%s: stats is answered %q", s.name, r.Head)
	}
	return readPage(string(r.Body)), nil
}

// probe requests the server's state.
func (s *side) probe() (st state, err error) {
	page, err := s.page()
	if err != nil {
		return st, err
	}
	for _, l := range page.lines {
		switch l.key {
		case "current-waiting":
			st.waiting, _ = strconv.Atoi(l.value)
		case "current-connections":
			st.connections, _ = strconv.Atoi(l.value)
			st.connections--
		case "draining":
			st.draining = l.value == "true"
		case "cmd-put", "cmd-reserve", "cmd-reserve-with-timeout":
			n, _ := strconv.Atoi(l.value)
			st.counted += n
		}
	}
	return st, nil
}

// probeLimit is how long a stats page may take: longer than any stall of the machine.
const probeLimit = 5 * time.Minute

// write sends a packet, in fragments if there are cuts.
func (s *side) write(id int, data []byte, cuts []int) error {
	s.mu.Lock()
	conn := s.links[id].conn
	s.mu.Unlock()
	conn.SetWriteDeadline(time.Now().Add(probeLimit))
	for i, cut := range cuts {
		cut = min(len(data), cut%(len(data)+1))
		if cut == 0 {
			continue
		}
		if _, err := conn.Write(data[:cut]); err != nil {
			return err
		}
		data = data[cut:]
		if i < 8 {
			time.Sleep(fragmentPause)
		}
	}
	if len(data) == 0 {
		return nil
	}
	_, err := conn.Write(data)
	return err
}

// fragmentPause makes it likely that a server reads fragments one by one.
const fragmentPause = 200 * time.Microsecond

func (s *side) closeWrite(id int) error {
	s.mu.Lock()
	conn := s.links[id].conn
	s.mu.Unlock()
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return fmt.Errorf("%s: %T cannot be half-closed", s.name, conn)
}
