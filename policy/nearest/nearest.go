// Package nearest finds the name that was meant by one that is misspelled.
package nearest

// To returns the one of names that is most like name, the first of several,
// or "" if none is close enough to be what was meant.
func To(name string, names []string) string {
	best, found := max(1, len(name)/3), ""
	for _, n := range names {
		// Long names are not compared: nothing of ours is near them.
		if len(name) > len(n)+best || len(n) > len(name)+best {
			continue
		}
		if d := distance(name, n); d < best || d == best && found == "" {
			best, found = d, n
		}
	}
	return found
}

// distance counts the letters to add, leave out, replace, or swap with their
// neighbour to get from a to b.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	// Row i holds the distances from s[:i] to each t[:j].
	var before, last []int
	row := make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(s); i++ {
		before, last, row = last, row, make([]int, len(t)+1)
		row[0] = i
		for j := 1; j <= len(t); j++ {
			replace := last[j-1]
			if s[i-1] != t[j-1] {
				replace++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(t)]
}
