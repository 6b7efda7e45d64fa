package redis

import (
	"embed"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/tube"
)

//go:embed lua
var luaFiles embed.FS

// scriptText is the one script of the engine.
var scriptText = source()

// script knows its hash.
var script = goredis.NewScript(scriptText)

// source joins the files in lua/, in the order of their names, and before the
// last of them those in lua/shared and lua/rare with the table of arrows, as a
// function.
func source() string {
	hot := luaText("lua")
	run := len(hot) - 1
	parts := append([]string{}, hot[:run]...)
	parts = append(parts, "function rare()\n", arrowTable())
	parts = append(parts, luaText("lua/shared")...)
	parts = append(parts, luaText("lua/rare")...)
	return strings.Join(append(parts, "end\n", hot[run]), "")
}

// luaText returns the files of a directory, in the order of their names.
func luaText(dir string) []string {
	files, err := luaFiles.ReadDir(dir)
	if err != nil {
		panic(err) // it is compiled in
	}
	var texts []string
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		text, err := luaFiles.ReadFile(dir + "/" + f.Name())
		if err != nil {
			panic(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// stateLetter is how the script names a state.
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

// arrowTable is tube.Arrows in Lua: move .. state letter → held flag, new state
// letter, counter digit; 'deleteV' = 'h--': only by the holder, gone, no
// counter.
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
