package transcript

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

func unquote(s string) string {
	if n := len(s); n >= 2 && s[0] == '"' && s[n-1] == '"' {
		return s[1 : n-1]
	}
	return s
}

// pageLine is one line of a stats page as it came.
type pageLine struct{ key, value string }

var pageKey = regexp.MustCompile(`^[a-z0-9-]+$`)

// yaml splits the body of an OK reply into its lines.
func yaml(r reply) ([]string, error) {
	body, ok := strings.CutPrefix(string(r.Body), "---\n")
	switch {
	case !r.Data || !bytes.HasPrefix(r.Head, []byte("OK ")):
		return nil, fmt.Errorf("not a page")
	case !ok:
		return nil, fmt.Errorf("the page does not start with ---")
	case !strings.HasSuffix(body, "\n"):
		return nil, fmt.Errorf("the page does not end with a line end")
	}
	return strings.Split(strings.TrimSuffix(body, "\n"), "\n"), nil
}

// parsePage reads a dictionary: every line key: value, no key twice.
func parsePage(r reply) ([]pageLine, error) {
	lines, err := yaml(r)
	if err != nil {
		return nil, err
	}
	var page []pageLine
	seen := map[string]bool{}
	for _, s := range lines {
		k, v, ok := strings.Cut(s, ": ")
		if !ok || !pageKey.MatchString(k) || v == "" || v != strings.TrimSpace(v) || seen[k] {
			return nil, fmt.Errorf("bad line %q in the page", s)
		}
		seen[k] = true
		page = append(page, pageLine{k, v})
	}
	return page, nil
}

func parseList(r reply) ([]string, error) {
	lines, err := yaml(r)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range lines {
		name, ok := strings.CutPrefix(s, "- ")
		if !ok {
			return nil, fmt.Errorf("bad line %q in the list", s)
		}
		names = append(names, name)
	}
	return names, nil
}
