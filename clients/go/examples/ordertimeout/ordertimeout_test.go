package ordertimeout

import (
	"context"
	"os"
	"testing"
	"time"

	"redstalk/clients/go/inspect"
	"redstalk/clients/go/redstalktest"
	"redstalk/clients/go/worker"
)

type closing chan string

func (c closing) CloseUnpaid(_ context.Context, order string) error {
	c <- order
	return nil
}

func TestOrderTimeout(t *testing.T) {
	c := redstalktest.Run(t)
	const timeout = 500 * time.Millisecond
	for _, order := range []string{"unpaid", "paid", "unpaid", "paid"} { // each is placed twice
		if err := Placed(t.Context(), c, order, timeout); err != nil {
			t.Fatal(err)
		}
	}
	if tube, err := inspect.New(c).Tube(t.Context(), tube); err != nil || tube.Delayed != 2 {
		t.Errorf("%+v, %v", tube, err)
	}
	if err := Paid(t.Context(), c, "paid"); err != nil {
		t.Error(err)
	}
	closed, mux := make(closing, 10), worker.NewMux()
	Handle(mux, closed)
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(3*timeout, stop)
	if err := worker.New(c, worker.Config{Signals: []os.Signal{}}).Run(ctx, mux); err != nil {
		t.Error(err)
	}
	if order := <-closed; order != "unpaid" || len(closed) != 0 {
		t.Errorf("%s was closed, and %d others", order, len(closed))
	}
	if err := Paid(t.Context(), c, "unpaid"); err != nil {
		t.Error(err)
	}
}
