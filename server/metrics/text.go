package metrics

import (
	"slices"
	"strconv"
	"strings"
)

// families are metrics by name, in the text format of a scrape. A thousand tubes make fifty
// thousand lines. Each value is formatted when it is added: collecting values first and
// formatting them with a library costs five times as much.
type families struct {
	byName map[string]*family
	sizes  map[string]int // by name: the expected length of the text, if known
}

// A family is all samples of one metric.
type family struct {
	*Definition
	text []byte // its header, and a line for each sample
}

var byName = func() map[string]*Definition {
	all := make(map[string]*Definition, len(definitions))
	for i := range definitions {
		all[definitions[i].Name] = &definitions[i]
	}
	return all
}()

// newFamilies returns families without samples, whose expected lengths are those of like.
func newFamilies(like families) families {
	fs := families{make(map[string]*family), make(map[string]int)}
	for name, f := range like.byName {
		fs.sizes[name] = len(f.text) + len(f.text)/16
	}
	return fs
}

// family returns a family by name, and begins it if it has no samples yet.
func (fs families) family(name string) *family {
	f := fs.byName[name]
	if f == nil {
		f = &family{Definition: byName[name], text: make([]byte, 0, fs.sizes[name])}
		f.text = append(f.text, "# HELP "+name+" "+f.Help+"\n# TYPE "+name+" "+strings.ToLower(f.Kind.String())+"\n"...)
		fs.byName[name] = f
	}
	return f
}

// sorted returns the families sorted by name.
func (fs families) sorted() []*family {
	all := make([]*family, 0, len(fs.byName))
	for _, f := range fs.byName {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *family) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// add adds a counter or a gauge.
func (fs families) add(name string, value float64, labels ...string) {
	f := fs.family(name)
	f.text = append(f.text, name...)
	if len(labels) > 0 {
		f.text = append(f.appendLabels(append(f.text, '{'), labels), '}')
	}
	f.text = appendValue(f.text, value)
}

func (fs families) addBool(name string, ok bool, labels ...string) {
	value := 0.0
	if ok {
		value = 1
	}
	fs.add(name, value, labels...)
}

// addHistogram adds a histogram. counts are those of each bucket, not cumulative, and bounds
// come from boundsOf.
func (fs families) addHistogram(name string, bounds []string, counts []uint64, sum float64, labels ...string) {
	f := fs.family(name)
	inner := f.appendLabels(nil, labels)
	bucket := name + "_bucket{" + string(inner)
	if len(labels) > 0 {
		bucket += ","
	}
	total := uint64(0)
	for i, n := range counts {
		total += n
		f.text = append(append(f.text, bucket...), bounds[i]...)
		f.text = append(strconv.AppendUint(f.text, total, 10), '\n')
	}
	whole := func(suffix string) {
		f.text = append(append(f.text, name...), suffix...)
		if len(labels) > 0 {
			f.text = append(append(append(f.text, '{'), inner...), '}')
		}
	}
	whole("_sum")
	f.text = appendValue(f.text, sum)
	whole("_count")
	f.text = append(strconv.AppendUint(append(f.text, ' '), total, 10), '\n')
}

// boundsOf returns the line endings of n buckets and of one without a bound, each up to the
// value.
func boundsOf(n int, bound func(i int) float64) []string {
	all := make([]string, 0, n+1)
	for i := range n {
		all = append(all, `le="`+strconv.FormatFloat(bound(i), 'g', -1, 64)+`"} `)
	}
	return append(all, `le="+Inf"} `)
}

// appendLabels appends the labels of a sample with their values.
func (f *family) appendLabels(to []byte, values []string) []byte {
	for i, v := range values {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(append(to, f.Labels[i]...), `="`...)
		if strings.ContainsAny(v, "\\\"\n") {
			v = escape.Replace(v)
		}
		to = append(append(to, v...), '"')
	}
	return to
}

// escape escapes the value of a label.
var escape = strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`)

// maxExact is the limit up to which a float64 holds all integers.
const maxExact = 1 << 53

// appendValue appends the end of a line.
func appendValue(to []byte, v float64) []byte {
	to = append(to, ' ')
	if v >= 0 && v < maxExact && v == float64(uint64(v)) {
		to = strconv.AppendUint(to, uint64(v), 10)
	} else {
		to = strconv.AppendFloat(to, v, 'g', -1, 64)
	}
	return append(to, '\n')
}
