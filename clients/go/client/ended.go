package client

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"strings"
	"time"
)

// A How says how a job has ended.
type How string

// How a job has ended.
const (
	Done    How = "done"    // its holder has deleted it, or finished it with a result
	Deleted How = "deleted" // somebody else has
	Expired How = "expired"
	Died    How = "dead"   // it is a dead letter now, another job
	Moved   How = "moved"  // it was moved to another tube, where it is another job
	Parked  How = "parked" // it is buried: no end, but it does not go on by itself
)

// Ended is what became of a job. [Client.Wait] fills the first fields; [Client.Ended] and [Client.EndedJob] all.
type Ended struct {
	ID     uint64
	How    How
	Result []byte // of a job that is Done; empty if it has none
	Reason string // of a parked job, or of the last failure
	ToTube string // of a job that Died or was Moved: where it is now
	ToID   uint64 // the same: its id there

	Tube       string
	Key        string
	Group      string
	Batch      string
	Schedule   string
	Nominal    time.Time // the time of the schedule
	Meta       map[string]string
	Put        time.Time
	FirstStart time.Time // if the first delivery was the last; else zero
	At         time.Time // when it ended
	Until      time.Time // how long the record is kept
	Deliveries int
	Failures   int
	Holder     string // who held it at its end
}

// EndedJob returns the record of a job that has ended, or [ErrNotFound].
func (c *Client) EndedJob(ctx context.Context, id uint64) (*Ended, error) {
	reply, err := c.exec(ctx, Command{Line: fmt.Sprintf("stats-ended %d", id), Repeat: true, Needs: Results}, "OK")
	if err != nil {
		return nil, err
	}
	return parseRecord(parseMap(reply.Body)), nil
}

// Ended iterates over the records of the jobs of a tube that have ended, or of a batch if tube is "batch:NAME": the newest come
// first. After an error it ends.
func (c *Client) Ended(ctx context.Context, tube string) iter.Seq2[*Ended, error] {
	return func(yield func(*Ended, error) bool) {
		for cursor := ""; ; {
			line := strings.TrimSpace("list-ended " + tube + " 1000 " + cursor)
			reply, err := c.exec(ctx, Command{Line: line, Repeat: true, Needs: Results}, "OK")
			if err != nil {
				yield(nil, err)
				return
			}
			for line := range strings.Lines(string(reply.Body)) {
				entry, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "- ")
				if ok && !yield(parseRecord(parseFlow(entry)), nil) {
					return
				}
			}
			if cursor = parseMap(reply.Body)["next"]; cursor == "" {
				return
			}
		}
	}
}

func parseRecord(v values) *Ended {
	e := &Ended{
		ID: v.uint("id"), How: How(v["how"]), Reason: v["reason"], ToTube: v["to-tube"], ToID: v.uint("to-id"),
		Tube: v["tube"], Key: v["key"], Group: v["group"], Batch: v["batch"], Schedule: v["schedule"], Nominal: v.time("nominal-ms"),
		Meta: parseFlow(v["meta"]), Put: v.time("put-ms"), FirstStart: v.time("first-start-ms"), At: v.time("ended-ms"), Until: v.time("until-ms"),
		Deliveries: int(v.uint("deliveries")), Failures: int(v.uint("failures")), Holder: v["holder"],
	}
	e.Result, _ = base64.StdEncoding.DecodeString(v["result"])
	return e
}

// readEnded returns what the reply ENDED of wait-job says.
func readEnded(r *Reply) (*Ended, error) {
	e := new(Ended)
	if _, err := fmt.Sscan(r.Args, &e.ID, &e.How); err != nil {
		return nil, r.fail()
	}
	switch e.How {
	case Done:
		e.Result = r.Body
	case Parked:
		e.Reason = string(r.Body)
	case Died, Moved:
		if _, err := fmt.Sscan(string(r.Body), &e.ToTube, &e.ToID); err != nil {
			return nil, r.fail()
		}
	}
	return e, nil
}
