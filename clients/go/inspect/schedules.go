package inspect

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"redstalk/clients/go/client"
)

// A Schedule is the state of a schedule, which [client.Client.SetSchedule] has set.
type Schedule struct {
	Name, Tube string
	Cron       string        // empty: Every
	Every      time.Duration // 0: Cron
	Zone       string        // empty: UTC
	Paused     bool

	Next, Due, Last time.Time // the next time, when its job will be put, and the last time that has passed; zero: there is none

	Put        int // jobs
	Overlapped int // jobs not put because another one was there
	Refused    int // jobs not put because the tube had reached its quota
	Missed     int // jobs not put because no server was there in time
	Stopped    int // jobs not put because the schedule was paused

	LastResult  string    // of the last put: put, overlapped, refused or sealed; empty: there was none
	LastPut     time.Time // when that was
	LastNominal time.Time // the time for which that was
	LastID      uint64    // the job that was put, or that has prevented it
}

// Schedules iterates over the schedules, in the order of their names. It fetches them in pages. After an error it ends.
func (in *Inspector) Schedules(ctx context.Context) iter.Seq2[Schedule, error] {
	return func(yield func(Schedule, error) bool) {
		cursor := ""
		for {
			page, err := in.page(ctx, client.Schedules, strings.TrimSpace("list-schedules 500 "+cursor))
			if err != nil {
				yield(Schedule{}, err)
				return
			}
			for _, entry := range list(page) {
				if !yield(scheduleOf(flow(entry)), nil) {
					return
				}
			}
			if cursor = fields(page)["next"]; cursor == "" {
				return
			}
		}
	}
}

// Schedule returns the state of a schedule, or [client.ErrNotFound].
func (in *Inspector) Schedule(ctx context.Context, name string) (*Schedule, error) {
	page, err := in.page(ctx, client.Schedules, "get-schedule "+name)
	if err != nil {
		return nil, err
	}
	s := scheduleOf(fields(page))
	return &s, nil
}

// scheduleOf makes a Schedule of what the server says.
func scheduleOf(f map[string]string) Schedule {
	s := Schedule{
		Name: f["name"], Tube: f["tube"], Cron: f["cron"], Every: span(f["every"]), Zone: f["tz"], Paused: f["paused"] == "true",
		Next: millis(f["next-ms"]), Due: millis(f["due-ms"]), Last: millis(f["last-ms"]),
		Put: number(f["put"]), Overlapped: number(f["overlapped"]), Refused: number(f["refused"]), Missed: number(f["missed"]), Stopped: number(f["stopped"]),
		LastPut: millis(f["last-put-ms"]), LastNominal: millis(f["last-nominal-ms"]),
	}
	s.LastID, _ = strconv.ParseUint(f["last-id"], 10, 64)
	if f["last-result"] != "none" {
		s.LastResult = f["last-result"]
	}
	return s
}

// span reads a duration as the server writes it: a whole number with a unit.
func span(text string) time.Duration {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		return time.Duration(number(days)) * 24 * time.Hour
	}
	d, _ := time.ParseDuration(text)
	return d
}

// millis reads a time in milliseconds since 1970; 0 is the zero time.
func millis(text string) time.Time {
	n, _ := strconv.ParseInt(text, 10, 64)
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n)
}

// DeleteSchedule deletes a schedule. Its jobs stay.
func (in *Inspector) DeleteSchedule(ctx context.Context, name string) error {
	_, err := in.change(ctx, "DELETED", client.Command{Line: "delete-schedule " + name, Needs: client.Schedules})
	return err
}

// PauseSchedule stops a schedule until ResumeSchedule.
func (in *Inspector) PauseSchedule(ctx context.Context, name string) error {
	_, err := in.change(ctx, "PAUSED", client.Command{Line: "pause-schedule " + name, Repeat: true, Needs: client.Schedules})
	return err
}

// ResumeSchedule ends a pause. Times that have passed meanwhile are skipped.
func (in *Inspector) ResumeSchedule(ctx context.Context, name string) error {
	_, err := in.change(ctx, "RESUMED", client.Command{Line: "resume-schedule " + name, Repeat: true, Needs: client.Schedules})
	return err
}

// NextTimes returns the next n times of a schedule, 1 to 1000, in its time zone.
func (in *Inspector) NextTimes(ctx context.Context, name string, n int) ([]time.Time, error) {
	return in.times(ctx, fmt.Sprintf("preview-schedule %s %d", name, n))
}

// NextTimesOf returns the next n times of a cron expression, 1 to 1000, in a time zone; empty: UTC. An expression or a zone that is not
// valid is a [client.ErrInvalid].
func (in *Inspector) NextTimesOf(ctx context.Context, cron, zone string, n int) ([]time.Time, error) {
	if zone == "" {
		zone = "UTC"
	}
	return in.times(ctx, fmt.Sprintf("preview-schedule %s %d tz:%s", strconv.Quote(cron), n, strconv.Quote(zone)))
}

func (in *Inspector) times(ctx context.Context, line string) (all []time.Time, err error) {
	page, err := in.page(ctx, client.Schedules, line)
	if err != nil {
		return nil, err
	}
	for _, text := range list(page) {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("preview-schedule: %w", err)
		}
		all = append(all, t)
	}
	return all, nil
}
