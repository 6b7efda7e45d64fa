package migrate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// TestRevealWithoutRoom: a copy stays hidden while the target has no room for its checkpoint, so that no worker begins without it.
func TestRevealWithoutRoom(t *testing.T) {
	t.Parallel()
	for _, state := range []State{Ready, Delayed, Buried} {
		addr, given := fullServer(t)
		h, err := NewRemote(dial(t, addr))
		if err != nil {
			t.Fatal(err)
		}
		err = h.Reveal(context.Background(), 5, &Job{State: state, Pri: 7, Due: time.Now().Add(time.Minute), Checkpoint: []byte("row 500")})
		h.Close()
		if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || refusal.Word != "OUT_OF_MEMORY" {
			t.Errorf("%s: %v", state, err)
		}
		want := fmt.Sprintf("release 5 7 %d failure:no\n", int64(HideFor/time.Second))
		if got := <-given; got != want {
			t.Errorf("%s: the copy is given back by %q, want %q", state, got, want)
		}
	}
}

// fullServer starts a redstalk, as far as Reveal needs one, that has no room for checkpoints. When its connection has ended, given gets the commands by
// which jobs became something else than reserved.
func fullServer(t *testing.T) (addr string, given <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	all := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var back strings.Builder
		for in := bufio.NewScanner(conn); in.Scan(); {
			switch line := in.Text(); first(line) {
			case "capabilities":
				page := "- put-tags\n- list-jobs\n- checkpoint\n"
				fmt.Fprintf(conn, "OK %d\r\n%s\r\n", len(page), page)
			case "reserve-job":
				fmt.Fprint(conn, "RESERVED 5 0\r\n\r\n")
			case "checkpoint":
				in.Scan()
				fmt.Fprint(conn, "OUT_OF_MEMORY\r\n")
			default:
				fmt.Fprintln(&back, line)
				fmt.Fprint(conn, map[string]string{"release": "RELEASED", "bury": "BURIED"}[first(line)], "\r\n")
			}
		}
		all <- back.String()
	}()
	return l.Addr().String(), all
}
