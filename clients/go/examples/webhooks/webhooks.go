// Package webhooks sends an event to all who have subscribed to it. Each subscriber has a job of its own, so one
// that is down delays no other.
package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/worker"
)

// tube has a job for each call.
const tube = "webhooks"

// An Event is something that has happened.
type Event struct {
	ID   string          `json:"id"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// A Subscriber wants to know of events.
type Subscriber struct{ Name, URL string }

// call is an event for one subscriber.
type call struct {
	URL   string
	Event Event
}

// Publish puts a job for each subscriber, in a group of its own: they take turns, however many events one of them has, and the
// policy group-concurrency of the tube limits how many workers one that is slow can hold. It can be called again if its error is not nil: who has the
// event already does not get it again.
func Publish(ctx context.Context, c *client.Client, e Event, to []Subscriber) error {
	var errs []error
	for _, s := range to {
		body, err := json.Marshal(call{s.URL, e})
		if err == nil {
			_, err = c.Put(ctx, tube, body, client.Key(e.ID+"/"+s.Name), client.KeyTTL(24*time.Hour), client.Group(s.Name),
				client.Retry(5*time.Second, time.Minute, 10*time.Minute, time.Hour), client.Dead("webhooks-failed"))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("event %s for %s: %w", e.ID, s.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Handle makes a worker call subscribers. The calls that are going on at a time are as many as the worker's
// Concurrency.
func Handle(mux *worker.Mux) { mux.Handle(tube, send) }

func send(ctx context.Context, job *worker.Job) error {
	var c call
	if err := json.Unmarshal(job.Body, &c); err != nil {
		return worker.Skip(err)
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	body, err := json.Marshal(c.Event)
	if err != nil {
		return worker.Skip(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return worker.Skip(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", c.Event.ID)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	return result(resp)
}

// result decides what the answer of a subscriber means for the job.
func result(resp *http.Response) error {
	switch wait, _ := strconv.Atoi(resp.Header.Get("Retry-After")); {
	case resp.StatusCode < 300:
		return nil
	case resp.StatusCode == http.StatusGone: // unsubscribed
		return worker.Skip(errors.New(resp.Status))
	case resp.StatusCode == http.StatusTooManyRequests && wait > 0:
		return worker.Snooze(time.Duration(wait) * time.Second)
	}
	return errors.New(resp.Status)
}
