package redis

import (
	"embed"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/tube"
)

//go:embed lua
var luaFiles embed.FS

// scriptText is the one script of the engine.
var scriptText = luaSource("batch.lua")

// script knows its hash.
var script = goredis.NewScript(scriptText)

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
		what, is := strings.CutPrefix(code, include)
		data := luaData[what]
		switch {
		case !is && strings.HasPrefix(code, "--"):
			s.WriteString("\n")
		case !is:
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
