package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// listener waits for the notifications of a channel of PostgreSQL, on a connection of its own.
type listener struct {
	config  *pgx.ConnConfig
	channel string
}

// pingEvery is how long a connection can be silent until the listener checks that it still works.
const pingEvery = 30 * time.Second

func listenPostgres(url, channel string) (*listener, error) {
	config, err := parsePostgres(url)
	if err != nil {
		return nil, err
	}
	return &listener{config, channel}, nil
}

// run calls wake after each notification, and once for each connection, since some can have been missed
// before it. It ends with ctx, or with an error of the connection.
func (l *listener) run(ctx context.Context, wake func()) error {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() {
		closing, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, `LISTEN "`+l.channel+`"`); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	for {
		wake()
		if err := await(ctx, conn); err != nil {
			return err
		}
	}
}

// await waits for the next notification. It checks the connection while there is none.
func await(ctx context.Context, conn *pgx.Conn) error {
	for {
		waiting, stop := context.WithTimeout(ctx, pingEvery)
		_, err := conn.WaitForNotification(waiting)
		stop()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("waiting for notifications: %w", err)
		}
		pinging, stop := context.WithTimeout(ctx, connectLimit)
		err = conn.Ping(pinging)
		stop()
		if err != nil {
			return fmt.Errorf("checking the connection: %w", err)
		}
	}
}
