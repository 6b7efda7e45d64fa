package differ

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"redstalk/tools/conformance/transcript"
)

// TestPacketIsWhatWasSent: a packet of any bytes, printed and played, is the
// same bytes.
func TestPacketIsWhatWasSent(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	e := &episode{jobs: map[int]*job{3: {judge: 17}, 4: {judge: 18}}, byJudge: map[uint64]int{17: 3, 18: 4}}
	commands := []command{
		{line: "put 0 0 1 256", payload: "\r\n" + string(every) + "\r\n"},
		{line: "delete " + ref(3) + "x " + ref(4), payload: "\r\n"},
		{line: "peek 00" + ref(3), payload: "\r\n"},
		{line: "delete " + ref(5), payload: "\r\n"}, // never made
		{line: "", payload: "\r\n"},
		{line: " use $job {x*3} \\", payload: "\r\n"},
		{line: "put 0 0 1 90", payload: "\r\n" + string(bytes.Repeat([]byte("{"), 45)) + string(bytes.Repeat([]byte{0}, 45)) + "\r\n"},
		{line: "put 0 0 1 9", payload: "\r\n \r\n $a "},
	}
	w := &writer{e: e}
	w.WriteString("a> put\na< INSERTED $j3\na> put\na< INSERTED $j4\n\n")
	w.packet("a", commands)
	var want []byte
	for _, c := range commands {
		want = append(want, c.bytes(e.judgeID)...)
	}
	if got := played(t, w.String(), len(want)); !bytes.Equal(got, want) {
		t.Errorf("sent %q, want %q; the transcript is\n%s", got, want, w.String())
	}
}

// played returns what a transcript sends behind two puts, n bytes.
func played(t *testing.T, text string, n int) []byte {
	t.Helper()
	tr, err := transcript.Parse("packet", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	got := make(chan []byte, 1)
	target := transcript.Target{Kind: "beanstalkd", Dial: func() (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			puts := make([]byte, len("put\r\n"))
			for _, reply := range []string{"INSERTED 17\r\n", "INSERTED 18\r\n"} {
				io.ReadFull(theirs, puts)
				io.WriteString(theirs, reply)
			}
			sent := make([]byte, n)
			read, _ := io.ReadFull(theirs, sent)
			got <- sent[:read]
		}()
		return ours, nil
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := transcript.Play(ctx, tr, target); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return <-got
}

// TestSpoiltLength: no line with the id of a job is just as long as a line may be, as
// ids have different lengths on different servers.
func TestSpoiltLength(t *testing.T) {
	g, long := &generator{Rand: rand.New(rand.NewPCG(1, 2))}, 0
	for range 20_000 {
		line := g.malform("bury " + ref(24) + " 5")
		if n := len(line); n > lineMax-10 && n < lineMax+10 {
			t.Fatalf("%d bytes: %q", n, line)
		} else if n > lineMax {
			long++
		}
	}
	if long == 0 {
		t.Error("no line was too long")
	}
}
