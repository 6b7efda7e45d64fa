package protocol

// Closest returns the word that another one was perhaps meant to be: at most a third of its letters are wrong, missing or
// too many, or both begin with the same four letters. It is "" if there is none.
func Closest(word string, words []string) string {
	best, least := "", max(len(word), 6)/3+1
	for _, one := range words {
		if d := distance(word, one); d < least {
			best, least = one, d
		}
	}
	if best != "" {
		return best
	}
	longest := 3
	for _, one := range words {
		if n := commonPrefix(word, one); n > longest {
			best, longest = one, n
		}
	}
	return best
}

// commonPrefix returns how many letters at the beginning of two words are the same.
func commonPrefix(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// distance returns how many letters must be put in, left out or changed to make one word of another (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
