package main

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol"
)

func batchesCommand() *cli.Command {
	return &cli.Command{
		Name: "batches", Action: withConn(noArguments, batches),
		Usage:       "list the batches: sets of jobs, their members, after which other jobs run (extension batches)",
		Description: "WAITING is how many jobs wait for the batch, FAILED how many are buried because of it.",
	}
}

func batchCommand() *cli.Command {
	return &cli.Command{
		Name: "batch", ArgsUsage: "NAME | seal|cancel|members NAME", Action: withConn(arguments{1, 2}, batch),
		Usage: "show a batch and the jobs after it, say that it gets no more members, delete its members that are not reserved, or list its members (extension batches)",
		Description: "put --batch puts members, and put --after and --after-all jobs that run after them. They begin when the batch is sealed and its members have ended. " +
			"cancel seals the batch, too; it asks first. A batch that has ended, and has no jobs any more, is forgotten by it: the name is free.",
		Flags: []cli.Flag{yesFlag()},
	}
}

// batchStats is a batch as the server shows it.
type batchStats struct {
	Name        string     `json:"name"`
	State       string     `json:"state"`
	Sealed      bool       `json:"sealed"`
	Total       uint64     `json:"total"`
	Pending     uint64     `json:"pending"`
	Parked      uint64     `json:"parked"`
	Done        uint64     `json:"done"`
	Gone        uint64     `json:"gone"`
	AfterHeld   uint64     `json:"after-held" yaml:"after-held"`
	AfterFailed uint64     `json:"after-failed" yaml:"after-failed"`
	Age         int64      `json:"age"` // seconds
	TTLMs       int64      `json:"ttl-ms" yaml:"ttl-ms"`
	After       []afterJob `json:"after,omitempty"` // the first ones; not in a list
}

// afterJob is a job after a batch.
type afterJob struct {
	ID    uint64 `json:"id"`
	Tube  string `json:"tube"`
	State string `json:"state"`
	All   bool   `json:"all"`
	Batch string `json:"batch,omitempty"` // of which it is a member
}

func batches(t *task) error {
	if err := t.require("batches", "batches"); err != nil {
		return err
	}
	b := &table{head: []string{"BATCH", "STATE", "AGE", "TOTAL", "PENDING", "PARKED", "DONE", "GONE", "WAITING", "FAILED"}, left: 2}
	return printListed(t, b, "listing batches", "list-batches", "batches", func(s *batchStats) (any, []string) {
		return s, []string{
			s.Name, s.State, formatSeconds(s.Age), grouped(s.Total), grouped(s.Pending), grouped(s.Parked), grouped(s.Done), grouped(s.Gone),
			grouped(s.AfterHeld), grouped(s.AfterFailed),
		}
	})
}

// batchActions are the first arguments of the command if there are two.
var batchActions = map[string]func(t *task, name string) error{"seal": sealBatch, "cancel": cancelBatch, "members": listMembers}

func batch(t *task) error {
	name, do := t.Args().First(), showBatch
	if t.NArg() == 2 {
		if name, do = t.Args().Get(1), batchActions[t.Args().First()]; do == nil {
			return usage("batch needs NAME, or seal, cancel or members and NAME, not %q", t.Args().First())
		}
	}
	if !protocol.ValidBatch(name) {
		return usage("%q is not the name of a batch: 1 to %d printable ASCII characters without spaces", name, protocol.MaxBatchName)
	}
	if err := t.require("batches", "batch"); err != nil {
		return err
	}
	return do(t, name)
}

// batchNamed returns what the server knows of a batch.
func (t *task) batchNamed(name string) (s batchStats, err error) {
	return s, t.yamlPage("reading batch "+name, "stats-batch "+name, &s)
}

func showBatch(t *task, name string) error {
	s, err := t.batchNamed(name)
	if err != nil {
		return err
	}
	return t.result(s, func(w io.Writer) error {
		b := &table{head: []string{"BATCH", s.Name}, left: 2}
		b.add("state", s.State)
		b.add("sealed", fmt.Sprint(s.Sealed))
		b.add("age", formatSeconds(s.Age))
		b.add("ttl", (time.Duration(s.TTLMs) * time.Millisecond).String())
		for _, n := range []struct {
			word  string
			count uint64
		}{{"total", s.Total}, {"pending", s.Pending}, {"parked", s.Parked}, {"done", s.Done}, {"gone", s.Gone}, {"after-held", s.AfterHeld}, {"after-failed", s.AfterFailed}} {
			b.add(n.word, grouped(n.count))
		}
		if err := b.print(w); err != nil || len(s.After) == 0 {
			return err
		}
		after := &table{head: []string{"AFTER IT", "TUBE", "STATE", "RUNS", "MEMBER OF"}, left: 5}
		for _, j := range s.After {
			runs := "when all are done"
			if j.All {
				runs = "when all have ended"
			}
			after.add(fmt.Sprint(j.ID), j.Tube, j.State, runs, dash(j.Batch, ""))
		}
		return after.print(w)
	})
}

func sealBatch(t *task, name string) error {
	if _, err := t.expect("sealing batch "+name, "SEALED", "seal-batch "+name); err != nil {
		return err
	}
	return t.printDone(map[string]any{"sealed": name}, "batch %s sealed", name)
}

func cancelBatch(t *task, name string) error {
	s, err := t.batchNamed(name)
	if err != nil {
		return err
	}
	jobs := s.Pending + s.Parked
	if jobs > 0 {
		if err := confirm(t, fmt.Sprintf("Delete up to %s of batch %s?", nounFor(jobs, "job"), name)); err != nil {
			return err
		}
	}
	count, err := t.expect("cancelling batch "+name, "CANCELLED", "cancel-batch "+name)
	if err != nil {
		return err
	}
	n := uint64(0)
	fmt.Sscan(count, &n)
	return t.printDone(map[string]any{"cancelled": name, "deleted": n}, "batch %s cancelled: %s deleted", name, nounFor(n, "job"))
}

// listedMember is a job in a page of list-members.
type listedMember struct {
	Tube  string
	State string

	listedJob `yaml:",inline"`
}

func listMembers(t *task, name string) error {
	b := &table{head: []string{"ID", "TUBE", "STATE", "PRI", "AGE", "DUE IN", "SIZE", "TRIES", "REASON"}}
	return printListed(t, b, "listing the members of "+name, "list-members "+name, "jobs", func(m *listedMember) (any, []string) {
		j := m.job(m.Tube, m.State, time.Now())
		return j, []string{
			fmt.Sprint(j.ID), j.Tube, j.State, fmt.Sprint(j.Priority), formatSeconds(j.Age), leftText(j), fmt.Sprint(j.Size), fmt.Sprint(j.Reserves), stateReasonText(j),
		}
	})
}
