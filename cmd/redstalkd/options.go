package main

import (
	"flag"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// option is a cli.Flag that is read from the command line or else from the
// environment, in that order. set is called for every time it was given.
type option struct {
	short   byte   // 0 if it has no short form
	name    string // the long form; for a hidden option the short one again
	value   string // the value's name in the help; "" for a switch
	help    string
	initial string // its value if it is not given, for the help
	hidden  bool   // known, but neither told in the help nor read from the environment

	set func(value string) error
	// checkVariable, if not nil, refuses values of the variable that the flag takes:
	// where the flag is as lenient as beanstalkd's, the variable need not be.
	checkVariable func(value string) error

	rivals []string // options that override it as if they were its own name

	reading *reading // while being parsed
}

// reading is the parsing of one command line.
type reading struct {
	line  *commandLine
	env   func(string) (string, bool)
	fault error    // the first wrong value, in words of our own: package flag would quote passwords
	links []string // variables that were ignored, see serviceLink
}

// serviceLink tells whether a variable is one that Kubernetes sets in every pod beside a service
// named redstalk: REDSTALK_PORT=tcp://10.96.0.12:11300, which is not meant for this program.
func serviceLink(name, value string) bool {
	scheme, addr, found := strings.Cut(value, "://")
	if !found || !strings.HasSuffix(name, "_PORT") || !slices.Contains([]string{"tcp", "udp", "sctp"}, scheme) {
		return false
	}
	_, err := netip.ParseAddrPort(addr)
	return err == nil
}

func (o *option) takesValue() bool { return o.value != "" }

// env is the name of the option's environment variable.
func (o *option) env() string {
	return "REDSTALK_" + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// title is the option as the command line has it.
func (o *option) title() string {
	switch {
	case o.hidden:
		return "-" + o.name
	case o.short == 0:
		return "--" + o.name
	}
	return fmt.Sprintf("-%c, --%s", o.short, o.name)
}

// String implements cli.Flag: what the help says of it.
func (o *option) String() string {
	title := o.title()
	if o.short == 0 {
		title = "    " + title
	}
	if o.takesValue() {
		title += " " + o.value
	}
	if o.set != nil {
		title += "  [" + o.env() + "]"
	}
	text := o.help
	if o.initial != "" {
		text += " (default " + o.initial + ")"
	}
	return fmt.Sprintf("  %s\n          %s", title, strings.ReplaceAll(text, "\n", "\n          "))
}

// Names implements cli.Flag.
func (o *option) Names() []string { return []string{o.name} }

// IsSet implements cli.Flag.
func (o *option) IsSet() bool { return o.reading != nil && o.reading.line.said[o.name] }

// IsVisible implements cli.VisibleFlag.
func (o *option) IsVisible() bool { return !o.hidden }

// Apply implements cli.Flag. The environment is read here, before the command
// line, and only if that says nothing of the matter.
func (o *option) Apply(set *flag.FlagSet) error {
	set.Var((*optionValue)(o), o.name, o.help)
	if o.hidden || o.set == nil || o.overridden() {
		return nil
	}
	value, _ := o.reading.env(o.env())
	if value == "" {
		return nil
	}
	if serviceLink(o.env(), value) {
		o.reading.links = append(o.reading.links, o.env())
		return nil
	}
	if err := o.setFromVariable(value); err != nil {
		return failure(exitUsage, "%s: %w", o.env(), scrub(value, err))
	}
	return nil
}

func (o *option) setFromVariable(value string) error {
	if o.checkVariable != nil {
		if err := o.checkVariable(value); err != nil {
			return err
		}
	}
	return o.set(value)
}

func (o *option) overridden() bool {
	said := o.reading.line.said
	for _, name := range o.rivals {
		if said[name] {
			return true
		}
	}
	return said[o.name]
}

// optionValue is the option as package flag sees it.
type optionValue option

func (v *optionValue) String() string { return "" }

func (v *optionValue) Set(value string) error {
	err := v.set(value)
	if err != nil && v.reading.fault == nil {
		v.reading.fault = failure(exitUsage, "%s: %w", (*option)(v).title(), scrub(value, err))
	}
	return err
}

// configure reads the command line and the environment. It returns nil
// settings if all that was asked for, help or the version, has been printed.
func configure(args []string, env func(string) (string, bool), stdout io.Writer) (*settings, error) {
	s := defaults()
	options := s.options()
	line, err := normalize(args, options)
	if err != nil {
		return nil, err
	}
	r := &reading{line: line, env: env}
	app := newApp(options, r, stdout)
	switch line.ask {
	case "version":
		fmt.Fprintln(stdout, "redstalkd", Version)
		return nil, nil
	case "help":
		app.Setup()
		return nil, cli.ShowAppHelp(cli.NewContext(app, nil, nil))
	}
	app.Action = func(*cli.Context) error {
		if len(r.links) > 0 {
			s.warn("ignoring %s, which Kubernetes has set for a service", strings.Join(r.links, ", "))
		}
		return s.finish(line)
	}
	if err := app.Run(append([]string{app.Name}, line.args...)); err != nil {
		return nil, err
	}
	return s, nil
}

// newApp puts the options together. Help, the version and errors are shown by
// configure and Main, in beanstalkd's way rather than cli's.
func newApp(options []*option, r *reading, stdout io.Writer) *cli.App {
	app := &cli.App{
		Name:                  "redstalkd",
		Usage:                 "a work queue that speaks the beanstalk protocol",
		Writer:                stdout,
		ErrWriter:             io.Discard,
		HideHelp:              true,
		HideVersion:           true,
		CustomAppHelpTemplate: helpTemplate,
		ExitErrHandler:        func(*cli.Context, error) {},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			if r.fault != nil {
				return r.fault
			}
			return err
		},
	}
	for _, o := range options {
		o.reading = r
		app.Flags = append(app.Flags, o)
	}
	return app
}

const helpTemplate = `Use: {{.Name}} [OPTIONS]
     {{.Name}} fsck [--repair] [OPTIONS]   compare the jobs in Redis with the queues
     {{.Name}} ouqiang [-c FILE] [OPTIONS]   serve in the place of ouqiang/delay-queue, by its configuration
     {{.Name}} zywaited [-f FILE] [OPTIONS]   the same for zywaited/delay-queue
     {{.Name}} import --from DIR [OPTIONS]  take over the jobs of a binlog of beanstalkd
     {{.Name}} export --to DIR [OPTIONS]    write the jobs as a binlog for beanstalkd
     {{.Name}} healthcheck [OPTIONS]        ask a server started with these options whether it answers
     {{.Name}} secret [--argon2id]         hash a secret for the file of --access

{{.Name}} is {{.Usage}}.
An option overrides its environment variable, named in brackets.

{{range .VisibleFlags}}{{.}}
{{end}}
Signals: SIGTERM and SIGINT end the server in good order, a second one at once;
SIGUSR1 makes it refuse every put from then on (drain mode), SIGUSR2 ends that.
With --access, TLS or --push-secrets, SIGHUP has their files read again.
`
