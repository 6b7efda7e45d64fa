package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/outbox"
)

func outboxCommand() *cli.Command {
	return &cli.Command{
		Name: "outbox", ArgsUsage: "[schema]", Action: withDialer(arguments{0, 1}, runOutbox),
		Usage: "put the rows of a table of a database as jobs, as soon as the transactions with them are committed",
		Description: "Takes rows that an application inserts in its own transactions, puts them, and deletes them, until it is stopped. Each committed row becomes one job; with a server " +
			"without put-tags, at least one. Any number can run at the same time. What is away, the database or the server, is tried again. schema prints the SQL that makes the table. " +
			"docs/outbox.md has the columns and the guarantees.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "database", EnvVars: []string{"REDSTALK_DATABASE"}, Usage: "`URL` of the database: postgres://USER:PASSWORD@HOST/NAME, mysql://USER:PASSWORD@HOST/NAME (also for MariaDB) or sqlite:PATH. With a password, set the variable instead: others on the machine can see command lines"},
			&cli.StringFlag{Name: "table", Value: outbox.DefaultTable, Usage: "`TABLE` of the rows"},
			durationFlag("poll", 0, "`DURATION` after which the table is looked at again; 0 is 5s if PostgreSQL notifies, else 1s"),
			durationFlag("key-ttl", 24*time.Hour, "`DURATION` for which the server remembers a row after its job has ended, in whole seconds"),
			&cli.StringFlag{Name: "http", Usage: "`ADDR` that serves metrics at /metrics"},
			&cli.BoolFlag{Name: "create", Usage: "schema: make the table instead"},
		},
	}
}

func runOutbox(t *task) error {
	action := t.Args().First()
	if action != "" && action != "schema" {
		return usage("outbox needs no argument, or schema")
	}
	if t.String("database") == "" {
		return usage("--database or REDSTALK_DATABASE must be the URL of the database")
	}
	db, err := outbox.Open(t.String("database"), t.String("table"))
	if err != nil {
		return failure{exitUsage, err}
	}
	defer db.Close()
	if action == "schema" {
		return outboxSchema(t, db)
	}
	if t.Bool("create") {
		return usage("--create is for outbox schema")
	}
	return relay(t, db)
}

func outboxSchema(t *task, db *outbox.Database) error {
	if !t.Bool("create") {
		_, err := fmt.Fprint(t.out, db.Schema())
		return err
	}
	if err := db.Create(); err != nil {
		return err
	}
	return t.printDone(map[string]any{"created": db.Table}, "table %s is in %s", db.Table, db.Place())
}

// relay moves rows until the command is stopped.
func relay(t *task, db *outbox.Database) error {
	r := outbox.New(db)
	r.Dial, r.Server, r.Poll, r.KeyTTL = t.dialer.connect, t.dialer.addr, t.duration("poll"), t.duration("key-ttl")
	if r.KeyTTL < time.Minute {
		return usage("--key-ttl must be at least 1m: a row is put again within that time if the relay dies")
	}
	r.Info = func(text string) { t.infof("redstalk: %s", text) }
	r.Warn = func(text string) { fmt.Fprintln(t.err, "redstalk:", text) }
	stop, err := serveMetrics(t, &r.Metrics)
	if err != nil {
		return err
	}
	defer stop()
	t.infof("redstalk: putting the rows of table %s of %s into %s", db.Table, db.Place(), t.dialer.addr)
	r.Run(t.Context.Context)
	t.infof("redstalk: stopped; %s put, %d failed", nounFor(int(r.Metrics.Put()), "row"), r.Metrics.Failed())
	return nil
}

// serveMetrics starts to serve the metrics, if --http is set.
func serveMetrics(t *task, m *outbox.Metrics) (stop func(), err error) {
	addr := t.String("http")
	if addr == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, failure{exitFailed, fmt.Errorf("serving metrics: %w", err)}
	}
	server := m.Server()
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(t.err, "redstalk: serving metrics:", err)
		}
	}()
	return func() {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		server.Shutdown(ctx)
	}, nil
}
