package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"redstalk/storage"
	"redstalk/storage/redis/lua"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// tryOpen opens a store and closes it again, and returns the log and the error.
func tryOpen(o Options) (string, error) {
	var log bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	s, err := Open(context.Background(), o)
	if err == nil {
		s.Close()
	}
	return log.String(), err
}

func TestEviction(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	if _, err := tryOpen(Options{URL: server.URL()}); err == nil || !strings.Contains(err.Error(), "allkeys-lru") {
		t.Errorf("opened on a Redis that evicts: %v", err)
	}
	if log, err := tryOpen(Options{URL: server.URL(), AllowEviction: true}); err != nil || !strings.Contains(log, "allkeys-lru") {
		t.Errorf("though eviction is allowed: %v, %s", err, log)
	}
}

func TestPersistenceWarning(t *testing.T) {
	const warning = "neither an append-only file nor a replica"
	if log, _ := tryOpen(Options{URL: redistest.Start(t).URL()}); !strings.Contains(log, warning) {
		t.Errorf("no warning: %s", log)
	}
	if log, _ := tryOpen(Options{URL: redistest.Start(t, "--appendonly", "yes").URL()}); strings.Contains(log, warning) {
		t.Errorf("a warning with AOF: %s", log)
	}
}

func TestOtherLayout(t *testing.T) {
	server := redistest.Start(t)
	server.Client(t).HSet(context.Background(), "redstalk:{0}:layout", "version", schema.LayoutVersion+1, "partitions", 1)
	if _, err := tryOpen(Options{URL: server.URL()}); err == nil || !strings.Contains(err.Error(), fmt.Sprint("has version ", schema.LayoutVersion+1)) {
		t.Errorf("opened another layout: %v", err)
	}
}

func TestUserWithoutPassword(t *testing.T) {
	if _, err := tryOpen(Options{URL: "redis://secret@127.0.0.1:1/0"}); err == nil || !strings.Contains(err.Error(), "no password") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// TestPermissions takes permissions away and looks for them in the error.
func TestPermissions(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), context.Background()
	open := func(less ...any) error {
		rules := []any{"acl", "setuser", "u", "reset", "on", ">p", "~redstalk:{0}:*", "+@all"}
		if err := client.Do(ctx, append(rules, less...)...).Err(); err != nil {
			t.Fatal(err)
		}
		_, err := tryOpen(Options{URL: "redis://u:p@" + server.Addr + "/0"})
		return err
	}
	if err := open(); err != nil {
		t.Errorf("with all permissions: %v", err)
	}
	for _, command := range []string{"ZPOPMIN", "SETRANGE", "MSET", "EVALSHA", "EVAL", "HSETNX", "BLPOP", "DEL"} {
		if err := open("-" + strings.ToLower(command)); err == nil || !strings.Contains(strings.ToUpper(err.Error()), command) {
			t.Errorf("without %s: %v", command, err)
		}
	}
}

// TestRenamed renames commands and looks for them in the error.
func TestRenamed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--rename-command", "DEL", "", "--rename-command", "BLPOP", "hidden")
	if _, err := tryOpen(Options{URL: server.URL()}); err == nil || !strings.Contains(err.Error(), "BLPOP, DEL") {
		t.Errorf("without DEL and BLPOP: %v", err)
	}
	if keys := server.Client(t).DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("%d keys were left", keys)
	}
	server = redistest.Start(t, "--rename-command", "RENAME", "", "--rename-command", "CONFIG", "", "--rename-command", "INFO", "")
	s := openWith(t, Options{URL: server.URL(), Timeout: patient, noBodyCache: true})
	a := do(s, putBody(bodyOf('a', 20_000)))
	takeBody(t, s, a.ID, bodyOf('a', 20_000))
}

// TestAllTried: every command of the scripts is tried before they are used, and is documented.
func TestAllTried(t *testing.T) {
	command := regexp.MustCompile(`call\('([A-Z]+)'`)
	tried := make(map[string]bool)
	for _, match := range regexp.MustCompile(`'([A-Z]+)[ ']`).FindAllStringSubmatch(lua.Permissions, -1) {
		tried[match[1]] = true
	}
	fs.WalkDir(lua.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := lua.Files.ReadFile(path)
		for _, match := range command.FindAllStringSubmatch(string(text), -1) {
			name, fields := strings.ToLower(match[1]), strings.Fields(documented)
			if strings.HasPrefix(path, "check/") {
				fields = append(fields, strings.Fields(documentedForCheck)...)
			} else if !tried[match[1]] {
				t.Errorf("%s: %s is not tried", path, match[1])
			}
			if !slices.Contains(fields, name) {
				t.Errorf("%s: the user whom the page describes may not run %s", path, name)
			}
		}
		return err
	})
}

