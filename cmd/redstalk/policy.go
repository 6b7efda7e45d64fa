package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"redstalk/protocol"
	"redstalk/protocol/client"
	"redstalk/tube/field"
)

func policyCommand() *cli.Command {
	var tags strings.Builder
	for _, tag := range protocol.TagsIn(field.InPolicy) {
		fmt.Fprintf(&tags, " %s:%s", tag.Name, tag.Kind)
	}
	return &cli.Command{
		Name: "policy", ArgsUsage: "[TUBE|PREFIX* [TAG:VALUE...]]", Action: withConn(anyNumber, policy),
		Usage:       "list the tubes with a policy, show the policy that applies to a tube, with what comes from prefixes of its name, or set one of a tube or a prefix (extension policy)",
		Description: "Tags:" + tags.String() + ". They replace the previous policy. Example: retry:10s,1m max:10 on-duplicate:keep.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tube", Aliases: []string{"t"}, Usage: "`TUBE` or PREFIX*, instead of the first argument"},
			&cli.BoolFlag{Name: "remove", Usage: "remove the policy"},
		},
	}
}

func policy(t *task) error {
	if err := t.require("policy", "policy"); err != nil {
		return err
	}
	words := t.Args().Slice()
	if tube := t.String("tube"); tube != "" {
		words = append([]string{tube}, words...)
	}
	for _, w := range words {
		if err := checkWord("a tag", w); err != nil {
			return err
		}
	}
	switch {
	case len(words) == 0:
		return listPolicies(t)
	case t.Bool("remove") && len(words) > 1:
		return usage("--remove takes a tube only")
	case t.Bool("remove") || len(words) > 1:
		doing := "setting the policy of " + words[0]
		r, err := t.request(doing, "set-policy "+strings.Join(words, " "))
		if err == nil && string(r.Line) != "SET" {
			err = explained(replyError(doing, r), r, strings.Join(words[1:], " "), field.InPolicy)
		}
		if err != nil {
			return err
		}
		return t.printDone(map[string]any{"set": words[0]}, "policy of %s set", words[0])
	}
	return showPolicy(t, words[0])
}

// showPolicy shows the policy that applies to a tube: its own tags, and those that come from policies of prefixes, with these.
func showPolicy(t *task, name string) error {
	sources, err := t.policiesFor(name)
	if err != nil {
		return err
	}
	tags, inherited := map[string]any{}, map[string]string{}
	b := &table{head: []string{"", "", ""}, left: 3}
	for _, source := range sources {
		for tag, value := range dictionary(source.page) {
			if tags[tag] == nil && source.name != name {
				inherited[tag] = source.name
			}
			if tags[tag] == nil {
				tags[tag] = value
			}
		}
		for tag, value := range entries(source.page) {
			if of := inherited[tag]; source.name == name {
				b.add(tag, unquoted(value), "")
			} else if of == source.name {
				b.add(tag, unquoted(value), "from "+of)
			}
		}
	}
	if len(inherited) > 0 {
		tags["inherited"] = inherited
	}
	return t.result(tags, b.printRows)
}

// namedPolicy is the policy of a tube or a prefix.
type namedPolicy struct {
	name string
	page client.Page
}

// policiesFor returns the policies that apply to a tube, in the order in which they do: its own, if it has one, and then those
// of prefixes, the longest first, as far as the user may list policies.
func (t *task) policiesFor(name string) (all []namedPolicy, err error) {
	names := []string{name}
	if !strings.HasSuffix(name, "*") {
		listed, _ := t.names("listing policies", "list-policies") // the user may lack the right
		for _, other := range listed {
			if prefix, is := strings.CutSuffix(other, "*"); is && strings.HasPrefix(name, prefix) {
				names = append(names, other)
			}
		}
		slices.SortFunc(names[1:], func(a, b string) int { return len(b) - len(a) })
	}
	err = t.pipeline("reading policies", len(names), func(out []byte, i int) []byte { return fmt.Appendf(out, "get-policy %s\r\n", names[i]) }, func(i int, r *client.Reply) error {
		if r.Word == client.OK {
			all = append(all, namedPolicy{names[i], client.Page(r.Body)})
		} else if r.Word != client.NotFound {
			return replyError("asking for the policy of "+names[i], r)
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = notFound("asking for the policy of %s: not found (NOT_FOUND)", name)
	}
	return all, err
}

func listPolicies(t *task) error {
	names, err := t.names("listing policies", "list-policies")
	if err != nil {
		return err
	}
	return t.result(names, func(w io.Writer) error { return printNames(w, names) })
}
