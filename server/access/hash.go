package access

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// hash is the hash of a secret as it is in the file.
type hash struct {
	text   string
	argon2 *argon2id // nil: it is a bcrypt hash
}

// argon2id has the parts of a hash that begins with $argon2id$.
type argon2id struct {
	memory, time uint32 // KiB, passes
	threads      uint8
	salt, sum    []byte
}

// Limits of the cost of one comparison, so that a mistake in the file does not stop the
// server.
const (
	maxBcryptCost  = 16
	maxArgonMemory = 1 << 20 // KiB
	maxArgonTime   = 64
)

// errNoHash does not quote the text: it may be a secret that was not hashed.
var errNoHash = errors.New("a secret is no hash of bcrypt or argon2id; redstalkd secret makes one")

var (
	bcryptForm = regexp.MustCompile(`^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$`)
	argonForm  = regexp.MustCompile(`^\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=(\d{1,3})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{21,86})$`)
)

// parseHash parses a hash from the file.
func parseHash(text string) (hash, error) {
	if bcryptForm.MatchString(text) {
		if cost, err := bcrypt.Cost([]byte(text)); err != nil || cost > maxBcryptCost {
			return hash{}, fmt.Errorf("the cost of a hash of bcrypt is not from %d to %d", bcrypt.MinCost, maxBcryptCost)
		}
		return hash{text: text}, nil
	}
	m := argonForm.FindStringSubmatch(text)
	if m == nil {
		return hash{}, errNoHash
	}
	memory, _ := strconv.ParseUint(m[1], 10, 32) // few digits
	time, _ := strconv.ParseUint(m[2], 10, 32)
	threads, err := strconv.ParseUint(m[3], 10, 8)
	if memory < 8 || memory > maxArgonMemory || time < 1 || time > maxArgonTime || err != nil || threads < 1 {
		return hash{}, fmt.Errorf("the costs of a hash of argon2id are not m from 8 to %d, t from 1 to %d, p from 1 to 255", maxArgonMemory, maxArgonTime)
	}
	a := &argon2id{memory: uint32(memory), time: uint32(time), threads: uint8(threads)}
	var errSalt, errSum error
	a.salt, errSalt = base64.RawStdEncoding.DecodeString(m[4])
	a.sum, errSum = base64.RawStdEncoding.DecodeString(m[5])
	if errSalt != nil || errSum != nil {
		return hash{}, errNoHash
	}
	return hash{text, a}, nil
}

// matchesSecret reports whether h is the hash of a secret. It takes as long for any secret.
func (h *hash) matchesSecret(secret string) bool {
	if h.argon2 == nil {
		same := bcrypt.CompareHashAndPassword([]byte(h.text), []byte(secret)) == nil
		return same && len(secret) <= MaxBcrypt // bcrypt ignores further bytes, so anything could follow
	}
	a := h.argon2
	sum := argon2.IDKey([]byte(secret), a.salt, a.time, a.memory, a.threads, uint32(len(a.sum)))
	return subtle.ConstantTimeCompare(sum, a.sum) == 1
}

// cost returns roughly what one comparison costs, for finding the most expensive hash of a
// file.
func (h *hash) cost() uint64 {
	if h.argon2 != nil {
		return uint64(h.argon2.memory) * uint64(h.argon2.time)
	}
	cost, _ := bcrypt.Cost([]byte(h.text))
	return 1 << (cost + 7) // 2^10 rounds take about as long as one pass over 128 MiB
}

// MaxSecret is the longest secret, in bytes. MaxBcrypt is the number of bytes that bcrypt
// uses.
const (
	MaxSecret = 128
	MaxBcrypt = 72
)

// DefaultBcryptCost is the usual cost for HashBcrypt.
const DefaultBcryptCost = bcrypt.DefaultCost

// HashBcrypt returns a bcrypt hash of a secret for the file of users.
func HashBcrypt(secret string, cost int) (string, error) {
	switch {
	case cost < bcrypt.MinCost || cost > maxBcryptCost:
		return "", fmt.Errorf("the cost of bcrypt is from %d to %d", bcrypt.MinCost, maxBcryptCost)
	case len(secret) > MaxBcrypt:
		return "", fmt.Errorf("bcrypt takes secrets of at most %d bytes; argon2id takes longer ones", MaxBcrypt)
	}
	if err := CheckSecret(secret); err != nil {
		return "", err
	}
	text, err := bcrypt.GenerateFromPassword([]byte(secret), cost)
	if err != nil {
		return "", errors.New("bcrypt has failed") // its error may quote the secret
	}
	return string(text), nil
}

// HashArgon2id returns an argon2id hash of a secret for the file of users, with the costs
// that RFC 9106 recommends for little memory.
func HashArgon2id(secret string) (string, error) {
	if err := CheckSecret(secret); err != nil {
		return "", err
	}
	salt := make([]byte, 16)
	rand.Read(salt) // never fails, see crypto/rand
	const memory, time, threads = 64 << 10, 3, 4
	return argonText(secret, salt, memory, time, threads), nil
}

func argonText(secret string, salt []byte, memory, time uint32, threads uint8) string {
	sum := argon2.IDKey([]byte(secret), salt, time, memory, threads, 32)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", memory, time, threads, encode(salt), encode(sum))
}

// CheckSecret returns an error if a secret cannot be hashed. The error does not quote it.
func CheckSecret(secret string) error {
	switch {
	case secret == "":
		return errors.New("the secret is empty")
	case len(secret) > MaxSecret:
		return fmt.Errorf("the secret has more than %d bytes", MaxSecret)
	case strings.ContainsAny(secret, "\x00\r\n"):
		return errors.New("the secret has a line break or a NUL in it")
	}
	return nil
}
