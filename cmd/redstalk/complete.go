package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol"
	"redstalk/protocol/client"
	"redstalk/tube/field"
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", ArgsUsage: "bash|zsh|fish", Action: withoutServer(arguments{1, 1}, completion),
		Usage: "print the completion script for a shell",
		Description: "bash: source <(redstalk completion bash). zsh: source <(redstalk completion zsh), after compinit. fish: redstalk completion fish | source. " +
			"Names of tubes come from the server, which has half a second to answer.",
	}
}

// completionScripts has the script for each shell. It passes the typed words, the last of which is to be
// completed, to `redstalk complete`, which prints the candidates: one per line, followed by a TAB
// and a description. A candidate can contain characters that are special to a shell: the script
// for bash quotes them, the other shells do it themselves.
var completionScripts = map[string]string{
	"bash": `_redstalk() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    printf -v line %q "${line%%$'\t'*}"
    COMPREPLY+=("$line")
  done < <(redstalk complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _redstalk redstalk
`,
	"zsh": `#compdef redstalk
_redstalk() {
  local -a found
  local line
  while IFS= read -r line; do
    line=${line//:/\\:}
    found+=("${line/$'\t'/:}")
  done < <(redstalk complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( $#found )); then _describe 'redstalk' found; else _files; fi
}
compdef _redstalk redstalk
`,
	"fish": `function __redstalk_complete
  set -l words (commandline -opc) (commandline -ct)
  redstalk complete -- $words[2..-1] 2>/dev/null
end
complete -c redstalk -f -a '(__redstalk_complete)'
complete -c redstalk -n '__fish_seen_subcommand_from import' -F
`,
}

func completion(t *task) error {
	script, ok := completionScripts[t.Args().First()]
	if !ok {
		return usage("there is completion for bash, zsh and fish, not for %q", t.Args().First())
	}
	_, err := io.WriteString(t.out, script)
	return outputError(err)
}

func completeCommand() *cli.Command {
	return &cli.Command{
		Name: "complete", Hidden: true, Action: withoutServer(anyNumber, complete),
		Usage: "print the completions of the last argument",
	}
}

func complete(t *task) error {
	words := t.Args().Slice()
	if len(words) == 0 {
		words = []string{""}
	}
	for _, c := range candidates(t, words[:len(words)-1], words[len(words)-1]) {
		if strings.HasPrefix(c.text, words[len(words)-1]) {
			fmt.Fprintf(t.out, "%s\t%s\n", c.text, c.meaning)
		}
	}
	return nil
}

type candidate struct{ text, meaning string }

// candidates returns the possible values of a word after the words before it.
func candidates(t *task, before []string, word string) []candidate {
	var command *cli.Command
	for _, w := range before {
		if command == nil {
			command = t.App.Command(w)
		}
	}
	flags := t.App.VisibleFlags()
	if command != nil {
		flags = append(slices.Clone(command.VisibleFlags()), flags...)
	}
	if len(before) > 0 && strings.HasPrefix(before[len(before)-1], "-") {
		if f := findFlag(flags, before[len(before)-1]); f != nil && takesValue(f) {
			return valuesOf(t, before, f)
		}
	}
	if strings.HasPrefix(word, "-") {
		return flagCandidates(flags)
	}
	if command == nil {
		return commandCandidates(t.App)
	}
	return argumentsOf(t, before, command)
}

func flagCandidates(flags []cli.Flag) (found []candidate) {
	for _, f := range flags {
		meaning := f.(cli.DocGenerationFlag).GetUsage()
		found = append(found, candidate{"--" + f.Names()[0], strings.ReplaceAll(meaning, "`", "")})
	}
	return found
}

func commandCandidates(app *cli.App) (found []candidate) {
	for _, c := range app.VisibleCommands() {
		found = append(found, candidate{c.Name, c.Usage})
	}
	return found
}

// valuesOf returns the possible values of a flag.
func valuesOf(t *task, before []string, f cli.Flag) []candidate {
	if strings.Contains(f.(cli.DocGenerationFlag).GetUsage(), "`TUBE`") {
		return tubeCandidates(t, before)
	}
	switch f.Names()[0] {
	case "on-duplicate":
		return plainCandidates(field.OnDuplicateWords[1:]...)
	case "state":
		return plainCandidates(states...)
	case "on-failure":
		return plainCandidates("auto", "release", "bury")
	case "sort":
		return plainCandidates("name", "ready", "delayed", "reserved", "buried", "waiting", "puts", "deletes")
	case "wait":
		return plainCandidates("forever", "10s", "1m")
	}
	return nil
}

// argumentsOf returns the possible arguments of a command.
func argumentsOf(t *task, before []string, command *cli.Command) []candidate {
	switch command.Name {
	case "policy":
		found := tubeCandidates(t, before)
		for _, tag := range protocol.TagsIn(field.InPolicy) {
			found = append(found, candidate{tag.Name + ":", strings.ReplaceAll(tag.Help, "`", "")})
		}
		return found
	case "history":
		return tubeCandidates(t, before)
	case "move":
		return plainCandidates("all")
	case "schedules":
		return plainCandidates(slices.Sorted(maps.Keys(scheduleActions))...)
	case "batch":
		return plainCandidates(slices.Sorted(maps.Keys(batchActions))...)
	case "kick":
		return plainCandidates("1", "10", "100", "all")
	case "completion":
		return plainCandidates("bash", "zsh", "fish")
	}
	return nil
}

func plainCandidates(texts ...string) (found []candidate) {
	for _, text := range texts {
		found = append(found, candidate{text, ""})
	}
	return found
}

// tubeCandidates requests the names of tubes from the server of the command line. If that fails,
// there are none.
func tubeCandidates(t *task, before []string) (found []candidate) {
	addr := t.String("server")
	for i, w := range before {
		if value, ok := strings.CutPrefix(w, "--server="); ok {
			addr = value
		} else if (w == "--server" || w == "-s") && i+1 < len(before) {
			addr = before[i+1]
		}
	}
	l, err := newDialer(t)
	if err != nil {
		return nil
	}
	l.addr, l.limit = addr, time.Second/2
	var conn *client.Conn
	if conn, err = l.connect(); err != nil {
		return nil
	}
	defer conn.Close()
	names, err := (&task{Context: t.Context, dialer: l, conn: conn}).names("listing tubes", "list-tubes")
	if err != nil {
		return nil
	}
	return plainCandidates(slices.DeleteFunc(names, func(name string) bool { return checkWord("", name) != nil })...)
}
