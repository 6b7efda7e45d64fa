package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"redstalk/server/access"
)

// secret is `redstalkd secret [--argon2id | --cost N]`: it reads a secret, one line, from
// standard input, and prints its hash for the file of users as the last line. At a terminal
// it asks for the secret twice, without echo.
func (m *Main) secret(_ context.Context, args []string, _ func(string) (string, bool), stdout, stderr io.Writer) error {
	cost, argon := access.DefaultBcryptCost, false
	for i := 0; i < len(args); i++ {
		value, isCost := strings.CutPrefix(args[i], "--cost=")
		switch {
		case args[i] == "--argon2id":
			argon = true
		case isCost, args[i] == "--cost" && i+1 < len(args):
			if !isCost {
				i++
				value = args[i]
			}
			n, err := strconv.Atoi(value)
			if err != nil {
				return failure(exitUsage, "--cost is a number")
			}
			cost = n
		default: // it may be the secret itself, so the message does not repeat it
			return failure(exitUsage, "use: redstalkd secret [--argon2id | --cost N], with the secret on standard input")
		}
	}
	secret, err := m.readSecret(stderr)
	if err != nil {
		return failure(exitUsage, "reading the secret: %w", err)
	}
	hash := func() (string, error) { return access.HashBcrypt(secret, cost) }
	if argon {
		hash = func() (string, error) { return access.HashArgon2id(secret) }
	}
	text, err := hash()
	if err != nil {
		return failure(exitUsage, "hashing the secret: %w", err)
	}
	_, err = fmt.Fprintln(stdout, text)
	return err
}

func (m *Main) readSecret(stderr io.Writer) (string, error) {
	if m.Stdin == nil {
		return "", errors.New("there is no standard input")
	}
	file, ok := m.Stdin.(*os.File)
	if ok && term.IsTerminal(int(file.Fd())) {
		return askSecret(int(file.Fd()), stderr)
	}
	const most = 4 << 10
	line, err := bufio.NewReader(io.LimitReader(m.Stdin, most)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), nil
}

// askSecret asks for a secret at a terminal, twice.
func askSecret(terminal int, stderr io.Writer) (string, error) {
	var typed [2]string
	for i, prompt := range []string{"Secret: ", "Again: "} {
		fmt.Fprint(stderr, prompt)
		text, err := term.ReadPassword(terminal)
		fmt.Fprintln(stderr)
		if err != nil {
			return "", err
		}
		typed[i] = string(text)
	}
	if typed[0] != typed[1] {
		return "", errors.New("the two are not the same")
	}
	return typed[0], nil
}
