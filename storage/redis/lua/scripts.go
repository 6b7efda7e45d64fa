package lua

import (
	"embed"
	"strings"
	"sync"

	"redstalk/storage/redis/conn"
)

// Files are the sources.
//
//go:embed *.lua bulk call check fast groups jobbatches named schedules shared slow tagged
var Files embed.FS

// Permissions is the script that tries the commands which calls need.
//
//go:embed check/permissions.lua
var Permissions string

// MainText is the source of the script that carries out calls.
var MainText = sync.OnceValue(func() string { return source("main.lua") })

// Main is that script with its hash.
var Main = sync.OnceValue(func() *conn.Script { return conn.NewScript(MainText()) })

// Load returns a function that loads the script in a file. It is put together at
// its first use, so that a program without Redis starts without it.
func Load(name string) func() *conn.Script {
	return sync.OnceValue(func() *conn.Script { return conn.NewScript(source(name)) })
}

// include begins a line of a file that stands for another file, or for what data
// returns under that name.
const include = "--include "

// source returns a file with all its includes. Comments become empty lines, because
// Redis keeps the source.
func source(name string) string {
	text, err := Files.ReadFile(name)
	if err != nil {
		panic(err) // it is compiled in
	}
	var s strings.Builder
	for line := range strings.Lines(string(text)) {
		code := strings.TrimSpace(line)
		what, ok := strings.CutPrefix(code, include)
		constants := data[what]
		switch {
		case !ok && strings.HasPrefix(code, "--"):
			s.WriteString("\n")
		case !ok:
			s.WriteString(strings.TrimLeft(line, " "))
		case constants != nil:
			s.WriteString(constants())
		default:
			s.WriteString(source(what))
		}
	}
	return s.String()
}
