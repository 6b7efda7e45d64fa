package protocol

import (
	"strings"
	"testing"
)

const goodTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestNoteTags checks values in quotes, and the tags with texts.
func TestNoteTags(t *testing.T) {
	longest := strings.Repeat("é", MaxReason/2)
	for line, want := range map[string]string{
		`release 1 2 3 reason:"550 no such user"`:          "release 1 2 3 reason=550 no such user",
		`release 1 2 3  reason:plain `:                     "release BAD_FORMAT",
		`release 1 2 3 reason:"a\"b\\c\nd\te"`:             "release 1 2 3 reason=a\"b\\c\nd\te",
		`release 1 2 3 reason:"` + longest + `"`:           "release 1 2 3 reason=" + longest,
		`release 1 2 3 reason:"` + longest + `x"`:          "release BAD_FORMAT",
		`release 1 2 3 reason:""`:                          "release BAD_FORMAT",
		`release 1 2 3 reason:"a`:                          "release BAD_FORMAT",
		`release 1 2 3 reason:"a"b`:                        "release BAD_FORMAT",
		`release 1 2 3 reason:"a\x"`:                       "release BAD_FORMAT",
		"release 1 2 3 reason:\"a\tb\"":                    "release BAD_FORMAT",
		"release 1 2 3 reason:\"\xff\"":                    "release BAD_FORMAT",
		`release 1 2 3 reason:"a" reason:"b"`:              "release BAD_FORMAT",
		`release 1 2 3 failure:no`:                         "release 1 2 3 failure=no",
		`release 1 2 3 failure:yes`:                        "release BAD_FORMAT",
		`release 1 2 3 failure:no reason:"a"`:              "release BAD_FORMAT",
		`release 1 2 3 key:a`:                              "release BAD_FORMAT",
		`touch 1 progress:"3/7 \"files\""`:                 `touch 1 progress="3/7 \"files\""`,
		`touch 1 progress:3/7`:                             `touch 1 progress="3/7"`,
		`touch 1 progress:""`:                              `touch 1 progress=""`,
		`touch 1 progress:`:                                "touch BAD_FORMAT",
		`touch 1 progress:"` + longest[:MaxProgress] + `"`: `touch 1 progress="` + longest[:MaxProgress] + `"`,
		`touch 1 progress:"` + longest + `"`:               "touch BAD_FORMAT",
		`touch 1 reason:a`:                                 "touch BAD_FORMAT",
		`touch 1 x`:                                        "touch BAD_FORMAT",
		`touch 1 `:                                         "touch BAD_FORMAT",
		`touch-lease 1 x progress:"a\n\tb"`:                `touch-lease 1 0 progress="a\n\tb"`,
		`bury 1 2 reason:"a b"`:                            "bury 1 2 reason=a b",
		`bury 1 2 failure:no`:                              "bury BAD_FORMAT",
		`release-lease 1 x 2 3 reason:a failure:no`:        "release-lease BAD_FORMAT",
		`release-lease 1 x 2 3 failure:no`:                 "release-lease 1 0 2 3 failure=no",
		`bury-lease 1 00000000000000000007 2 reason:"a b"`: "bury-lease 1 7 2 reason=a b",
	} {
		check(t, line+"\r\n"+used+"\r\n", 9, want, used)
	}
	for tags, want := range map[string]string{
		`meta:a="b c" meta:B_1-2=d meta:e=`:               `meta=["a=b c" "B_1-2=d" "e="]`,
		`trace:` + goodTrace:                              "trace=" + goodTrace,
		`key:"k" meta:a=b=c`:                              `key=k meta=["a=b=c"]`,
		strings.Repeat("meta:x=\"\"", 0) + metas(MaxMeta): "meta=" + shownMetas(MaxMeta),
	} {
		check(t, "put 1 2 3 1 "+tags+"\r\na\r\n", 9, `put 1 2 3 "a" `+want)
	}
	for _, tags := range []string{
		"meta:=a", "meta:a", "meta:a.b=c", "meta:a=b meta:A=c", metas(MaxMeta + 1), `meta:a="` + strings.Repeat("x", MaxMetaBytes) + `"`, "meta:" + strings.Repeat("n", MaxMetaName+1) + "=a",
		"trace:" + goodTrace[1:], "trace:" + goodTrace + "0", "trace:ff" + goodTrace[2:], "trace:" + strings.ToUpper(goodTrace),
		"trace:00-00000000000000000000000000000000-00f067aa0ba902b7-01", "trace:00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		`key:"a b"`, `meta:a="b" c`[:10] + `x`,
	} {
		check(t, "put 1 2 3 1 "+tags+"\r\na\r\n", 9, "put BAD_FORMAT counted")
	}
}

func metas(n int) string {
	var all []string
	for i := range n {
		all = append(all, "meta:"+string(rune('a'+i))+"=v")
	}
	return strings.Join(all, " ")
}

func shownMetas(n int) string {
	return "[" + strings.NewReplacer("meta:", `"`, "=v", `=v"`).Replace(metas(n)) + "]"
}

// TestWrong: a command says which tag is wrong, and what is expected.
func TestWrong(t *testing.T) {
	for line, want := range map[string]string{
		"put 0 0 1 1 retry:x":                "the tag retry needs up to 32 durations",
		"put 0 0 1 1 key:a key:b":            "the tag key occurs twice",
		"put 0 0 1 1 delay:1 at:1":           "contradict",
		"set-policy a max:0":                 "the tag max needs a whole number",
		"set-policy a push-rate:1/s":         "need the tag push",
		"put 0 0 1 1 group:é":                "the tag group needs 1 to 128 bytes",
		"set-policy a group-rate:1/d":        "the tag group-rate needs numbers per s, m or h",
		`touch 1 progress:"a`:                "the tag progress needs up to 256 bytes",
		"set-policy a group-order:lifo":      "the tag group-order needs fair or strict",
		"set-group a g weight:0":             "the tag weight needs a whole number",
		`release 1 2 3 reason:"`:             "the tag reason needs 1 to 512 bytes",
		`bury-lease 1 x 2 reason:"` + "\xff": "the tag reason needs",
	} {
		r := NewReader(strings.NewReader(line+"\r\na\r\n"), 9)
		r.Fill()
		var c Command
		if !r.Next(&c) || c.Fault != BadFormat || !strings.Contains(c.Wrong, want) {
			t.Errorf("%s: %v %q, want %q", line, c.Fault, c.Wrong, want)
		}
	}
	for _, tag := range tagTable {
		if forms[tag.Kind] == "" {
			t.Errorf("it is not known what %s of the tag %s looks like", tag.Kind, tag.Name)
		}
	}
}

// TestCleanReason: any text becomes a valid reason, or none.
func TestCleanReason(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		" \x00\r\n ":             "",
		"a\r\nb\x1bc":            "a \nb c",
		"\xff\xfea":              "a",
		strings.Repeat("é", 300): strings.Repeat("é", 256),
	} {
		if got := CleanReason(text); got != want || got != "" && !ValidReason(got) {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