// TestWithoutStaging: without permission for the commands of staged records there is a warning,
// and large jobs can still be put.
func TestWithoutStaging(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), context.Background()
	for _, less := range []string{"-rename", "-persist"} {
		if err := client.Do(ctx, "acl", "setuser", "u", "reset", "on", ">p", "~redstalk:{0}:*", "+@all", less).Err(); err != nil {
			t.Fatal(err)
		}
		o := Options{URL: "redis://u:p@" + server.Addr + "/0", Timeout: patient, noBodyCache: true}
		if log, err := tryOpen(o); err != nil || !strings.Contains(log, "PERSIST, RENAME") {
			t.Errorf("%s: %v, %s", less, err, log)
		}
		s := openWith(t, o)
		a := do(s, putBody(bodyOf('a', 20_000)))
		takeBody(t, s, a.ID, bodyOf('a', 20_000))
	}
}

// TestWaitReplicas: an answer waits until a replica has the change.
func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	s, err := Open(context.Background(), Options{URL: primary.URL()})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s, err = Open(context.Background(), Options{URL: primary.URL(), WaitReplicas: 1, Timeout: hasty})
	if err == nil {
		s.Listen(nopListener{})
		t.Cleanup(func() { s.Close() })
		if a := do(s, put("x")); !errors.Is(a.Err, storage.ErrUnavailable) {
			t.Errorf("without a replica: %+v", a)
		}
	}
	host, port, _ := strings.Cut(primary.Addr, ":")
	redistest.Start(t, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	s2, err := Open(context.Background(), Options{URL: primary.URL(), WaitReplicas: 1, Timeout: patient})
	if err != nil {
		t.Fatal(err)
	}
	s2.Listen(nopListener{})
	t.Cleanup(func() { s2.Close() })
	if a := do(s2, put("y")); a.Err != nil {
		t.Errorf("with a replica: %+v", a)
	}
	large := do(s2, putBody(bodyOf('a', 20_000)))
	if a := do(s2, move(tube.ReserveJob, 1, large.ID)); a.Err != nil || !bytes.Equal(a.Body, bodyOf('a', 20_000)) {
		t.Errorf("a large one: %v, %d bytes, %v", large.Err, len(a.Body), a.Err)
	}
}

// TestPasswordChanged: an instance whose password is no longer valid does not continue as the
// user default, who has all permissions here. It continues when the password is valid again.
func TestPasswordChanged(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 2} {
		server := redistest.StartWithProxy(t)
		client, ctx := server.Client(t), t.Context()
		password := func(word string) {
			if err := client.Do(ctx, "acl", "setuser", "u", "reset", "on", ">"+word, "~*", "+@all").Err(); err != nil {
				t.Fatal(err)
			}
		}
		password("before")
		var log bytes.Buffer
		o := Options{URL: "redis://u:before@" + server.Front.Addr + "/3", Partitions: partitions, Timeout: hasty}
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		s, err := Open(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		password("after")
		server.Front.Break()
		if a := do(s, put("x")); !errors.Is(a.Err, storage.ErrUnavailable) {
			t.Errorf("%d partitions, with another password: %s", partitions, show(&a))
		}
		password("before")
		if a := do(s, put("x")); a.Err != nil {
			t.Errorf("%d partitions, with the password that it has: %s", partitions, show(&a))
		}
		s.Close()
		if !strings.Contains(log.String(), "WRONGPASS") {
			t.Errorf("%d partitions: the log has no error: %s", partitions, log.String())
		}
		if keys := client.DBSize(ctx).Val(); keys != 0 {
			t.Errorf("%d partitions: %d keys in the database of others", partitions, keys)
		}
	}
}

// TestNoPassword: a server that wants a password says so, and where to put it.
func TestNoPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	if err := server.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{URL: server.URL(), Timeout: hasty})
	if err == nil || !strings.Contains(err.Error(), "NOAUTH") || !strings.Contains(err.Error(), "redis://:PASSWORD@HOST:PORT") {
		t.Error(err)
	}
	if _, err = Open(t.Context(), Options{URL: strings.Replace(server.URL(), "//", "//:wrong@", 1), Timeout: hasty}); err == nil || strings.Contains(err.Error(), "wants a password") {
		t.Error(err)
	}
}
