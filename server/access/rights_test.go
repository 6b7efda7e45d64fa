package access

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	for glob, names := range map[string]struct{ yes, no string }{
		"post":    {"post", "mai posts Post apost"},
		"post*":   {"post posts post/eu post.*", "mai apost"},
		"*":       {"a post/eu", ""},
		"*.eu":    {".eu post.eu a.b.eu", "eu post.euro"},
		"a*b*c":   {"abc aXbYc abbcc", "ab acb abcd"},
		"a?c":     {"abc a/c", "ac abbc"},
		"**a**":   {"a ba ab", "b"},
		"a.c":     {"a.c", "abc"},
		"?*":      {"a ab", ""},
		"$(x);+-": {"$(x);+-", "x"},
	} {
		for _, name := range strings.Fields(names.yes) {
			if !matches(glob, name) {
				t.Errorf("%s is not %s", name, glob)
			}
		}
		for _, name := range strings.Fields(names.no) {
			if matches(glob, name) {
				t.Errorf("%s is %s", name, glob)
			}
		}
	}
	if matches(strings.Repeat("*a", 100), strings.Repeat("a", 99)+"b") {
		t.Error("it matches")
	}
}

// reads is what the word read means in the file.
const reads = Read | List

func TestRights(t *testing.T) {
	t.Parallel()
	a := open(t, `users:
- name: u
  rights:
  - {tubes: ["post*", "sms"], may: [put]}
  - {tubes: ["post.eu"], may: [work, read]}
  - {tubes: ["x", "**"], may: [look]}
- name: root
  rights: [{tubes: ["*"], may: [put, work, read, admin]}]
`)
	u := a.Certified("u").User
	for tube, want := range map[string]Right{"post": Put | reads, "sms": Put | reads, "post.eu": Put | Work | reads, "default": reads} {
		if got := u.On(tube); got != want {
			t.Errorf("%s: %v, want %v", tube, got, want)
		}
	}
	if u.Anywhere() != Put|Work|reads || u.Everywhere() != reads {
		t.Errorf("anywhere %v, everywhere %v", u.Anywhere(), u.Everywhere())
	}
	if got := u.Visible([]string{"a", "post.eu", "sms"}, Work); len(got) != 1 || got[0] != "post.eu" {
		t.Errorf("visible: %v", got)
	}
	if root := a.Certified("root").User; root.On("anything") != All || root.Everywhere() != All {
		t.Errorf("root: %v", root.On("anything"))
	}
	if a.Anonymous().Anywhere() != Nothing || a.Certified("anonymous") != nil || a.Certified("nobody") != nil {
		t.Error("a user without rights has some")
	}
	if open(t, "users: [{name: anonymous}]").Certified("anonymous") != nil {
		t.Error("a certificate authenticates anonymous")
	}
	if n, known := NeedOf("a word that is new"); known || n.Met(Put|Work|Read) || n.Where != Everywhere {
		t.Errorf("what is not in the table needs %+v", n)
	}
}

