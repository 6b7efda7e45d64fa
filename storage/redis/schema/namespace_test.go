package schema

import (
	"strings"
	"testing"
)

func TestCheckNamespace(t *testing.T) {
	for _, name := range []string{
		"redstalk", "a:b-c_d.e/f", "Aufträge", "仕事", "two words", " a", "*?[a-z]\\", "0", strings.Repeat("n", 200), "Auftr\xe4ge",
	} {
		if err := CheckNamespace(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"": "empty", " ": "empty", "\t\n": "empty", "{0}": "brace", "a}": "brace", "a{": "brace",
		"a\nb": "control", "a\tb": "control", "a\x00": "control", "a\x7f": "control", "a\u0085": "control",
		strings.Repeat("n", 201): "201 bytes",
	} {
		if err := CheckNamespace(name); err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\t\x00\x7f") {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}
