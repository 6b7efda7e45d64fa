// Package payments tells a merchant's server that a payment has arrived, as payment providers do: at once, and
// again after 2, 10 and 10 minutes, 1, 2, 6 and 15 hours, until it answers "success".
package payments

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/worker"
)

// Intervals are the waits between the eight notifications, within about a day.
var Intervals = []time.Duration{
	2 * time.Minute, 10 * time.Minute, 10 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour,
}

// The tubes of notifications, and of those that the merchant has never confirmed.
const (
	tube   = "payment-notifications"
	failed = "payment-notifications-failed"
)

// A Payment is what the merchant is told.
type Payment struct {
	ID       string `json:"id"`
	URL      string `json:"-"`
	Amount   int64  `json:"amount"` // cents
	Currency string `json:"currency"`
}

// job is a Payment with its URL, as it is in the queue.
type job struct {
	Payment
	URL string `json:"url"`
}

// Notify is called when a payment was stored. It can be called again if its error is not nil. intervals are
// [Intervals], or shorter ones in a test.
func Notify(ctx context.Context, c *client.Client, p Payment, intervals []time.Duration) error {
	body, err := json.Marshal(job{p, p.URL})
	if err != nil {
		return err
	}
	_, err = c.Put(ctx, tube, body, client.Key(p.ID), client.KeyTTL(7*24*time.Hour), client.Retry(intervals...), client.Dead(failed))
	if err != nil {
		return fmt.Errorf("notification of payment %s: %w", p.ID, err)
	}
	return nil
}

// Handle makes a worker send notifications.
func Handle(mux *worker.Mux) { mux.Handle(tube, send) }

func send(ctx context.Context, w *worker.Job) error {
	var j job
	if err := json.Unmarshal(w.Body, &j); err != nil {
		return worker.Skip(err) // it will not get better
	}
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	body, err := json.Marshal(j.Payment)
	if err != nil {
		return worker.Skip(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.URL, bytes.NewReader(body))
	if err != nil {
		return worker.Skip(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || string(bytes.TrimSpace(answer)) != "success" {
		return fmt.Errorf("the merchant answered %s: %.100q", resp.Status, answer)
	}
	return nil
}
