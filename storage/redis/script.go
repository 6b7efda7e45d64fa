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

// scriptText is the source of the main script of the engine.
var scriptText = sync.OnceValue(func() string { return luaSource("batch.lua") })

// script is the main script with its hash.
var script = sync.OnceValue(func() *goredis.Script { return goredis.NewScript(scriptText()) })

// scriptFrom returns a function that loads the script in a file of lua/. It is put together at
// its first use, so that a program without Redis starts without it.
func scriptFrom(name string) func() *goredis.Script {
	return sync.OnceValue(func() *goredis.Script { return goredis.NewScript(luaSource(name)) })
}

// include begins a line of a file in lua/ that stands for another file, or for what luaData
// returns under that name.
const include = "--include "

// luaSource returns a file of lua/ with all its includes. Comments become empty lines, because
// Redis keeps the source.
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

// stateWord returns the name of a state in scripts, which is that in keys and stats-job.
func stateWord(s tube.State) string {
	if s == tube.Gone {
		return "gone"
	}
	return s.String()
}

// stateOf is the inverse of stateWord.
func stateOf(word string) tube.State {
	for _, s := range []tube.State{tube.Ready, tube.Reserved, tube.Delayed, tube.Buried} {
		if stateWord(s) == word {
			return s
		}
	}
	return tube.Gone
}
