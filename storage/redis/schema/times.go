package schema

import (
	"strconv"

	"redstalk/tube"
)

// TimesFields are the fields of tube:TUBE: the buckets of each histogram, and its sum in ms.
var TimesFields = func() (fields []string) {
	for _, which := range []string{"w", "r"} {
		for i := range tube.NumTimes {
			fields = append(fields, which+strconv.Itoa(i))
		}
		fields = append(fields, which+"s")
	}
	return fields
}()
