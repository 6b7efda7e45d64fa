package inspect

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"redstalk/clients/go/client"
)

// A State is the state of a job.
type State string

// The states of jobs.
const (
	Ready    State = "ready"
	Delayed  State = "delayed"
	Reserved State = "reserved"
	Buried   State = "buried"
)

// Job is a job in a list.
type Job struct {
	ID         uint64
	Priority   uint32
	Age        time.Duration
	Due        time.Duration // until it is due, or its TTR ends
	TTR        time.Duration
	Size       int // of its body, in bytes
	Key        string
	Group      string
	Held       string // why a ready job cannot be reserved now: concurrency, rate or paused; empty: it can
	Progress   string // how far its worker says that it is
	Checkpoint int    // its length in bytes; 0: none
}

// Job returns everything about a job.
func (in *Inspector) Job(ctx context.Context, id uint64) (*client.Stats, error) {
	return in.client.JobStats(ctx, id)
}

// Jobs iterates over the jobs of a tube in a state, in the order of delivery. It fetches them in pages; a job that
// moves meanwhile can be missed or come twice. After an error it ends.
func (in *Inspector) Jobs(ctx context.Context, tube string, state State) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		cursor := ""
		for {
			page, err := in.page(ctx, client.ListJobs, strings.TrimSpace(fmt.Sprintf("list-jobs %s %s 500 %s", tube, state, cursor)))
			if err != nil {
				yield(Job{}, err)
				return
			}
			for _, entry := range list(page) {
				if !yield(parseJob(entry), nil) {
					return
				}
			}
			if cursor = fields(page)["next"]; cursor == "" {
				return
			}
		}
	}
}

// parseJob reads a line of list-jobs: {id: 7, pri: 10, …, key: "k"}.
func parseJob(entry string) Job {
	f := flow(entry)
	return Job{
		ID: uint64(number(f["id"])), Priority: uint32(number(f["pri"])), Age: secs(f["age"]), TTR: secs(f["ttr"]),
		Due: time.Duration(number(f["due-ms"])) * time.Millisecond, Size: number(f["size"]), Key: f["key"], Group: f["group"], Held: f["held"],
		Progress: f["progress"], Checkpoint: int(number(f["checkpoint-bytes"])),
	}
}

// flow reads a dictionary in one line, without the quotes of values.
func flow(entry string) map[string]string {
	f := map[string]string{}
	for rest := strings.Trim(entry, "{}"); rest != ""; {
		var key, value string
		key, rest, _ = strings.Cut(rest, ": ")
		if end := quoted(rest); end > 0 {
			value, rest = rest[:end], strings.TrimPrefix(rest[end:], ", ")
		} else {
			value, rest, _ = strings.Cut(rest, ", ")
		}
		f[key] = unquote(value)
	}
	return f
}

// quoted returns the length of the quoted string at the front of s, or 0.
func quoted(s string) int {
	if s == "" || s[0] != '"' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// KickJob makes a buried or delayed job ready.
func (in *Inspector) KickJob(ctx context.Context, id uint64, opts ...KickOption) error {
	_, err := in.change(ctx, "KICKED", kick(client.Command{Line: fmt.Sprintf("kick-job %d", id)}, opts))
	return err
}

// Delete deletes a job that is not reserved.
func (in *Inspector) Delete(ctx context.Context, id uint64) error { return in.client.Delete(ctx, id) }

// Reschedule makes a ready or delayed job due after d, in milliseconds; 0 is at once.
func (in *Inspector) Reschedule(ctx context.Context, id uint64, d time.Duration) error {
	line := fmt.Sprintf("reschedule %d %dms", id, d.Milliseconds())
	_, err := in.change(ctx, "RESCHEDULED", client.Command{Line: line, Repeat: true, Needs: client.PutTags})
	return err
}

// SetPriority changes the priority of a job that is not reserved.
func (in *Inspector) SetPriority(ctx context.Context, id uint64, priority uint32) error {
	line := fmt.Sprintf("set-priority %d %d", id, priority)
	_, err := in.change(ctx, "UPDATED", client.Command{Line: line, Repeat: true, Needs: client.PutTags})
	return err
}

// Replay gives a job that has failed for good another chance: a dead letter goes back to the tube that it came from, where it
// gets a new id, and a buried job is kicked. Its failures and deliveries count from zero, by the same rules as after the put. A
// job that is neither is a [client.ErrNotFound].
func (in *Inspector) Replay(ctx context.Context, id uint64, opts ...KickOption) error {
	_, err := in.change(ctx, "REPLAYED", kick(client.Command{Line: fmt.Sprintf("replay-job %d", id), Needs: client.Replay}, opts))
	return err
}
