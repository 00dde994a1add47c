package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/pool"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	long := strings.Repeat("x", maxName)
	for _, tt := range []struct {
		name, answer string
		want         Inventory
	}{
		{"nothing installed", `{"python":"3.11.2","packages":[]}`, Inventory{"3.11.2", []Package{}}},
		{"no list", `{"python":"3.11.2"}`, Inventory{"3.11.2", []Package{}}},
		{"null", `{"python":"3.11.2","packages":null}`, Inventory{"3.11.2", []Package{}}},
		{
			"sorted without regard to case", `{"python":"3.11.2","packages":[["b","1"],["C","2"],["a","3"],["A","4"]]}`,
			Inventory{"3.11.2", []Package{{"A", "4"}, {"a", "3"}, {"b", "1"}, {"C", "2"}}},
		},
		{
			"without a name or a version", `{"python":"3.11.2","packages":[["","1"],["a",""],["b"],[],["c",null],[null,"1"]]}`,
			Inventory{"3.11.2", []Package{{"a", ""}, {"b", ""}, {"c", ""}}},
		},
		{"more than a pair", `{"python":"3.11.2","packages":[["a","1","x","y"]]}`, Inventory{"3.11.2", []Package{{"a", "1"}}}},
		{
			"at and past the longest name", fmt.Sprintf(`{"python":"3.11.2","packages":[["%s","1"],["%sx","2"],["a","%s"],["b","%sx"]]}`, long, long, long, long),
			Inventory{"3.11.2", []Package{{"a", long}, {"b", ""}, {long, "1"}}},
		},
		{
			"what cannot be shown", `{"python":"3.11.2","packages":[["a\nb","1"],["a","1\u001b[2J"],["\u202ec","1"],["d\u0000","1"],["é · ]","1"]]}`,
			Inventory{"3.11.2", []Package{{"a", ""}, {"é · ]", "1"}}},
		},
		{"not UTF-8", "{\"python\":\"3.11.2\",\"packages\":[[\"a\xff\",\"1\"]]}", Inventory{"3.11.2", []Package{{"a\uFFFD", "1"}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse([]byte(tt.answer))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("parse(%.200q) (-want +got):\n%s", tt.answer, diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, answer string }{
		{"nothing", ""},
		{"no JSON", "Traceback (most recent call last):"},
		{"cut short", `{"python":"3.11.2","packages":[["a","1"`},
		{"more after it", `{"python":"3.11.2","packages":[]}{}`},
		{"array", `["3.11.2"]`},
		{"null", `null`},
		{"empty", `{}`},
		{"no version", `{"python":"","packages":[["a","1"]]}`},
		{"version that cannot be shown", `{"python":"3.11\n","packages":[]}`},
		{"version past the longest", `{"python":"` + strings.Repeat("3", maxName+1) + `","packages":[]}`},
		{"version of another type", `{"python":3.11,"packages":[]}`},
		{"package of another type", `{"python":"3.11.2","packages":[{"name":"a"}]}`},
		{"name of another type", `{"python":"3.11.2","packages":[["a",1]]}`},
		{"deep", `{"python":"3.11.2","packages":` + strings.Repeat("[", 1e5) + strings.Repeat("]", 1e5) + `}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := parse([]byte(tt.answer)); err == nil {
				t.Errorf("parse(%.100q) = %v, nil, want an error", tt.answer, got)
			}
		})
	}
}

func TestManyPackages(t *testing.T) {
	for n, want := range map[int]int{maxPackages: maxPackages, maxPackages + 1: maxPackages} {
		got, err := parse(answerOf(n))
		if err != nil || len(got.Packages) != want {
			t.Errorf("parse of %d packages = %d packages, %v, want %d", n, len(got.Packages), err, want)
		}
	}
}

// answerOf returns the answer of an image with n packages.
func answerOf(n int) []byte {
	packages := [][2]string{}
	for i := range n {
		packages = append(packages, [2]string{fmt.Sprintf("p%d", i), "1"})
	}
	raw, err := json.Marshal(map[string]any{"python": "3.11.2", "packages": packages})
	if err != nil {
		panic(err)
	}
	return raw
}

func TestLimited(t *testing.T) {
	var l limited
	for _, n := range []int{maxAnswer - 2, 1, 1, 1, maxAnswer} {
		if got, err := l.Write(make([]byte, n)); got != n || err != nil {
			t.Errorf("Write of %d bytes = %d, %v", n, got, err)
		}
	}
	if n := l.buf.Len(); n != maxAnswer {
		t.Errorf("%d bytes were kept, want %d", n, maxAnswer)
	}
}

// FuzzParse holds that whatever a sandbox answers gives short, printable names
// in order, not too many, or an error.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"python":"3.11.2","packages":[["b","1"],["A","2"]]}`, `{"python":"3","packages":[["\u202e",null]]}`, `{"Python":"3","PACKAGES":[[]]}`, "null",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		inv, err := parse(answer)
		if err != nil {
			return
		}
		names := []string{}
		for _, p := range inv.Packages {
			names = append(names, strings.ToLower(p.Name))
			if p.Name == "" {
				t.Error("a package has no name")
			}
			for _, s := range []string{p.Name, p.Version, inv.Python} {
				if len(s) > maxName || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%q cannot be shown", s)
				}
			}
		}
		if inv.Python == "" || inv.Packages == nil || len(names) > maxPackages || !slices.IsSorted(names) {
			t.Errorf("parse(%q) = %+v", answer, inv)
		}
	})
}

// answering returns a fake whose sandboxes give the answers of answer.
func answering(answer func(n int, w io.Writer) (status int)) *sandboxtest.Fake {
	return &sandboxtest.Fake{Call: func(b *sandboxtest.FakeBox, code string, stdout, _ io.Writer, _ <-chan struct{}) int {
		if !strings.Contains(code, "importlib.metadata") {
			return 1 << 8
		}
		return answer(b.Number, stdout)
	}}
}

func kind(digest string) pool.Kind { return pool.Kind{Digest: digest, Spec: sandboxtest.Spec()} }

func TestOf(t *testing.T) {
	fake := answering(func(n int, w io.Writer) int {
		_, _ = w.Write(answerOf(n))
		return 0
	})
	r := New(fake)
	for _, tt := range []struct {
		digest string
		want   int // packages, as many as sandboxes were started
	}{{"a", 1}, {"a", 1}, {"b", 2}, {"a", 1}, {"b", 2}} {
		inv, err := r.Of(t.Context(), kind(tt.digest))
		if err != nil || len(inv.Packages) != tt.want {
			t.Errorf("Of(%s) = %v, %v, want %d packages", tt.digest, inv, err, tt.want)
		}
	}
	if n := len(fake.Live()); n > 0 {
		t.Errorf("%d sandboxes are left", n)
	}
}

// TestOfErrors holds that an error is not remembered.
func TestOfErrors(t *testing.T) {
	bad := []func(w io.Writer) int{
		func(io.Writer) int { return 1 << 8 },
		func(io.Writer) int { return int(unix.SIGSEGV) },
		func(w io.Writer) int { _, _ = io.WriteString(w, "no JSON"); return 0 },
		func(w io.Writer) int { // a megabyte too long, so that its end is missing
			_, _ = w.Write(append(answerOf(1), make([]byte, maxAnswer)...))
			return 0
		},
	}
	fake := answering(func(n int, w io.Writer) int {
		if n <= len(bad) {
			return bad[n-1](w)
		}
		_, _ = w.Write(answerOf(n))
		return 0
	})
	r := New(fake)
	for i := range bad {
		if inv, err := r.Of(t.Context(), kind("a")); err == nil || !strings.HasPrefix(err.Error(), "ask for installed packages: ") {
			t.Errorf("Of() with bad answer %d = %v, %v, want an error", i, inv, err)
		}
	}
	if inv, err := r.Of(t.Context(), kind("a")); err != nil || len(inv.Packages) != len(bad)+1 {
		t.Errorf("Of() with a good answer = %v, %v", inv, err)
	}
	if n := len(fake.Live()); n > 0 {
		t.Errorf("%d sandboxes are left", n)
	}
	broken := errors.New("broken")
	fake.StartErr = func(context.Context, sandbox.Spec) error { return broken }
	if _, err := r.Of(t.Context(), kind("b")); !errors.Is(err, broken) {
		t.Errorf("Of() without a sandbox = %v, want %v", err, broken)
	}
}

// TestOfAtOnce has many callers ask at the same time: one sandbox answers all.
func TestOfAtOnce(t *testing.T) {
	const many = 50
	asked, goOn := make(chan struct{}), make(chan struct{})
	fake := answering(func(n int, w io.Writer) int {
		close(asked)
		<-goOn
		_, _ = w.Write(answerOf(n))
		return 0
	})
	r := New(fake)
	var work sync.WaitGroup
	ask := func() {
		if inv, err := r.Of(t.Context(), kind("a")); err != nil || len(inv.Packages) != 1 {
			t.Errorf("Of() = %v, %v, want the one answer", inv, err)
		}
	}
	work.Go(ask)
	<-asked
	for range many {
		work.Go(ask)
	}
	tired := errors.New("tired")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(tired)
	if _, err := r.Of(ctx, kind("a")); !errors.Is(err, tired) {
		t.Errorf("Of() of a caller who goes = %v, want %v", err, tired)
	}
	close(goOn)
	work.Wait()
	if n := len(fake.Boxes()); n != 1 {
		t.Errorf("%d sandboxes were started, want 1", n)
	}
}

// TestOfEarly has the one who asks go: another asks again.
func TestOfEarly(t *testing.T) {
	asked := make(chan struct{})
	fake := &sandboxtest.Fake{Call: func(b *sandboxtest.FakeBox, _ string, stdout, _ io.Writer, stop <-chan struct{}) int {
		if b.Number == 1 {
			close(asked)
			<-stop
			return int(unix.SIGKILL)
		}
		_, _ = stdout.Write(answerOf(b.Number))
		return 0
	}}
	r := New(fake)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		if inv, err := r.Of(ctx, kind("a")); err == nil {
			t.Errorf("Of() of the one who goes = %v, nil, want an error", inv)
		}
	})
	<-asked
	work.Go(func() {
		if inv, err := r.Of(t.Context(), kind("a")); err != nil || len(inv.Packages) != 2 {
			t.Errorf("Of() of the one who stays = %v, %v, want an answer", inv, err)
		}
	})
	cancel()
	work.Wait()
}
