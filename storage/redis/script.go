package redis

import (
	"embed"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/tube"
)

//go:embed lua
var luaFiles embed.FS

// scriptText is the one script of the engine.
var scriptText = sync.OnceValue(func() string { return luaSource("batch.lua") })

// script knows its hash.
var script = sync.OnceValue(func() *goredis.Script { return goredis.NewScript(scriptText()) })

// scriptFrom returns a script that is in a file in lua/. It is put together when it is first
// wanted: a program that does not use Redis starts without it.
func scriptFrom(name string) func() *goredis.Script {
	return sync.OnceValue(func() *goredis.Script { return goredis.NewScript(luaSource(name)) })
}

// include begins a line of a file in lua/ whose place another file takes, or
// what luaData returns under that name.
const include = "--include "

// luaSource returns a file in lua/ with all that it includes. Where it has comments
// there are empty lines, because Redis keeps what it is sent.
func luaSource(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name)
	if err != nil {
		panic(err) // it is compiled in
	}
	var s strings.Builder
	for line := range strings.Lines(string(text)) {
		code := strings.TrimSpace(line)
		what, ok := strings.CutPrefix(code, include)
		data := luaData[what]
		switch {
		case !ok && strings.HasPrefix(code, "--"):
			s.WriteString("\n")
		case !ok:
			s.WriteString(strings.TrimLeft(line, " "))
		case data != nil:
			s.WriteString(data())
		default:
			s.WriteString(luaSource(what))
		}
	}
	return s.String()
}

// stateWord is how scripts name a state: as keys do, and stats-job.
func stateWord(s tube.State) string {
	if s == tube.Gone {
		return "gone"
	}
	return s.String()
}

// stateOf is the reverse of stateWord.
func stateOf(word string) tube.State {
	for _, s := range []tube.State{tube.Ready, tube.Reserved, tube.Delayed, tube.Buried} {
		if stateWord(s) == word {
			return s
		}
	}
	return tube.Gone
}
