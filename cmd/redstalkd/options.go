package main

import (
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"redstalk/server"
	"redstalk/storage/redact"
)

// option is a row of the table of flags. Its value comes from the command line, else from the
// environment. set is called once for each time that the option is given.
type option struct {
	short   byte   // 0: no short form
	name    string // the long form; for a hidden option the short one again
	value   string // the name of its value in the help; "" for a switch
	help    string
	initial string // the default, for the help
	hidden  bool   // accepted, but not in the help and without a variable

	set func(value string) error // nil for --help and --version

	// checkVariable, if not nil, refuses values of the variable that the flag accepts: the
	// flag is as lenient as beanstalkd's, and the variable need not be.
	checkVariable func(value string) error

	rivals []string // options on the command line that override the variable of this one

	repeated bool // further values are added to the first one, and do not replace it
}

func (o *option) takesValue() bool { return o.value != "" }

// variablePrefix is what the names of all variables begin with.
const variablePrefix = "REDSTALK_"

// env is the name of the option's environment variable.
func (o *option) env() string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// title is the option as it is written on the command line.
func (o *option) title() string {
	switch {
	case o.hidden:
		return "-" + o.name
	case o.short == 0:
		return "--" + o.name
	}
	return fmt.Sprintf("-%c, --%s", o.short, o.name)
}

// String returns the option's entry in the help.
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

// isServiceLink reports whether a variable is one that Kubernetes sets in every pod when there is
// a service named redstalk: REDSTALK_PORT=tcp://10.96.0.12:11300. It is not meant for this program.
func isServiceLink(name, value string) bool {
	scheme, addr, found := strings.Cut(value, "://")
	if !found || !strings.HasSuffix(name, "_PORT") || !slices.Contains([]string{"tcp", "udp", "sctp"}, scheme) {
		return false
	}
	_, err := netip.ParseAddrPort(addr)
	return err == nil
}

// ofService matches what Kubernetes adds to the prefix in the variables of services whose names begin with redstalk.
var ofService = regexp.MustCompile(`^(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// clientVariables are those of the program redstalk, which can have the same environment.
var clientVariables = map[string]bool{
	"SERVER": true, "TIMEOUT": true, "AUTH_USER": true, "SECRET": true, "SECRET_FILE": true, "TLS_CA": true, "TLS_NAME": true,
	"CLIENT_TLS": true, "CLIENT_TLS_CA": true, "CLIENT_TLS_CERT": true, "CLIENT_TLS_KEY": true, "CLIENT_TLS_NAME": true,
	"JOB_ID": true, "JOB_TUBE": true, "JOB_RESERVES": true,
}

// configure is readSettings for subcommands, which do not have --check.
func configure(args []string, env func(string) (string, bool), stdout io.Writer) (*settings, error) {
	s, err := readSettings(args, env, stdout)
	if err == nil && s != nil && s.check {
		return nil, usageError("--check is for the server, and not for a subcommand")
	}
	return s, err
}

// readSettings reads the command line and the environment. It returns nil settings if it has printed
// all that was asked for: the help, the version or the fields.
func readSettings(args []string, env func(string) (string, bool), stdout io.Writer) (*settings, error) {
	s := defaults()
	options := s.options()
	line, err := parseArgs(args, options)
	if err != nil {
		return nil, err
	}
	switch line.ask {
	case "version":
		fmt.Fprintln(stdout, "redstalkd", Version)
		return nil, nil
	case "fields":
		return nil, server.WriteFields(stdout)
	case "help":
		return nil, printHelp(stdout, options)
	}
	s.check = line.check
	if err := s.readEnvironment(options, line, env); err != nil {
		return nil, err
	}
	for _, g := range line.flags {
		if err := g.set(g.text); err != nil {
			return nil, failure(exitUsage, "%s: %w", g.title(), redact.Error(g.text, err))
		}
		s.record(g.option, g.text, "--"+g.name)
	}
	return s, s.finish(line)
}

// readEnvironment sets the options that the command line does not give from their variables. An
// empty variable counts as unset.
func (s *settings) readEnvironment(options []*option, line *commandLine, env func(string) (string, bool)) error {
	var links []string
	for _, o := range options {
		value, _ := env(o.env())
		switch {
		case value == "" || o.hidden || o.set == nil || line.overrides(o):
			continue
		case isServiceLink(o.env(), value):
			links = append(links, o.env())
			continue
		}
		var err error
		if o.checkVariable != nil {
			err = o.checkVariable(value)
		}
		if err == nil {
			err = o.set(value)
		}
		if err != nil {
			return failure(exitUsage, "%s: %w", o.env(), redact.Error(value, err))
		}
		s.record(o, value, o.env())
	}
	if len(links) > 0 {
		s.warn("ignoring %s, which Kubernetes has set for a service", strings.Join(links, ", "))
	}
	return nil
}

func printHelp(w io.Writer, options []*option) error {
	var list strings.Builder
	for _, o := range options {
		if !o.hidden {
			fmt.Fprintln(&list, o)
		}
	}
	_, err := fmt.Fprintf(w, helpText, list.String())
	return err
}

const helpText = `Use: redstalkd [OPTIONS]
     redstalkd fsck [--repair] [OPTIONS]    check the jobs in Redis, or in the directory of a stopped server
     redstalkd ouqiang [-c FILE] [OPTIONS]  serve in place of ouqiang/delay-queue, with its configuration
     redstalkd zywaited [-f FILE] [OPTIONS] the same for zywaited/delay-queue
     redstalkd import --from DIR [OPTIONS]  import the jobs of a binlog of beanstalkd
     redstalkd export --to DIR [OPTIONS]    write the jobs as a binlog for beanstalkd
     redstalkd backup --server HOST:PORT --to PATH [--user USER]
                                            make a server write a backup of its embedded engine
     redstalkd verify --from PATH           compare the files of a backup with its manifest
     redstalkd restore --from PATH --to DIR [--as buried]
                                            make the directory of an embedded engine from a backup
     redstalkd healthcheck [OPTIONS]        check that a server started with these options answers
     redstalkd secret [--argon2id]          hash a secret for the file of --access

redstalkd is a work queue that speaks the beanstalk protocol.
An option overrides its environment variable, named in brackets.

%s
Signals: SIGTERM and SIGINT end the server in good order, a second one at once;
SIGUSR1 starts drain mode, in which every put is refused, and SIGUSR2 ends it.
SIGHUP makes the server read the files of --access, TLS and --push-secrets again,
and open that of --audit again.
`
