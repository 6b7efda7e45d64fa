package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"redstalk/storage"
	"redstalk/storage/embedded"
)

// readOptions reads the options of a subcommand that has no others.
func readOptions(command string, args []string, names map[string]bool, required ...string) (map[string]string, error) {
	rest, said, err := cutOptions(args, names)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, usageError("%s does not take %q", command, rest[0])
	}
	for _, name := range required {
		if said[name] == "" {
			return nil, usageError("%s needs %s", command, name)
		}
	}
	return said, nil
}

// backup is `redstalkd backup (--to PATH | --dir DIR [--keep N]) [--server HOST:PORT] [--user USER]`: it makes a server write a
// backup to a directory of the server's machine. --server is an address of its HTTP API. REDSTALK_HTTP and REDSTALK_AUTH_USER
// are used without these options, and the secret of the user is in REDSTALK_SECRET.
func (m *Main) backup(ctx context.Context, args []string, env func(string) (string, bool), stdout, _ io.Writer) error {
	said, err := readOptions("backup", args, map[string]bool{"--server": true, "--to": true, "--dir": true, "--keep": true, "--user": true})
	if err != nil {
		return err
	}
	body, err := backupBody(said)
	if err != nil {
		return err
	}
	ctx, cancel := m.untilSignal(ctx)
	defer cancel()
	client, r, err := backupRequest(ctx, said, env, body)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return failure(exitFailure, "asking the server for a backup: %w", err)
	}
	defer answer.Body.Close()
	return reportBackup(answer, stdout)
}

// backupBody returns the body of the request for a backup.
func backupBody(said map[string]string) ([]byte, error) {
	keep := 0
	switch to, dir, kept := said["--to"], said["--dir"], said["--keep"]; {
	case (to == "") == (dir == ""):
		return nil, usageError("backup needs either --to or --dir")
	case kept != "" && dir == "":
		return nil, usageError("--keep is for --dir")
	case kept != "":
		n, err := strconv.Atoi(kept)
		if err != nil || n < 1 {
			return nil, usageError("--keep: %q is not a number of backups, 1 or more", kept)
		}
		keep = n
	}
	paths := map[string]any{}
	for _, name := range []string{"to", "dir"} {
		if said["--"+name] == "" {
			continue
		}
		path, err := filepath.Abs(said["--"+name])
		if err != nil {
			return nil, failure(exitFailure, "%w", err)
		}
		paths[name] = path
	}
	if keep > 0 {
		paths["keep"] = keep
	}
	body, err := json.Marshal(paths)
	if err != nil {
		return nil, failure(exitFailure, "%w", err)
	}
	return body, nil
}

// backupRequest returns the request for a backup, and a client for it.
func backupRequest(ctx context.Context, said map[string]string, env func(string) (string, bool), body []byte) (*http.Client, *http.Request, error) {
	variable := func(name string) string { value, _ := env(name); return value }
	server := cmp.Or(said["--server"], variable("REDSTALK_HTTP"))
	if server == "" {
		return nil, nil, usageError("backup needs --server or REDSTALK_HTTP: the address of the server's HTTP API")
	}
	client, at := clientOf(server)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/v1/server/backup", bytes.NewReader(body))
	if err != nil {
		return nil, nil, usageError("the address of the server: %v", err)
	}
	r.Header.Set("Content-Type", "application/json")
	if user := cmp.Or(said["--user"], variable("REDSTALK_AUTH_USER")); user != "" {
		secret := variable("REDSTALK_SECRET")
		if secret == "" {
			return nil, nil, usageError("the secret of the user %s is missing: set REDSTALK_SECRET", user)
		}
		r.SetBasicAuth(user, secret)
	}
	return client, r, nil
}

