package webhook

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Secrets sign webhooks according to Standard Webhooks (https://www.standardwebhooks.com).
// Their file has a line for each pattern of tubes:
//
//	# tubes   secret, and another one while it is being replaced
//	sms*      whsec_bmV3LXNlY3JldC1vZi0yNC1ieXRlcyE= whsec_b2xkLXNlY3JldC1vZi0yNC1ieXRlcyE=
//	*         whsec_…
//
// The first line whose pattern matches the name of the tube counts. In a pattern * stands
// for any number of bytes. A secret is 24 to 64 bytes in base64.
type Secrets struct{ lines []secretLine }

type secretLine struct {
	pattern string
	keys    [][]byte // one or two
}

const (
	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
	maxSecrets   = 2
)

// ParseSecrets parses a file of secrets. Its errors name lines, but quote nothing of them.
func ParseSecrets(text []byte) (*Secrets, error) {
	s := new(Secrets)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		line, err := parseSecretLine(words)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		s.lines = append(s.lines, line)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if s.lines == nil { // half written, perhaps: calls are not to go without signatures
		return nil, errors.New("there is no secret in it")
	}
	return s, nil
}

func parseSecretLine(words []string) (line secretLine, err error) {
	line.pattern = words[0]
	if strings.HasPrefix(line.pattern, secretPrefix) {
		return line, errors.New("it does not begin with a pattern of tubes, such as *")
	}
	if len(words) < 2 || len(words) > 1+maxSecrets {
		return line, fmt.Errorf("one or %d secrets follow the pattern", maxSecrets)
	}
	for _, word := range words[1:] {
		text, ok := strings.CutPrefix(word, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
			return line, fmt.Errorf("a secret is %s and %d to %d bytes in base64", secretPrefix, minSecret, maxSecret)
		}
		line.keys = append(line.keys, key)
	}
	return line, nil
}

// keys returns the secrets for a tube, or none.
func (s *Secrets) keys(tube string) [][]byte {
	if s == nil {
		return nil
	}
	for i := range s.lines {
		if matches(s.lines[i].pattern, tube) {
			return s.lines[i].keys
		}
	}
	return nil
}

// matches reports whether a pattern matches a name.
func matches(pattern, name string) bool {
	head, tail, star := strings.Cut(pattern, "*")
	rest, ok := strings.CutPrefix(name, head)
	if !ok || !star {
		return ok && rest == ""
	}
	for i := range len(rest) + 1 {
		if matches(tail, rest[i:]) {
			return true
		}
	}
	return false
}

// sign returns the value of the webhook-signature header: a signature with each key, "" if
// there is no key.
func sign(keys [][]byte, id string, unix int64, body []byte) string {
	var header []byte
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id))
		mac.Write(strconv.AppendInt([]byte("."), unix, 10))
		mac.Write([]byte("."))
		mac.Write(body)
		if header != nil {
			header = append(header, ' ')
		}
		header = append(header, "v1,"...)
		header = base64.StdEncoding.AppendEncode(header, mac.Sum(nil))
	}
	return string(header)
}
