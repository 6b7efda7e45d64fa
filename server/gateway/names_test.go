package gateway_test

import (
	"strings"
	"testing"

	"redstalk/protocol"
	"redstalk/server/gateway"
)

// TestNames: a text that can be a name stays as it is; others are escaped, and can be
// decoded.
func TestNames(t *testing.T) {
	long := strings.Repeat("订单", 500)
	for _, c := range []struct{ topic, id, tube, key string }{
		{"order", "15702398321", "order", "15702398321"},
		{"a$b", "a%b", "a$b", "a%b"},
		{"$a", "%a", "$$24a", "%%25a"},
		{"-x", "-x", "$-x", "-x"},
		{"two words", "two words", "$two$20words", "%two%20words"},
		{"订单", "é", "$$E8$AE$A2$E5$8D$95", "%%C3%A9"},
		{"", "\n", "$", "%%0A"},
		{"$(x", "%~x", "$$24$28x", "%%25%7Ex"},
	} {
		tube, key, body := gateway.Pack(c.topic, c.id, []byte("body"))
		if tube != c.tube || key != c.key || string(body) != "body" {
			t.Errorf("%q and %q are %q and %q with %q, want %q and %q", c.topic, c.id, tube, key, body, c.tube, c.key)
		}
	}
	for _, text := range []string{long, strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat(" ", 66), strings.Repeat(" ", 67), "a\x00b"} {
		roundTrip(t, text, "id", "body")
		roundTrip(t, "topic", text, "body\nmore")
		roundTrip(t, text, text, "")
	}
}

func roundTrip(t *testing.T, topic, id, body string) {
	t.Helper()
	tube, key, packed := gateway.Pack(topic, id, []byte(body))
	if !protocol.ValidName([]byte(tube)) || len(key) > protocol.MaxKey || strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' }) {
		t.Errorf("%.20q and %.20q are %q and %q", topic, id, tube, key)
	}
	if gotTopic, gotID, gotBody := gateway.Unpack(tube, key, packed); gotTopic != topic || gotID != id || string(gotBody) != body {
		t.Errorf("%.20q, %.20q and %.20q have become %.20q, %.20q and %.20q", topic, id, body, gotTopic, gotID, gotBody)
	}
}

// TestForeignNames: tubes and keys of other listeners are decoded as themselves, even if
// they look escaped.
func TestForeignNames(t *testing.T) {
	for _, name := range []string{"$abc", "$(abc", "$", "$$", "$$2", "$$zz", "$$61", "plain"} {
		key := strings.NewReplacer("$", "%", "(", "~").Replace(name)
		topic, id, body := gateway.Unpack(name, key, []byte("{}\nx"))
		if name == "$" {
			name, key = "", ""
		}
		if topic != name || id != key || string(body) != "{}\nx" {
			t.Errorf("%q and %q have become %q and %q with %q", name, key, topic, id, body)
		}
	}
}

// FuzzNames: any text can be decoded.
func FuzzNames(f *testing.F) {
	f.Add("order", "1", "b")
	f.Add("$(", "%~", "{\"topic\":\"\"}\n")
	f.Fuzz(func(t *testing.T, topic, id, body string) {
		topic, id = strings.ToValidUTF8(topic, "?"), strings.ToValidUTF8(id, "?")
		if id != "" {
			roundTrip(t, topic, id, body)
		}
		tube, key := topic, id // as another listener might use them
		gateway.Unpack(tube, key, []byte(body))
	})
}
