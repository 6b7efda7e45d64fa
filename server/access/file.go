package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// anonymous is the name of the user that those are who have not said who they are.
const anonymous = "anonymous"

// document is the file as it is written.
type document struct {
	Users []struct {
		Name    string   `yaml:"name"`
		Secrets []string `yaml:"secrets"`
		Rights  []struct {
			Tubes []string `yaml:"tubes"`
			May   []string `yaml:"may"`
		} `yaml:"rights"`
		Limits struct {
			Connections int64 `yaml:"connections"`
			Jobs        int64 `yaml:"jobs-per-second"`
			Bytes       int64 `yaml:"bytes-per-second"`
		} `yaml:"limits"`
	} `yaml:"users"`
}

// file is what one reading of the file has brought. It never changes, but for what is
// remembered in it.
type file struct {
	users     map[string]*User
	anonymous *User
	decoys    []hash // as many as any user has secrets: what a wrong name is compared with
	known     remembered
}

// parseFile reads the text of a file of users. accountOf gives each its account. No error
// holds anything of the text but names of users.
func parseFile(text []byte, accountOf func(name string) *account) (*file, error) {
	var d document
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&d); err != nil {
		return nil, describeYAML(err)
	}
	if err := decoder.Decode(new(document)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one YAML document in it")
	}
	f := &file{users: make(map[string]*User)}
	for i := range d.Users {
		u, err := d.user(i)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", nameIn(&d, i), err)
		}
		if f.users[u.name] != nil {
			return nil, fmt.Errorf("user %s is there twice", u.name)
		}
		u.account = accountOf(u.name)
		f.users[u.name] = u
	}
	if f.anonymous = f.users[anonymous]; f.anonymous == nil {
		f.anonymous = &User{name: anonymous, account: accountOf(anonymous)}
	}
	f.makeDecoys()
	f.known.logins = make(map[digest]*Login)
	return f, nil
}

var yamlLine = regexp.MustCompile(`\bline (\d+)`)

// describeYAML says where a file is wrong. The library's own words quote what they are
// about, which may be a secret.
func describeYAML(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty; a file without users says users: []")
	}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("line %s is not YAML, or not what belongs there", m[1])
	}
	return errors.New("it is not the YAML that it should be")
}

// nameIn is how an error names a user.
func nameIn(d *document, i int) string {
	if name := d.Users[i].Name; validUser(name) {
		return name
	}
	return fmt.Sprintf("number %d", i+1)
}

// user checks and makes the i-th user.
func (d *document) user(i int) (*User, error) {
	from := &d.Users[i]
	u := &User{name: from.Name, limits: limits{from.Limits.Connections, from.Limits.Jobs, from.Limits.Bytes}}
	if !validUser(u.name) {
		return nil, fmt.Errorf("a name is 1 to %d printable characters of ASCII without spaces", MaxUser)
	}
	if u.limits.connections < 0 || u.limits.jobs < 0 || u.limits.bytes < 0 {
		return nil, errors.New("a limit is negative")
	}
	for _, text := range from.Secrets {
		h, err := parseHash(text)
		if err != nil {
			return nil, err
		}
		u.secrets = append(u.secrets, h)
	}
	if len(u.secrets) > 0 && (u.name == anonymous || slices.Contains([]byte(u.name), ':')) {
		return nil, errors.New("it has secrets; anonymous has none, and names with a colon are for certificates")
	}
	if len(u.secrets) > maxSecrets {
		return nil, fmt.Errorf("it has more than %d secrets", maxSecrets)
	}
	for _, right := range from.Rights {
		r, err := ruleOf(right.Tubes, right.May)
		if err != nil {
			return nil, err
		}
		u.rules = append(u.rules, r)
	}
	u.sum()
	return u, nil
}

// maxSecrets bounds what one attempt to come in may cost.
const maxSecrets = 8

// MaxUser is the longest name of a user, in bytes.
const MaxUser = 128

// validUser reports whether a name can be that of a user.
func validUser(name string) bool {
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' {
			return false
		}
	}
	return name != "" && len(name) <= MaxUser
}

// globForm has no bound in it: a repetition with one is large, and is made whenever the
// program starts.
var globForm = regexp.MustCompile(`^[A-Za-z0-9+/;.$_()*?-]+$`)

// maxGlob is the longest name of a tube, in bytes, which a glob is no longer than.
const maxGlob = 200

func ruleOf(tubes, may []string) (rule, error) {
	r := rule{globs: tubes}
	if len(tubes) == 0 || len(may) == 0 {
		return rule{}, errors.New("a right needs tubes and may, both lists that are not empty")
	}
	for _, glob := range tubes {
		if len(glob) > maxGlob || !globForm.MatchString(glob) {
			return rule{}, errors.New("tubes are names, with * and ? for what may stand there")
		}
	}
	for _, word := range may {
		one, err := parseRight(word)
		if err != nil {
			return rule{}, err
		}
		r.may |= one
	}
	return r, nil
}

// makeDecoys chooses what the secret of somebody is compared with who does not exist, or
// has fewer secrets than others: the dearest hashes of the file, so that no answer comes
// sooner.
func (f *file) makeDecoys() {
	var dearest *User
	most := 0
	cost := func(u *User) (sum uint64) {
		for i := range u.secrets {
			sum += u.secrets[i].cost()
		}
		return sum
	}
	for _, u := range f.users {
		most = max(most, len(u.secrets))
		if dearest == nil || cost(u) > cost(dearest) {
			dearest = u
		}
	}
	for i := range most {
		if n := len(dearest.secrets); n > 0 {
			f.decoys = append(f.decoys, dearest.secrets[i%n])
		}
	}
}
