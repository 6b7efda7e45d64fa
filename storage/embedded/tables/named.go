package tables

import "redstalk/tube"

// namedForm is how the named records of a kind are stored: under key and the name, as a block.
type namedForm struct {
	key    byte
	append func(to []byte, r tube.NamedRecord) []byte
	decode func(name string, from []byte) (r tube.NamedRecord, rest []byte, err error)
}

var namedForms = [tube.NumRecordKinds]namedForm{
	tube.Schedules:  namedFormOf(scheduleKey, AppendSchedule, DecodeSchedule),
	tube.JobBatches: namedFormOf(batchKey, AppendBatch, DecodeBatch),
}

func namedFormOf[T tube.NamedRecord](key byte, add func([]byte, T) []byte, decode func(string, []byte) (T, []byte, error)) namedForm {
	return namedForm{
		key:    key,
		append: func(to []byte, r tube.NamedRecord) []byte { return add(to, r.(T)) },
		decode: func(name string, from []byte) (tube.NamedRecord, []byte, error) {
			r, rest, err := decode(name, from)
			if err != nil {
				return nil, nil, err
			}
			return r, rest, nil
		},
	}
}

// AppendNamed appends the block of a record of that kind, see AppendSchedule and AppendBatch.
func AppendNamed(to []byte, kind tube.RecordKind, r tube.NamedRecord) []byte {
	return namedForms[kind].append(to, r)
}

// DecodeNamed reads the block of the record of that name. It also returns the bytes behind it.
func DecodeNamed(kind tube.RecordKind, name string, from []byte) (r tube.NamedRecord, rest []byte, err error) {
	return namedForms[kind].decode(name, from)
}
