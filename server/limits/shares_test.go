package limits

import "testing"

// TestShares: no client has more requests than are free, so that there is always one for another client.
func TestShares(t *testing.T) {
	l := NewShares(100)
	for _, of := range []struct {
		client string
		want   int
	}{{"a", 50}, {"b", 25}, {"c", 13}, {"d", 6}, {"e", 3}, {"f", 2}, {"g", 1}, {"h", 0}, {"", 0}} {
		n := 0
		for l.Acquire(of.client) {
			n++
		}
		if n != of.want {
			t.Errorf("%q has %d requests, want %d", of.client, n, of.want)
		}
	}
	l.Release("a")
	if l.Acquire("a") || !l.Acquire("h") {
		t.Error("the client with the most requests gets the free one")
	}
	unknown := NewShares(10)
	for i := range 11 {
		if unknown.Acquire("") != (i < 10) {
			t.Errorf("request %d", i)
		}
	}
}
