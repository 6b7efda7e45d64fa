package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redstalk/storage"
)

// wantInfo checks a job with its info, whose header begins with begin.
func (c *client) wantInfo(begin, body, info string) {
	c.h.Helper()
	line := <-c.lines
	if end := fmt.Sprintf(" %d %d", len(body), len(info)); !strings.HasPrefix(line, begin+" ") || !strings.HasSuffix(line, end) {
		c.h.Fatalf("got %q, want %s…%s", line, begin, end)
	}
	c.want(body, info)
}

// TestInfo: with the word info, each job comes with what a worker wants to know of it.
func TestInfo(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.send("use mail", "watch mail")
		c.want("USING mail", "WATCHING 2")
		c.send("put 7 0 60 5 key:a\"b\r\nhello", "put 8 0 90 0\r\n")
		c.want("INSERTED 1", "INSERTED 2")
		time.Sleep(3 * time.Second)
		first := `{"tube":"mail","pri":7,"ttr":60,"age":3,"deliveries":1,"failures":0,"key":"a\"b"}`
		second := `{"tube":"mail","pri":8,"ttr":90,"age":3,"deliveries":1,"failures":0}`
		reserved := time.Now()
		c.send("reserve-batch 10 lease info")
		c.want("RESERVED_BATCH 2")
		c.wantInfo("LEASED 1", "hello", first)
		c.wantInfo("LEASED 2", "", second)
		time.Sleep(100 * time.Second)
		c.send("reserve-lease 0 info", "reserve-batch 10 info", "reserve-batch 10 info", "list-tube-used")
		later := func(info string, failed time.Time) string {
			was := strings.NewReplacer(`"age":3`, `"age":103`, `"deliveries":1,"failures":0`, `"deliveries":2,"failures":1`).Replace(info)
			return fmt.Sprintf(`%s,"reason":"ttr","failed-ms":%[2]d,"attempts":[{"ended-ms":%[2]d,"how":"timed-out","reason":"ttr"}]}`, strings.TrimSuffix(was, "}"), failed.UnixMilli())
		}
		c.wantInfo("LEASED 1", "hello", later(first, reserved.Add(60*time.Second)))
		c.want("RESERVED_BATCH 1")
		c.wantInfo("RESERVED 2", "", later(second, reserved.Add(90*time.Second)))
		c.want("RESERVED_BATCH 0", "USING mail")
		c.send("delete 2", "reserve-lease 0 info")
		c.want("DELETED", "TIMED_OUT")
	})
}

// TestInfoOfNotes: the info has what the job was put with, and its last reason.
func TestInfoOfNotes(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.send("client w")
		c.want("NAMED")
		c.send(`put 7 0 60 1 retry:0s,1h keep:2m meta:b="x\n\"" meta:a=1 trace:00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`+"\r\nx", "reserve", `release 1 7 0 reason:"no such user"`)
		c.want("INSERTED 1", "RESERVED 1 1", "x", "RELEASED")
		failed := time.Now().UnixMilli()
		c.send("reserve-batch 1 info")
		c.want("RESERVED_BATCH 1")
		c.wantInfo("RESERVED 1", "x", `{"tube":"default","pri":7,"ttr":60,"age":0,"deliveries":2,"failures":1,"retry":"0s,1h","keep":"2m","meta":{"a":"1","b":"x\n\""},`+
			`"trace":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","reason":"no such user","failed-ms":`+fmt.Sprint(failed)+
			`,"attempts":[{"ended-ms":`+fmt.Sprint(failed)+`,"how":"released","holder":"w","reason":"no such user"}]}`)
	})
}

// TestInfoOfGoneJob: a job that is deleted while its info is read comes with an empty one.
func TestInfoOfGoneJob(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.send("put 0 0 60 1\r\nx")
		c.want("INSERTED 1")
		h.store.set(func(p *proxyStore) {
			p.onDo = func(b *storage.Batch) {
				op := &b.Ops[0]
				if op.Info = false; op.Kind == storage.JobStats { // so the store answers takes without info
					op.ID = 99
				}
			}
		})
		c.send("reserve-lease 5 info")
		c.wantInfo("LEASED 1", "x", "{}")
		h.store.set(func(p *proxyStore) { p.onDo = nil })
	})
}
