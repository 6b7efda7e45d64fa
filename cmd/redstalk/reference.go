package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/urfave/cli/v2"
)

func manCommand() *cli.Command {
	return &cli.Command{
		Name: "man", Action: withoutServer(noArguments, man),
		Usage: "print the man page: redstalk man | man -l -",
	}
}

func man(t *task) error {
	_, err := t.out.Write(manPage(t.App))
	return outputError(err)
}

func referenceCommand() *cli.Command {
	return &cli.Command{
		Name: "reference", Hidden: true, Action: withoutServer(noArguments, func(t *task) error {
			_, err := io.WriteString(t.out, reference(t.App))
			return outputError(err)
		}),
		Usage: "print the generated part of docs/cli.md",
	}
}

// categories returns the sections of the help in its order, and their commands.
func categories(app *cli.App) (names []string, commands map[string][]*cli.Command) {
	commands = make(map[string][]*cli.Command)
	for _, c := range app.VisibleCommands() {
		if commands[c.Category] == nil {
			names = append(names, c.Category)
		}
		commands[c.Category] = append(commands[c.Category], c)
	}
	return names, commands
}

// reference returns all commands and flags as Markdown.
func reference(app *cli.App) string {
	var out strings.Builder
	out.WriteString("## Flags of every command\n\n")
	flagTable(&out, app.VisibleFlags())
	out.WriteString("\n## Exit codes\n\n| code | meaning |\n|---|---|\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&out, "| %d | %s |\n", e.code, e.meaning)
	}
	names, commands := categories(app)
	for _, category := range names {
		fmt.Fprintf(&out, "\n## %s\n", category)
		for _, c := range commands[category] {
			fmt.Fprintf(&out, "\n### %s\n\n`redstalk %s`\n\n%s.\n", c.Name, synopsis(c), sentence(c.Usage))
			if c.Description != "" {
				fmt.Fprintf(&out, "\n%s\n", c.Description)
			}
			if flags := c.VisibleFlags(); len(flags) > 0 {
				out.WriteString("\n")
				flagTable(&out, flags)
			}
		}
	}
	return out.String()
}

func synopsis(c *cli.Command) string {
	text := c.Name
	if len(c.VisibleFlags()) > 0 {
		text += " [FLAGS]"
	}
	return strings.TrimSpace(text + " " + c.ArgsUsage)
}

func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// flagText returns the parts of a flag's description: its form, its variable, its default, and its meaning.
func flagText(f cli.Flag) (form, variable, initially, meaning string) {
	d := f.(cli.DocGenerationFlag)
	value, meaning := valueName(d.GetUsage())
	for i, name := range f.Names() {
		dashes := "--"
		if len(name) == 1 {
			dashes = "-"
		}
		if i > 0 {
			form += ", "
		}
		form += dashes + name
	}
	if d.TakesValue() {
		form += " " + value
		if initially = d.GetDefaultText(); initially == "" {
			initially = d.GetValue()
		}
	}
	initially = strings.Trim(initially, `"`)
	if initially == "0" && (value == "N" || value == "PRI") || initially == "[]" || initially == "0ms" {
		initially = ""
	}
	return form, strings.Join(d.GetEnvVars(), ", "), initially, meaning
}

// valueName returns the name in backquotes of a flag's text, and the text without the backquotes.
func valueName(text string) (name, plain string) {
	if parts := strings.SplitN(text, "`", 3); len(parts) == 3 {
		name = parts[1]
	}
	return name, strings.ReplaceAll(text, "`", "")
}

func flagTable(out *strings.Builder, flags []cli.Flag) {
	out.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	for _, f := range flags {
		form, variable, initially, meaning := flagText(f)
		if variable != "" {
			meaning += ". Variable `" + variable + "`"
		}
		if initially != "" {
			initially = "`" + initially + "`"
		}
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", form, initially, strings.ReplaceAll(meaning, "|", `\|`))
	}
}

// manPage returns all commands and flags as a man page.
func manPage(app *cli.App) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "%% redstalk 1\n\n# NAME\n\nredstalk - %s\n\n# SYNOPSIS\n\n**redstalk** [FLAGS] COMMAND [FLAGS] [ARGUMENTS]\n\n", app.Usage)
	out.WriteString("# FLAGS\n\nThese flags, and those of the commands, can stand anywhere on the line.\n\n")
	flagList(&out, app.VisibleFlags())
	names, commands := categories(app)
	for _, category := range names {
		fmt.Fprintf(&out, "# %s\n\n", strings.ToUpper(category))
		for _, c := range commands[category] {
			fmt.Fprintf(&out, "## redstalk %s\n\n%s.\n\n", manText(synopsis(c)), manText(sentence(c.Usage)))
			if c.Description != "" {
				fmt.Fprintf(&out, "%s\n\n", manText(c.Description))
			}
			flagList(&out, c.VisibleFlags())
		}
	}
	out.WriteString("# EXIT STATUS\n\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&out, "**%d**\n: %s\n\n", e.code, e.meaning)
	}
	return md2man.Render([]byte(out.String()))
}

func flagList(out *strings.Builder, flags []cli.Flag) {
	for _, f := range flags {
		form, variable, initially, meaning := flagText(f)
		if initially != "" {
			meaning += ". Default: " + initially
		}
		if variable != "" {
			meaning += ". Variable: " + variable
		}
		fmt.Fprintf(out, "**%s**\n: %s\n\n", manText(form), manText(meaning))
	}
}

// manText escapes characters that are special in Markdown.
func manText(text string) string {
	return strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`).Replace(text)
}
