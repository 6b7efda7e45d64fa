package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// examples are shown in the help of each command.
var examples = map[string][]string{
	"put":          {"redstalk put -t mails 'to: ada@example.com'", "redstalk put -t mails --delay 10m --retry 1m,10m --max 5 <mail.txt", "redstalk put -t sums 2+2 --wait 30s", "printf 'one\\ntwo\\n' | redstalk put -t mails --lines"},
	"reserve":      {"redstalk reserve -t mails --wait 10s", "redstalk reserve -t mails --wait forever --jobs 4 --exec ./send-mail"},
	"peek":         {"redstalk peek 7", "redstalk peek -t mails --state buried"},
	"list":         {"redstalk list -t mails", "redstalk list mails --state buried --all --json", "redstalk list mails --group customer-4711 --since 2h"},
	"search":       {"redstalk search customer-4711", "redstalk search '{\"customer\": {\"id\": 4711}}' --state buried"},
	"find":         {"redstalk find -t mails order-7"},
	"ended":        {"redstalk ended mails", "redstalk ended mails --how dead --reason 'no such user'", "redstalk ended batch:nightly --json"},
	"wait":         {"redstalk wait 7", "redstalk wait 7 --wait 10m"},
	"delete":       {"redstalk delete 7 8", "redstalk delete 7 --lease 00000000000000000002"},
	"finish":       {"redstalk finish 7 --lease 00000000000000000002 'sent at 12:05'"},
	"kick":         {"redstalk kick -t mails all", "redstalk kick --id 7"},
	"replay":       {"redstalk replay 7", "redstalk replay 7 --keep-checkpoint", "redstalk replay unpaid --reason card_declined --dry-run", "redstalk replay unpaid --reason card_declined --rate 50/s"},
	"take-back":    {"redstalk take-back 7"},
	"bury":         {"redstalk bury 7 --lease 00000000000000000002"},
	"release":      {"redstalk release 7 --lease 00000000000000000002 --delay 5m"},
	"touch":        {"redstalk touch 7 --lease 00000000000000000002", "redstalk touch 7 --lease 00000000000000000002 --progress '450/1000'"},
	"checkpoint":   {"redstalk checkpoint 7", "redstalk checkpoint 7 >state.json"},
	"reschedule":   {"redstalk reschedule 7 30m"},
	"set-priority": {"redstalk set-priority 7 10"},
	"tubes":        {"redstalk tubes --sort ready", "redstalk tubes --filter 'mail*' --json"},
	"top":          {"redstalk top", "redstalk top --filter mails --count 1 --json"},
	"history":      {"redstalk history mails", "redstalk history --days --count 90"},
	"parked":       {"redstalk parked", "redstalk parked --reasons", "redstalk parked mails --reason timeout --json"},
	"pause":        {"redstalk pause -t mails 10m", "redstalk pause -t mails 0"},
	"flush":        {"redstalk flush -t mails --state buried", "redstalk flush -t mails --yes"},
	"move":         {"redstalk move -t mails --to other all", "redstalk move -t mails --state buried --to morgue --yes"},
	"policy":       {"redstalk policy mails", "redstalk policy mails retry:1m,10m max:5 dead:morgue", "redstalk policy --remove mails"},
	"groups":       {"redstalk groups -t mails"},
	"group":        {"redstalk group customer-7 -t mails", "redstalk group customer-7 -t mails concurrency:2"},
	"schedules":    {"redstalk schedules", "redstalk schedules apply schedules.yml --dry-run"},
	"batches":      {"redstalk batches"},
	"batch":        {"redstalk batch nightly", "redstalk batch seal nightly"},
	"status":       {"redstalk status", "redstalk status --filter 'mail*' --json"},
	"stats":        {"redstalk stats", "redstalk stats -t mails", "redstalk stats 7"},
	"clients":      {"redstalk clients"},
	"close-client": {"redstalk close-client 127.0.0.1:40404", "redstalk close-client mailer-1"},
	"drain":        {"redstalk drain --wait 20s", "redstalk drain --off"},
	"export":       {"redstalk export >jobs.jsonl", "redstalk export -t mails | gzip >mails.gz"},
	"import":       {"redstalk import jobs.jsonl", "redstalk import -t other <jobs.jsonl"},
	"move-from":    {"redstalk move-from old.example.com:11300 --to 127.0.0.1:11300 --wait"},
	"outbox":       {"redstalk outbox schema --database postgres://app@127.0.0.1/shop --create", "redstalk outbox --database sqlite:/var/lib/shop/app.db", "redstalk outbox --http 127.0.0.1:9190"},
	"completion":   {"source <(redstalk completion bash)"},
	"man":          {"redstalk man | man -l -"},
	"help":         {"redstalk help put"},
	"version":      {"redstalk version"},
}

// helpTemplate returns the template of the help of a command: that of the library, and examples.
func helpTemplate(name string) string {
	return cli.CommandHelpTemplate + "\nEXAMPLES:\n   " + strings.Join(examples[name], "\n   ") + "\n"
}

func helpCommand() *cli.Command {
	return &cli.Command{
		Name: "help", ArgsUsage: "[COMMAND]", Action: withoutServer(arguments{0, 1}, help),
		Usage: "show the commands, or the help of one",
	}
}

func help(t *task) error {
	switch name := t.Args().First(); {
	case name == "":
		return cli.ShowAppHelp(t.Context)
	case t.App.Command(name) == nil:
		return usage("there is no command %q; redstalk help lists them", name)
	default:
		return cli.ShowCommandHelp(t.Context, name)
	}
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Action: withoutServer(noArguments, func(t *task) error {
			cli.ShowVersion(t.Context)
			return nil
		}),
		Usage: "print the version",
	}
}
