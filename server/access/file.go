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

// anonymous is the name of the user of unauthenticated clients.
const anonymous = "anonymous"

// document is the format of the file.
type document struct {
	Users []struct {
		Name    string   `yaml:"name"`
		Secrets []string `yaml:"secrets"`
		People  []string `yaml:"people"`
		Groups  []string `yaml:"groups"`
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

// file is the parsed file. It never changes, except for its cache.
type file struct {
	users     map[string]*User
	anonymous *User
	signOns   []*User // those with people or groups, in the order of the file
	decoys    []hash  // as many as the user with most secrets has; secrets of unknown names are compared with them
	logins    loginCache
}

// parseFile parses a file of users. accountOf returns the account of each user. Errors quote
// only names of users.
func parseFile(text []byte, accountOf func(name string) *account) (*file, error) {
	var d document
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&d); err != nil {
		return nil, describeYAML(err)
	}
	if d.Users == nil { // half written, perhaps: nobody is to be locked out
		return nil, errNoUsers
	}
	if err := decoder.Decode(new(document)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one YAML document in it")
	}
	f := &file{users: make(map[string]*User)}
	var inOrder []*User
	for i := range d.Users {
		u, err := d.user(i)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", nameIn(&d, i), err)
		}
		if f.users[u.name] != nil {
			return nil, fmt.Errorf("user %s is listed twice", u.name)
		}
		u.account = accountOf(u.name)
		f.users[u.name] = u
		inOrder = append(inOrder, u)
		if len(u.people)+len(u.groups) > 0 {
			f.signOns = append(f.signOns, u)
		}
	}
	setBatchOwners(inOrder)
	if f.anonymous = f.users[anonymous]; f.anonymous == nil {
		f.anonymous = &User{name: anonymous, account: accountOf(anonymous)}
	}
	f.makeDecoys()
	f.logins.logins = make(map[digest]*Login)
	return f, nil
}

var errNoUsers = errors.New("the file is empty; without users it must contain users: []")

var yamlLine = regexp.MustCompile(`\bline (\d+)`)

// describeYAML returns an error that says where a file is invalid. The library's errors
// quote text, which may be a secret.
func describeYAML(err error) error {
	if errors.Is(err, io.EOF) {
		return errNoUsers
	}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("line %s is not valid YAML, or its value is not of the expected kind", m[1])
	}
	return errors.New("it is not valid YAML")
}

// nameIn returns the name of a user in errors.
func nameIn(d *document, i int) string {
	if name := d.Users[i].Name; validUser(name) {
		return name
	}
	return fmt.Sprintf("number %d", i+1)
}

// user checks and returns the i-th user.
func (d *document) user(i int) (*User, error) {
	from := &d.Users[i]
	u := &User{name: from.Name, people: from.People, groups: from.Groups, limits: limits{from.Limits.Connections, from.Limits.Jobs, from.Limits.Bytes}}
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
	if slices.Contains(u.people, "") || slices.Contains(u.groups, "") || u.name == anonymous && len(u.people)+len(u.groups) > 0 {
		return nil, errors.New("an entry of people or groups is empty; anonymous has none")
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
	u.sumRights()
	return u, nil
}

// maxSecrets limits the cost of one login attempt.
const maxSecrets = 8

// MaxUser is the longest name of a user, in bytes.
const MaxUser = 128

// validUser reports whether a name is a valid user name.
func validUser(name string) bool {
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' {
			return false
		}
	}
	return name != "" && len(name) <= MaxUser
}

// globForm has no counted repetition: that would be large, and is compiled whenever the
// program starts.
var globForm = regexp.MustCompile(`^[A-Za-z0-9+/;.$_()*?-]+$`)

// maxGlob is the longest name of a tube, in bytes, and the longest glob.
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

// makeDecoys chooses the hashes with which a secret is compared if the user does not exist
// or has fewer secrets than others: the most expensive ones of the file, so that no answer
// comes sooner.
func (f *file) makeDecoys() {
	var costliest *User
	most := 0
	cost := func(u *User) (sum uint64) {
		for i := range u.secrets {
			sum += u.secrets[i].cost()
		}
		return sum
	}
	for _, u := range f.users {
		most = max(most, len(u.secrets))
		if costliest == nil || cost(u) > cost(costliest) {
			costliest = u
		}
	}
	for i := range most {
		if n := len(costliest.secrets); n > 0 {
			f.decoys = append(f.decoys, costliest.secrets[i%n])
		}
	}
}
