package data_test

import (
	"crypto/sha256"
	_ "embed"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloche.dev/cloche/examples/data"
)

//go:embed README.md
var readme string

// TestSeattleWeather checks that the file is what README.md says it is: the
// unchanged original, with a row for each day of four years.
func TestSeattleWeather(t *testing.T) {
	sum := sha256.Sum256([]byte(data.SeattleWeather))
	if digest := hex.EncodeToString(sum[:]); !strings.Contains(readme, digest) {
		t.Errorf("sha256 of %s = %s, which README.md does not name", data.SeattleWeatherName, digest)
	}

	rows, err := csv.NewReader(strings.NewReader(data.SeattleWeather)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Fatal("the data set is empty")
	}
	columns := []string{"date", "precipitation", "temp_max", "temp_min", "wind", "weather"}
	if got := rows[0]; !slices.Equal(got, columns) {
		t.Errorf("columns = %v, want %v", got, columns)
	}
	for _, column := range columns {
		if !strings.Contains(readme, "| `"+column+"` |") {
			t.Errorf("README.md does not describe the column %q", column)
		}
	}

	rows = rows[1:]
	if want := fmt.Sprintf("%d rows", len(rows)); !strings.Contains(readme, want) {
		t.Errorf("README.md does not say %q", want)
	}
	day := time.Date(2012, time.January, 1, 0, 0, 0, 0, time.UTC)
	for i, row := range rows {
		if want := day.Format(time.DateOnly); row[0] != want {
			t.Fatalf("row %d is of %s, want %s", i+1, row[0], want)
		}
		day = day.AddDate(0, 0, 1)
	}
	if want := time.Date(2016, time.January, 1, 0, 0, 0, 0, time.UTC); !day.Equal(want) {
		t.Errorf("the last day is the one before %s, want the one before %s", day, want)
	}
}