// faulty are invalid files, with the errors.
var faulty = map[string]string{
	"":                                    "the file is empty",
	"users:\n":                            "the file is empty",
	"{}":                                  "the file is empty",
	"null":                                "the file is empty",
	"users: 7":                            "line 1 is not valid YAML, or its value is not of the expected kind",
	"users: [\n  {nme: s3cret}]":          "line 2 is not valid YAML",
	"users: [{name: [s3cret]}]":           "line 1",
	"\tusers":                             "it is not",
	"users: []\n---\nusers: []":           "more than one YAML document",
	"user: []":                            "line 1",
	"users: [{name: a, people: ['']}]":    "user a: an entry of people or groups is empty",
	"users: [{name: a, groups: [x, '']}]": "user a: an entry of people or groups is empty",
	"users: [{name: anonymous, groups: [x]}]": "anonymous has none",
	"users: [{}]":                           "user number 1: a name is",
	`users: [{name: "a b"}]`:                "user number 1: a name is",
	`users: [{name: "é"}]`:                  "user number 1: a name is",
	"users: [{name: a}, {name: a}]":         "user a is listed twice",
	"users: [{name: a, secrets: [s3cret]}]": "user a: a secret is no hash",
	"users: [{name: a, secrets: ['$2a$99$s3crets3crets3crets3crets3crets3crets3crets3crets3cre']}]":        "the cost",
	"users: [{name: a, secrets: ['$argon2id$v=19$m=7,t=1,p=1$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA']}]":       "the costs of a hash",
	"users: [{name: a, secrets: ['$argon2id$v=19$m=9999999,t=1,p=1$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA']}]": "the costs of a hash",
	"users: [{name: a, secrets: ['$2a$17$c2FsdHNhbHRzYWx0c2FsdHNhbHRzYWx0c2FsdHNhbHRzYWx0c2Fsd']}]":        "the cost",
	"users: [{name: a, secrets: ['$argon2id$v=19$m=8,t=0,p=1$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA']}]":       "the costs of a hash",
	"users: [{name: a, secrets: ['$argon2id$v=19$m=8,t=1,p=0$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA']}]":       "the costs of a hash",
	"users: [{name: a, secrets: ['$argon2id$v=19$m=8,t=65,p=1$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA']}]":      "the costs of a hash",
	"users: [{name: a, rights: [{tubes: [], may: [put]}]}]":                                                "a right needs",
	"users: [{name: a, rights: [{tubes: [a]}]}]":                                                           "a right needs",
	"users: [{name: a, rights: [{tubes: ['a b'], may: [put]}]}]":                                           "tubes are names",
	"users: [{name: a, rights: [{tubes: [a], may: [s3cret]}]}]":                                            "must be put, work, list, read or admin",
	"users: [{name: a, limits: {connections: -1}}]":                                                        "a limit is negative",
	"users: [{name: a, limits: {connections: s3cret}}]":                                                    "line 1",
	"users: [{name: anonymous, secrets: ['HASH']}]":                                                        "it has secrets; anonymous has none",
	"users: [{name: 'a:b', secrets: ['HASH']}]":                                                            "names with a colon",
	"users: [{name: a, secrets: [" + strings.Repeat("'HASH', ", 9) + "]}]":                                 "more than 8 secrets",
	"users: &a [*a]": "it is not",
}

func TestFaultyFiles(t *testing.T) {
	t.Parallel()
	hash := cheapHash(t, "x")
	for text, want := range faulty {
		_, err := parseFile([]byte(strings.ReplaceAll(text, "HASH", hash)), func(string) *account { return new(account) })
		switch {
		case err == nil:
			t.Errorf("%s: it is accepted", text)
		case !strings.Contains(err.Error(), want) && want != "it is not":
			t.Errorf("%s: %v, want %s", text, err, want)
		case strings.Contains(err.Error(), "s3cret"), strings.Contains(err.Error(), "$2a"), strings.Contains(err.Error(), "$argon"):
			t.Errorf("%s: %v", text, err)
		}
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, append([]byte("users: []\n"), strings.Repeat("#", maxFile)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(large, nil, nil); err == nil || !strings.Contains(err.Error(), "it has more than") {
		t.Errorf("a file that is too large: %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "missing"), nil, nil); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestFileOfDocs: the example in docs/access.md is a valid file of users.
func TestFileOfDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```yaml[^\n]*\n(.*?)```").FindAllSubmatch(page, -1)
	if len(found) != 2 {
		t.Fatalf("%d files of users on the page", len(found))
	}
	if people := open(t, string(found[1][1])).file.Load().signOns; len(people) != 2 {
		t.Errorf("%d users can sign on", len(people))
	}
	a := open(t, string(found[0][1]))
	if a.Certified("app").User.On("ma"+"il.eu") != Put || a.Anonymous().On("public") != reads {
		t.Error("the example does not say what the page does")
	}
}

// FuzzFile: parsing any text returns a file or an error, and no error quotes what may be a
// secret.
func FuzzFile(f *testing.F) {
	for text := range faulty {
		f.Add([]byte(text), "s3cret")
	}
	f.Add([]byte("users:\n- name: a\n  secrets: [zzyzxzzyzx]\n"), "zzyzxzzyzx")
	f.Fuzz(func(t *testing.T, text []byte, secret string) {
		read, err := parseFile(text, func(string) *account { return new(account) })
		if err == nil {
			for name, u := range read.users {
				if !validUser(name) || u.account == nil || u.Everywhere()&^u.Anywhere() != 0 || u.On("a")&u.Everywhere() != u.Everywhere() {
					t.Errorf("user %q: %+v", name, u)
				}
			}
			return
		}
		message := err.Error()
		for name := range strings.FieldsSeq(message) { // errors may have names and their own words
			if strings.Contains(name, secret) {
				return
			}
		}
		if len(secret) > 5 && strings.Contains(message, secret) {
			t.Errorf("the error holds %q: %s", secret, message)
		}
	})
}
