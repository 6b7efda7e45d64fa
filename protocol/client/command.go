package client

import "strconv"

// AppendPut appends a put to out and returns the extended slice. The delay and
// the TTR are in seconds.
func AppendPut(out []byte, pri uint32, delay, ttr int, body []byte) []byte {
	out = append(out, "put "...)
	out = strconv.AppendUint(out, uint64(pri), 10)
	out = append(out, ' ')
	out = strconv.AppendInt(out, int64(delay), 10)
	out = append(out, ' ')
	out = strconv.AppendInt(out, int64(ttr), 10)
	out = append(out, ' ')
	out = strconv.AppendInt(out, int64(len(body)), 10)
	out = append(out, "\r\n"...)
	out = append(out, body...)
	return append(out, "\r\n"...)
}

// AppendDelete appends a delete of job id.
func AppendDelete(out []byte, id uint64) []byte { return appendWithID(out, "delete ", id) }

// AppendReserveJob appends a reserve-job of job id.
func AppendReserveJob(out []byte, id uint64) []byte { return appendWithID(out, "reserve-job ", id) }

// appendWithID appends a command whose only argument is a job id. The verb
// ends in a space.
func appendWithID(out []byte, verb string, id uint64) []byte {
	out = append(out, verb...)
	out = strconv.AppendUint(out, id, 10)
	return append(out, "\r\n"...)
}
