package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"redstalk/protocol"
	"redstalk/protocol/client"
)

// This file has the commands about the ends of jobs: ended, wait and finish.

func endedCommand() *cli.Command {
	return &cli.Command{
		Name: "ended", ArgsUsage: "[TUBE|batch:NAME]", Action: withConn(arguments{0, 1}, ended),
		Usage:       "list the records of ended jobs of a tube or a batch, the newest first (extension results)",
		Description: "TOOK is the time from its delivery until its end, if it was delivered once. The last column is the beginning of its result, where it is now, or why it failed.",
		Flags: []cli.Flag{
			tubeFlag(),
			&cli.StringFlag{Name: "how", Usage: "only jobs that have ended like this: `HOW` is one of " + strings.Join(hows, ", ")},
			&cli.StringFlag{Name: "reason", Usage: "only jobs whose last reason contains `TEXT`, in upper or lower case"},
			&cli.UintFlag{Name: "count", Aliases: []string{"n"}, Value: 100, Usage: "list at most `N` records"},
			&cli.BoolFlag{Name: "all", Usage: "list all records"},
		},
	}
}

// endedJob is a record as list-ended shows it.
type endedJob struct {
	ID          uint64            `json:"id"`
	Tube        string            `json:"tube"`
	How         string            `json:"how"`
	Key         string            `json:"key,omitempty"`
	Group       string            `json:"group,omitempty"`
	Batch       string            `json:"batch,omitempty"`
	Schedule    string            `json:"schedule,omitempty"`
	Nominal     int64             `json:"nominal_ms,omitempty" yaml:"nominal-ms"`
	Put         int64             `json:"put_ms" yaml:"put-ms"`
	Started     int64             `json:"first_start_ms,omitempty" yaml:"first-start-ms"`
	At          int64             `json:"ended_ms" yaml:"ended-ms"`
	Until       int64             `json:"until_ms" yaml:"until-ms"`
	Deliveries  uint32            `json:"deliveries"`
	Failures    uint32            `json:"failures"`
	Holder      string            `json:"holder,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	ToTube      string            `json:"to_tube,omitempty" yaml:"to-tube"`
	ToID        uint64            `json:"to_id,omitempty" yaml:"to-id"`
	Meta        map[string]string `json:"meta,omitempty"`
	ResultBytes int               `json:"result_bytes" yaml:"result-bytes"`
	Encoded     string            `json:"-" yaml:"result"` // base64
	endedResult `yaml:"-"`
}

// endedResult is a result in JSON.
type endedResult struct {
	Result       *string `json:"result,omitempty"` // if it is UTF-8
	ResultBase64 string  `json:"result_base64,omitempty"`
}

func (e *endedResult) set(result []byte) {
	if utf8.Valid(result) {
		text := string(result)
		e.Result = &text
	} else {
		e.ResultBase64 = base64.StdEncoding.EncodeToString(result)
	}
}

// hows are how a job can end.
var hows = []string{"done", "deleted", "expired", "dead", "moved"}

func ended(t *task) error {
	of := t.tube()
	if t.NArg() > 0 {
		of = t.Args().First()
	}
	if err := checkWord("the tube", of); err != nil {
		return err
	}
	if how := t.String("how"); how != "" && !slices.Contains(hows, how) {
		return usage("--how must be one of %s", strings.Join(hows, ", "))
	}
	if err := t.require("results", "ended"); err != nil {
		return err
	}
	most := uint64(t.Uint("count"))
	if t.Bool("all") {
		most = 1 << 62
	}
	b := &table{head: []string{"ID", "HOW", "ENDED", "TOOK", "TRIES", "KEY", "RESULT OR REASON"}, left: 7}
	err := eachListed(t, "listing ended jobs of "+of, "list-ended "+of, "ended", func(e *endedJob) error {
		if !t.wants(e) {
			return nil
		}
		most--
		if result, err := base64.StdEncoding.DecodeString(e.Encoded); err == nil && e.How == "done" {
			e.set(result)
		}
		if !t.Bool("json") {
			b.add(e.row()...)
		} else if err := t.printJSON(e); err != nil {
			return err
		}
		return t.endAt(most)
	})
	if err = ignoreEnough(err); err != nil || t.Bool("json") {
		return err
	}
	return b.print(t.out)
}

// wants reports whether a record is to be listed.
func (t *task) wants(e *endedJob) bool {
	how, reason := t.String("how"), strings.ToLower(t.String("reason"))
	return (how == "" || how == e.How) && strings.Contains(strings.ToLower(e.Reason), reason)
}

// row returns the cells of a record in the table.
func (e *endedJob) row() []string {
	took := "-"
	if e.Started > 0 {
		took = (time.Duration(e.At-e.Started) * time.Millisecond).String()
	}
	what := e.Reason
	switch {
	case e.ToTube != "":
		what = strings.TrimSuffix(fmt.Sprintf("to %s: %s", e.ToTube, e.Reason), ": ")
	case e.Result != nil:
		what = printable([]byte(*e.Result))
	case e.ResultBase64 != "":
		what = nounFor(e.ResultBytes, "byte")
	}
	return []string{fmt.Sprint(e.ID), e.How, time.UnixMilli(e.At).Format("2006-01-02 15:04:05 -0700"), took, fmt.Sprint(e.Deliveries), e.Key, oneLine(what)}
}

func waitCommand() *cli.Command {
	return &cli.Command{
		Name: "wait", ArgsUsage: "ID", Action: withConn(arguments{1, 1}, waitForEnd),
		Usage:       "wait until a job has ended, and print its result (extension results)",
		Description: "Exit code 0 says that a worker has done the job, 7 that it has ended in another way or is parked, 3 that it has not ended in time, or is unknown. If the connection fails meanwhile, it is made again.",
		Flags:       []cli.Flag{endWaitFlag("1m", "")},
	}
}

// endWaitFlag is the flag for how long a command waits for the end of a job.
func endWaitFlag(initially, more string) cli.Flag {
	return &cli.StringFlag{Name: "wait", Aliases: []string{"w"}, Value: initially, Usage: "`DURATION` to wait for the end of the job, or forever" + more}
}

func waitForEnd(t *task) error {
	id, err := jobID(t.Args().First())
	if err != nil {
		return err
	}
	wait, err := waitOf(t)
	if err == nil {
		err = t.require("results", "wait")
	}
	if err != nil {
		return err
	}
	return t.printEnd(id, wait)
}

// printEnd waits for the end of a job, and prints its result.
func (t *task) printEnd(id uint64, wait time.Duration) error {
	doing := fmt.Sprintf("waiting for job %d", id)
	how, body, err := t.awaitEnd(doing, id, wait)
	if err != nil {
		return err
	}
	if t.Bool("json") {
		shown := struct {
			ID  uint64 `json:"id"`
			How string `json:"how"`
			To  string `json:"to,omitempty"` // tube and id
			endedResult
			Reason string `json:"reason,omitempty"`
		}{ID: id, How: how}
		switch how {
		case "done":
			shown.set(body)
		case "parked":
			shown.Reason = string(body)
		default:
			shown.To = string(body)
		}
		err = t.printJSON(&shown)
	} else if how == "done" {
		err = t.printBody(body)
	}
	if err == nil && how != "done" {
		err = failure{exitJobs, fmt.Errorf("job %d: %s", id, strings.TrimSpace(how+" "+string(body)))}
	}
	return err
}

// awaitEnd waits for the end of a job. If the connection fails it connects again: the job goes on meanwhile.
func (t *task) awaitEnd(doing string, id uint64, wait time.Duration) (how string, body []byte, err error) {
	ctx, end := t.Context.Context, time.Now().Add(wait)
	left := func() time.Duration {
		if wait == forever {
			return longestWait
		}
		return min(longestWait, max(0, time.Until(end)))
	}
	for attempt := 0; ; attempt++ {
		how, body, err = t.askForEnd(doing, id, left)
		if codeOf(err) != exitServer || left() == 0 {
			return how, body, err
		}
		t.infof("redstalk: %v; connecting again", err)
		select {
		case <-time.After(min(left(), pauses[min(attempt, len(pauses)-1)])):
		case <-ctx.Done():
			return "", nil, interrupted(doing)
		}
		if conn, err := t.dialer.connect(); err == nil {
			t.conn.Close()
			t.conn = conn
		} else if codeOf(err) != exitServer {
			return "", nil, err
		}
	}
}

// askForEnd asks for the end of a job as long as time is left. That takes several commands if it is long, so that a dead connection is noticed.
func (t *task) askForEnd(doing string, id uint64, left func() time.Duration) (how string, body []byte, err error) {
	ctx, conn := t.Context.Context, t.conn
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	patience := t.dialer.limit
	for {
		seconds := wholeSeconds(left())
		conn.Timeout = patience + time.Duration(seconds)*time.Second
		err = conn.Ask(fmt.Appendf(nil, "wait-job %d %d\r\n", id, seconds), 1, func(r *client.Reply) error {
			switch {
			case r.Word == client.Ended:
				how, body = string(r.Rest), append(body, r.Body...)
			case string(r.Line) == "NOT_KEPT":
				return failure{exitFailed, fmt.Errorf("%s: it leaves no record, since neither its put nor the policy of its tube has keep", doing)}
			case r.Word != client.TimedOut, left() == 0:
				return replyError(doing, r)
			}
			return nil
		})
		switch {
		case ctx.Err() != nil && how == "":
			return "", nil, interrupted(doing)
		case err != nil:
			return "", nil, connectionError(doing, err)
		case how != "":
			return how, body, nil
		}
	}
}

func finishCommand() *cli.Command {
	return &cli.Command{
		Name: "finish", ArgsUsage: "ID [RESULT]", Action: withConn(arguments{1, 2}, finish),
		Usage: "delete a job by its lease, with a result from the argument or from standard input (extension results)",
		Flags: []cli.Flag{leaseFlag()},
	}
}

func finish(t *task) error {
	id, err := jobID(t.Args().First())
	if err != nil {
		return err
	}
	lease := t.String("lease")
	if lease == "" {
		return usage("finish needs --lease: a reservation without a lease ends with its connection")
	}
	if err := t.require("results", "finish"); err != nil {
		return err
	}
	result := []byte(t.Args().Get(1))
	if t.NArg() == 1 {
		if result, err = io.ReadAll(io.LimitReader(t.in, protocol.MaxResult+1)); err != nil {
			return fmt.Errorf("reading standard input: %w", err)
		}
	}
	if len(result) > protocol.MaxResult {
		return usage("the result has more than %d bytes", protocol.MaxResult)
	}
	doing := fmt.Sprintf("finishing job %d by its lease", id)
	if _, err := t.expect(doing, "FINISHED", fmt.Sprintf("finish-lease %d %s %d\r\n%s", id, lease, len(result), result)); err != nil {
		return err
	}
	return t.printDone(map[string]any{"finished": 1}, "job %d finished", id)
}
