package differ

import "strings"

var numbers = []string{
	"0", "00", "4294967295", "4294967296", "18446744073709551615", "18446744073709551616", "99999999999999999999999",
	"-1", "+1", "-0", "", "x", "0x10", "1e3", "1.5", "1x", "\t1", "1\t", " 1", "1\n", "\xff", "01",
}

// malform makes a well-formed line malformed, or at least unusual.
func (g *generator) malform(line string) string {
	words := strings.Split(line, " ")
	switch g.IntN(16) {
	case 0:
		return line + pick(g, " ", "  ", " x", "x", "\t", " 1", " 0 0", "\x00", "\n")
	case 1:
		return pick(g, " ", "\t", "\n", "x", "\x00") + line
	case 2:
		return strings.ToUpper(line)
	case 3:
		return line[:g.IntN(len(line)+1)]
	case 4, 5, 6, 7, 8:
		if i := g.IntN(len(words)); i > 0 {
			words[i] = pick(g, numbers...)
		}
		return strings.Join(words, " ")
	case 9:
		i := g.IntN(len(line) + 1)
		return line[:i] + pick(g, "\x00", "\n", "\xff", " ", "\t", "%") + line[i:]
	case 10:
		return strings.Replace(line, " ", pick(g, "\t", "  ", ""), 1)
	case 11:
		return strings.ReplaceAll(line, " ", "  ")
	case 12:
		return strings.Join(words[:1+g.IntN(len(words))], " ")
	case 13:
		want := pick(g, lineMax-1, lineMax, lineMax+2, 300, 446, 448, 672, 1000, 20_000)
		if strings.Contains(line, refStart) {
			want = max(want, 300) // ids need not have as many digits on both servers
		}
		return line + strings.Repeat(pick(g, " ", "x", "0"), max(0, want-len(line)))
	case 14:
		words[len(words)-1] = pick(g, "-t", "a b", "a:b", "\xc3\xa4", "a\x00b", "t ", " t", "t\n", strings.Repeat("n", 201))
		return strings.Join(words, " ")
	}
	return strings.Join(append(words, words[len(words)-1]), " ")
}

// junk generates a verb, mostly complete, followed by random text.
func (g *generator) junk() string {
	line := pick(g, verbs...)
	if g.chance(4) {
		line = line[:g.IntN(len(line)+1)]
	}
	for range g.IntN(5) {
		line += pick(g, numbers...) + pick(g, " ", " ", "", "  ")
	}
	if g.chance(6) {
		return ""
	}
	return line
}
