// Package ordertimeout closes an order 30 minutes after it was placed, unless it was paid.
//
// The job that closes the order is put when the order is placed. Its key is the order, so a payment can
// delete it, and an order that is placed twice by a retry is closed once.
package ordertimeout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/worker"
)

// Timeout is how long a customer has to pay.
const Timeout = 30 * time.Minute

// tube has a job for each order that is not paid.
const tube = "orders-unpaid"

// Placed is called when an order was stored. It can be called again if its error is not nil.
func Placed(ctx context.Context, c *client.Client, order string, timeout time.Duration) error {
	_, err := c.Put(ctx, tube, []byte(order), client.Key(order), client.KeyTTL(24*time.Hour), client.Delay(timeout),
		client.Retry(10*time.Second, time.Minute, 10*time.Minute))
	if err != nil {
		return fmt.Errorf("order %s: %w", order, err)
	}
	return nil
}

// Paid is called when the payment of an order was stored.
func Paid(ctx context.Context, c *client.Client, order string) error {
	err := c.DeleteKey(ctx, tube, order)
	if errors.Is(err, client.ErrNotFound) { // it was closed before: the handler below decides that, not we
		return nil
	}
	return err
}

// Orders is the store of orders.
type Orders interface {
	// CloseUnpaid closes an order if it is neither paid nor closed, in one transaction. A payment that arrives in
	// the last moment wins.
	CloseUnpaid(ctx context.Context, order string) error
}

// Handle makes a worker close orders.
func Handle(mux *worker.Mux, orders Orders) {
	mux.Handle(tube, func(ctx context.Context, job *worker.Job) error {
		return orders.CloseUnpaid(ctx, string(job.Body))
	})
}
