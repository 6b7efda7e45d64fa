package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"redstalk/tube"
)

// The record of a schedule is a text of these words; after the last of them comes Schedule.Text:
//
//	version
//	due         in ms, NeverDue if it is never due
//	size        of the body in bytes
//	put, overlapped, refused, at, nominal, result, id
//	            tube.ScheduleResults; at and nominal in ms
//
// lua/schedules reads and writes it. The body is elsewhere.
const scheduleWords = 10

var errBrokenSchedule = errors.New("the record of a schedule is broken")

// ParseSchedule reads a record. The schedule has no body.
func ParseSchedule(name, record string) (*tube.Schedule, error) {
	words := strings.SplitN(record, " ", scheduleWords+1)
	if len(words) <= scheduleWords {
		return nil, errBrokenSchedule
	}
	s, err := tube.ParseSchedule(words[scheduleWords])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBrokenSchedule, err)
	}
	if words[1] != DueText(s.Due) {
		return nil, errBrokenSchedule
	}
	var numbers [scheduleWords]int64
	for i, word := range words[:scheduleWords] {
		if numbers[i], err = strconv.ParseInt(word, 10, 64); err != nil && i != 1 {
			return nil, fmt.Errorf("%w: %w", errBrokenSchedule, err)
		}
	}
	s.Name, s.Version = name, uint64(numbers[0])
	s.Results = tube.ScheduleResults{
		Put: uint64(numbers[3]), Overlapped: uint64(numbers[4]), Refused: uint64(numbers[5]),
		At: instantOf(numbers[6]), Nominal: instantOf(numbers[7]), Result: tube.PutResult(numbers[8]), ID: uint64(numbers[9]),
	}
	return s, nil
}
