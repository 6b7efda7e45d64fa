package conn

import (
	"testing"
)

// TestMeanings: an error of Redis means the same with and without ERR before it, and wherever
// in a script it happened, in the formats of Redis 5, 6 and 7.
func TestMeanings(t *testing.T) {
	wraps := map[string]func(string) string{
		"plain":      func(text string) string { return text },
		"by a proxy": func(text string) string { return "ERR " + text },
		"script, 5": func(text string) string {
			return "ERR Error running script (call to f_ab12): @user_script:7: @user_script: 7: -" + text
		},
		"script, 6": func(text string) string { return "ERR Error running script (call to f_ab12): @user_script:7: -" + text },
		"script, words": func(text string) string {
			return "ERR Error running script (call to f_ab12): @user_script:7: @user_script: 7: " + text
		},
		"script, 7": func(text string) string { return text + " script: ab12, on @user_script:7." },
	}
	for _, want := range meanings {
		for how, wrap := range wraps {
			for _, text := range []string{want.words, want.words + " and more: -of it"} {
				err := ServerError(wrap(text))
				if got := meaningOf(err); got != want || CodeOf(err) != want.words {
					t.Errorf("%s, %q: %+v, code %q", how, err, got, CodeOf(err))
				}
			}
		}
	}
	for _, text := range []string{"ERR", "ERR something", "READONLYish thing", "WRONGTYPE READONLY", "ERR Error running script (call to f_ab12): @user_script:7: -WRONGTYPE LOADING"} {
		if err := ServerError(text); meaningOf(err) != (meaning{}) {
			t.Errorf("%q: %+v", text, meaningOf(err))
		}
	}
}
