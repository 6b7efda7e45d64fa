package outbox

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"redstalk/protocol"
	"redstalk/protocol/client"
	"redstalk/tube/field"
)

// outcome is what has become of a row in a round.
type outcome uint8

const (
	waiting outcome = iota // not put yet, or refused for now: it stays
	put                    // the server has, or had, its job
	failed                 // it can never be put
)

// row is a row of the table.
type row struct {
	id              int64
	token           string
	tube            string
	pri, delay, ttr int64
	body            []byte
	tags            string

	outcome outcome
	why     string // it has failed
}

// maxNumber is the largest PRI, DELAY and TTR.
const maxNumber = 1<<32 - 1

// lineRoom is how much of a line with tags the rest of a put takes at most.
const lineRoom = len("put 4294967295 4294967295 4294967295 4294967295 \r\n")

// ownTags are the tags that the relay sets, so that a row is put once.
func (r *row) ownTags(table string, keyTTL int64) string {
	return fmt.Sprintf("key:%s:%d:%s key-ttl:%d on-duplicate:keep", table, r.id, r.token, keyTTL)
}

// check says what is wrong with a row, "" if it can be sent. tags are all tags of its put. What passes is one
// line for the server: nothing in a row can end it, or be read as the next command.
func (r *row) check(tags string) string {
	for _, n := range []struct {
		name  string
		value int64
	}{{"pri", r.pri}, {"delay", r.delay}, {"ttr", r.ttr}} {
		if n.value < 0 || n.value > maxNumber {
			return fmt.Sprintf("%s is %d, not 0 to %d", n.name, n.value, maxNumber)
		}
	}
	switch {
	case !protocol.ValidName([]byte(r.tube)):
		return fmt.Sprintf("%q is not the name of a tube", cut(r.tube))
	case strings.ContainsFunc(tags, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return "the tags have a control character"
	case lineRoom+len(tags) > protocol.MaxTagLine:
		return fmt.Sprintf("the tags are longer than %d bytes", protocol.MaxTagLine-lineRoom)
	}
	return protocol.WrongTags(tags, field.InPut|field.InCopy)
}

// prepare decides which tags the put of a row has. keys says whether the server knows tags. It returns
// false if the row cannot be put.
func (r *row) prepare(table string, keyTTL int64, keys bool) bool {
	own := strings.TrimSpace(r.tags)
	if !keys && own != "" {
		r.fail("the row has tags, which this server does not know")
		return false
	}
	all := r.ownTags(table, keyTTL)
	if own != "" {
		all += " " + own
	}
	if why := r.check(all); why != "" {
		if strings.HasSuffix(why, "occurs twice") {
			why += ": the relay sets it"
		}
		r.fail(why)
		return false
	}
	r.tags = all
	if !keys {
		r.tags = ""
	}
	return true
}

func (r *row) fail(why string) { r.outcome, r.why = failed, cut(why) }

// maxWhy is the longest text in the column error, in bytes.
const maxWhy = 250

// cut returns at most maxWhy bytes of a text, as valid UTF-8.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxWhy)], "?")
}

// appendPut appends the put of a prepared row.
func (r *row) appendPut(out []byte) []byte {
	out = append(out, "put "...)
	for _, n := range []int64{r.pri, r.delay, r.ttr, int64(len(r.body))} {
		out = append(strconv.AppendInt(out, n, 10), ' ')
	}
	if r.tags == "" {
		out = out[:len(out)-1]
	}
	out = append(append(out, r.tags...), "\r\n"...)
	return append(append(out, r.body...), "\r\n"...)
}

// take records what the server has answered to the put of a row. tubeWide is why the tube takes no jobs for
// now; an error means that the server takes none.
func (r *row) take(reply *client.Reply) (tubeWide string, err error) {
	word, _, _ := bytes.Cut(reply.Line, []byte(" "))
	switch string(word) {
	case "INSERTED", "BURIED", "DUPLICATE": // the key of a duplicate is that of this row
		r.outcome = put
	case "JOB_TOO_BIG", "BAD_FORMAT", "BATCH_SEALED":
		r.fail("the server answered " + string(reply.Line))
	case "OUT_OF_MEMORY", "FORBIDDEN":
		return string(reply.Line), nil
	default:
		return "", fmt.Errorf("the server answered a put with %s", cut(string(reply.Line)))
	}
	return "", nil
}
