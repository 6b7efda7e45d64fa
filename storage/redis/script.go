package redis

import (
	"embed"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/tube"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is the one script of the engine: the table of arrows and the files
// in lua/, in the order of their names.
var script = goredis.NewScript(source())

func source() string {
	files, err := luaFiles.ReadDir("lua")
	if err != nil {
		panic(err) // it is compiled in
	}
	var s strings.Builder
	s.WriteString(arrowTable())
	for _, f := range files {
		text, err := luaFiles.ReadFile("lua/" + f.Name())
		if err != nil {
			panic(err)
		}
		s.Write(text)
	}
	return s.String()
}

// stateLetter is how a record names a state.
var stateLetter = map[tube.State]string{
	tube.Gone: "-", tube.Ready: "R", tube.Reserved: "V", tube.Delayed: "D", tube.Buried: "B",
}

// stateOf is the reverse of stateLetter.
func stateOf(letter string) tube.State {
	for state, l := range stateLetter {
		if l == letter {
			return state
		}
	}
	return tube.Gone
}

// arrowTable is tube.Arrows in Lua, as lua/10_batch.lua describes it.
func arrowTable() string {
	var s strings.Builder
	s.WriteString("local ARROWS = {\n")
	for _, a := range tube.Arrows() {
		held, counter := "-", "-"
		if a.Held {
			held = "h"
		}
		if a.Counts != tube.NoCounter {
			counter = fmt.Sprint(int(a.Counts) + 1)
		}
		fmt.Fprintf(&s, "  ['%s%s'] = '%s%s%s',\n", a.Move, stateLetter[a.From], held, stateLetter[a.To], counter)
	}
	s.WriteString("}\n")
	return s.String()
}
