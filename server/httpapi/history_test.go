package httpapi

import (
	"testing"

	"redstalk/storage"
	"redstalk/tube"
)

// TestHistory: each number of a tally is in its field.
func TestHistory(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	rows := []tube.TubeTally{{Tube: "t", Tally: tube.Tally{1, 2, 3, 4, 5, 6, 7, 8, 9}}, {Tube: "", Tally: tube.Tally{10}}}
	if _, err := a.queue.Do(t.Context(), storage.Op{Kind: storage.AddTallies, Args: &storage.Args{Tallies: &storage.Tallies{From: "a", Number: 1, Rows: rows}}}); err != nil {
		t.Fatal(err)
	}
	want := historyTime{Put: 1, Started: 2, Done: 3, Failed: 4, Parked: 5, Expired: 6, First: 7, WaitMS: 8, RunMS: 9}
	for _, query := range []string{"", "?period=days", "?period=hours&count=2"} {
		got := decode[historyInfo](t, a.want(200, "GET", "/v1/tubes/t/history"+query, ""))
		if len(got.Periods) != 1 {
			t.Fatalf("the history%s of t is %+v", query, got)
		}
		if want.Begin = got.Periods[0].Begin; got.Periods[0] != want || want.Begin%3_600_000 != 0 || got.Now < want.Begin {
			t.Errorf("the history%s of t is %+v, want %+v", query, got, want)
		}
	}
	if got := decode[historyInfo](t, a.want(200, "GET", "/v1/history", "")); len(got.Periods) != 1 || got.Periods[0].Put != 10 {
		t.Errorf("the history of all tubes is %+v", got)
	}
	a.want(422, "GET", "/v1/history?count=169", "")
	if got := decode[historyInfo](t, a.want(200, "GET", "/v1/tubes/other/history", "")); len(got.Periods) != 0 {
		t.Errorf("the history of another tube is %+v", got)
	}
}
