package answer

import (
	"bufio"
	"strings"
	"testing"
)

// TestBothWays: Cut and Read find the same replies, and Cut none in any beginning of one.
func TestBothWays(t *testing.T) {
	for text, body := range map[string]string{
		"INSERTED 5\r\n": "", "FOUND 5 2\r\nab\r\n": "ab", "OK 4\r\n\r\n\r\n\r\n": "\r\n\r\n", "LEASED 5 t 1\r\nx\r\n": "x",
		"RESERVED 1 0\r\n\r\n": "", "OK\r\n": "", "FOUND 5 -1\r\n": "",
	} {
		cut, n, err := Cut([]byte(text + "NEXT\r\n"))
		if err != nil || n != len(text) || string(cut.Body) != body {
			t.Errorf("%q: %+v, %d bytes, %v", text, cut, n, err)
		}
		read, err := Read(bufio.NewReader(strings.NewReader(text)))
		if err != nil || string(read.Head) != string(cut.Head) || string(read.Body) != body || read.Data != cut.Data {
			t.Errorf("%q is read as %+v, %v", text, read, err)
		}
		for part := range text {
			if _, n, err := Cut([]byte(text[:part])); n != 0 || err != nil {
				t.Errorf("%q: %d bytes, %v", text[:part], n, err)
			}
		}
	}
	const longer = "FOUND 5 2\r\nabc\r\n"
	_, n, err := Cut([]byte(longer))
	if n == 0 || err == nil {
		t.Errorf("%q is cut: %d bytes, %v", longer, n, err)
	}
	if _, err := Read(bufio.NewReader(strings.NewReader(longer))); err == nil {
		t.Errorf("%q is read", longer)
	}
}