// reportBackup prints the answer to a request for a backup.
func reportBackup(answer *http.Response, stdout io.Writer) error {
	var b struct {
		Detail  string `json:"detail"`
		Files   int    `json:"files"`
		Bytes   int64  `json:"bytes"`
		To      string `json:"to"`
		LastID  uint64 `json:"last_id"`
		Removed int    `json:"removed"`
	}
	err := json.NewDecoder(io.LimitReader(answer.Body, mebibyte)).Decode(&b)
	switch {
	case answer.StatusCode != http.StatusOK:
		return failure(exitFailure, "the server has written no backup (%s): %s", answer.Status, b.Detail)
	case err != nil:
		return failure(exitFailure, "reading the server's answer: %w", err)
	}
	fmt.Fprintf(stdout, "backup complete and verified: %s, %d files, %d bytes; the last id is %d\n", b.To, b.Files, b.Bytes, b.LastID)
	if b.Removed > 0 {
		fmt.Fprintf(stdout, "older backups removed: %d\n", b.Removed)
	}
	return nil
}

const mebibyte = 1 << 20

// clientOf returns a client for the HTTP API at HOST:PORT, unix:PATH or a URL, and the beginning of its URLs. It has no timeout:
// a backup takes as long as its files are large.
func clientOf(server string) (client *http.Client, base string) {
	if path, ok := strings.CutPrefix(server, unixPrefix); ok {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", fileName(path))
		}
		return &http.Client{Transport: &http.Transport{DialContext: dial}}, "http://localhost"
	}
	if u, err := url.Parse(server); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return http.DefaultClient, strings.TrimRight(server, "/")
	}
	return http.DefaultClient, "http://" + server
}

// verify is `redstalkd verify --from PATH`: it compares the files of a backup with their digests, and reports faults on
// stdout.
func (m *Main) verify(ctx context.Context, args []string, _ func(string) (string, bool), stdout, _ io.Writer) error {
	said, err := readOptions("verify", args, map[string]bool{"--from": true}, "--from")
	if err != nil {
		return err
	}
	ctx, cancel := m.untilSignal(ctx)
	defer cancel()
	b, faults, err := embedded.VerifyBackup(ctx, said["--from"])
	if err != nil {
		return failure(exitFailure, "verifying %s: %w", said["--from"], err)
	}
	for _, fault := range faults {
		fmt.Fprintln(stdout, oneLine(fault.Error()))
	}
	if len(faults) > 0 {
		return failure(exitWrong, "the backup %s is damaged: %d faults", said["--from"], len(faults))
	}
	fmt.Fprintf(stdout, "the backup is as it was written: %d files, %d bytes; the last id is %d\n", b.Files, b.Bytes, b.LastID)
	return nil
}

// restore is `redstalkd restore --from PATH --to DIR [--as buried]`: it makes the directory of an embedded engine from a
// backup.
func (m *Main) restore(ctx context.Context, args []string, _ func(string) (string, bool), stdout, stderr io.Writer) error {
	said, err := readOptions("restore", args, map[string]bool{"--from": true, "--to": true, "--as": true}, "--from", "--to")
	if err != nil {
		return err
	}
	if as := said["--as"]; as != "" && as != "buried" {
		return usageError("--as: %q is not buried, which is all there is", as)
	}
	ctx, cancel := m.untilSignal(ctx)
	defer cancel()
	r, err := embedded.Restore(ctx, embedded.RestoreOptions{
		From: said["--from"], To: said["--to"], Buried: said["--as"] != "",
		Log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	switch {
	case errors.Is(err, storage.ErrBackupPath):
		return failure(exitUsage, "restoring to %s: %w", said["--to"], err)
	case err != nil:
		return failure(exitFailure, "restoring %s: %w", said["--from"], err)
	}
	fmt.Fprintf(stdout, "restored to %s: %d files, %d bytes, made at %s; new jobs get ids after %d\n", said["--to"], r.Files, r.Bytes, r.Made.Format("2006-01-02T15:04:05Z"), r.After)
	if r.Buried > 0 {
		fmt.Fprintf(stdout, "%d jobs were buried\n", r.Buried)
	}
	return nil
}
