package schema

import (
	"encoding/binary"
	"slices"

	"redstalk/tube"
	"redstalk/tube/field"
)

// RulesRows are the rows of package field that a metadata block has, in the order of their flags.
var RulesRows = func() (rows []*field.Field[tube.Rules]) {
	for i := range field.OfRules {
		if field.OfRules[i].Stored.Flag != 0 {
			rows = append(rows, &field.OfRules[i])
		}
	}
	slices.SortFunc(rows, func(f, g *field.Field[tube.Rules]) int { return int(f.Stored.Flag) - int(g.Stored.Flag) })
	return rows
}()

// rulesFlags returns the flags of the rules that are set.
func rulesFlags(rules *tube.Rules) (flags uint32) {
	for _, f := range RulesRows {
		isSet := false
		switch f.Kind {
		case field.Retry:
			isSet = len(rules.Retry) > 0
		case field.Text:
			isSet = *f.Text(rules) != ""
		default:
			_, isSet = f.Get(rules)
		}
		if isSet {
			flags |= f.Stored.Flag
		}
	}
	return flags
}

// appendRules appends the rules that flags announce: retry as their number and ms each, texts after their length in a
// byte, numbers.
func appendRules(b []byte, rules *tube.Rules, flags uint32) []byte {
	for _, f := range RulesRows {
		switch {
		case flags&f.Stored.Flag == 0:
		case f.Kind == field.Retry:
			b = append(b, byte(len(rules.Retry)))
			for _, wait := range rules.Retry {
				b = binary.BigEndian.AppendUint64(b, uint64(wait.Milliseconds()))
			}
		case f.Kind == field.Text:
			b = appendShort(b, *f.Text(rules))
		default:
			n, _ := f.Get(rules)
			for shift := 8 * (f.Stored.Width - 1); shift >= 0; shift -= 8 {
				b = append(b, byte(n>>shift))
			}
		}
	}
	return b
}

// rules reads the rules that flags announce.
func (r *metadataReader) rules(rules *tube.Rules, flags uint32) {
	for _, f := range RulesRows {
		switch {
		case flags&f.Stored.Flag == 0:
		case f.Kind == field.Retry:
			for range r.number(1) {
				rules.Retry = append(rules.Retry, r.ms())
			}
		case f.Kind == field.Text:
			*f.Text(rules) = r.short()
		default:
			n := r.number(f.Stored.Width)
			r.bad = r.bad || f.Kind == field.Word && n > f.Max
			f.Set(rules, n)
		}
	}
}
