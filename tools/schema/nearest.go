package schema

// nearest returns the one of names that is most like name, or "" if none is
// close enough to be what was meant.
func nearest(name string, names []string) string {
	best, found := 1+len(name)/3, ""
	for _, n := range names {
		// Long names are not compared: nothing of ours is near them.
		if len(name) > len(n)+best || len(n) > len(name)+best {
			continue
		}
		if d := distance(name, n); d <= best && (found == "" || d < best) {
			best, found = d, n
		}
	}
	return found
}

// distance counts the bytes to add, leave out or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
