package fault

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"
)

func TestNew(t *testing.T) {
	err := New(Quota, "workspace holds %s of %s; remove files", "3 GB", "2 GB")
	const want = "workspace holds 3 GB of 2 GB; remove files"
	if err.Kind() != Quota || err.Text() != want || err.Error() != want || err.Unwrap() != nil {
		t.Errorf("New() = %q, %q, %q, %v, want the text %q and no cause", err.Kind(), err.Text(), err.Error(), err.Unwrap(), want)
	}
}

func TestWrap(t *testing.T) {
	cause := fmt.Errorf("token hunter2: %w", io.ErrUnexpectedEOF)
	err := Wrap(NotFound, cause, "no ref %q; list the refs", "main")
	if got, want := err.Text(), `no ref "main"; list the refs`; got != want {
		t.Errorf("Text() = %q, want %q", got, want)
	}
	if got, want := err.Error(), `no ref "main"; list the refs: token hunter2: unexpected EOF`; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) || err.Kind() != NotFound {
		t.Errorf("Wrap() = %v of kind %q, want the cause in it and kind %q", err, err.Kind(), NotFound)
	}
	if err := Wrap(Busy, nil, "wait"); err.Error() != "wait" || err.Unwrap() != nil {
		t.Errorf("Wrap() without a cause = %q", err.Error())
	}
}

func TestAfter(t *testing.T) {
	early := Wrap(Busy, io.EOF, "wait 3 s")
	late := early.After(3 * time.Second)
	if early.RetryAfter() != 0 || late.RetryAfter() != 3*time.Second {
		t.Errorf("RetryAfter() = %v, and after After %v, want 0 and 3s", early.RetryAfter(), late.RetryAfter())
	}
	if late.Kind() != Busy || late.Text() != early.Text() || !errors.Is(late, io.EOF) {
		t.Errorf("After() = %q of kind %q, want nothing else changed", late.Error(), late.Kind())
	}
}

func TestKindOf(t *testing.T) {
	inner := New(Quota, "too much")
	for _, tt := range []struct {
		name string
		err  error
		want Kind
	}{
		{"nil", nil, ""},
		{"plain", io.EOF, Internal},
		{"fault", inner, Quota},
		{"fault in a plain error", fmt.Errorf("read x: %w", inner), Quota},
		{"fault in a fault", Wrap(Busy, inner, "wait"), Busy},
		{"joined", errors.Join(io.EOF, inner), Quota},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := KindOf(tt.err); got != tt.want {
				t.Errorf("KindOf(%v) = %q, want %q", tt.err, got, tt.want)
			}
		})
	}
}

// TestKinds holds the words that clients go by: some may be added, in front of
// the last, and none changes.
func TestKinds(t *testing.T) {
	want := []Kind{"invalid", "not_found", "refused", "approval", "quota", "busy", "timeout", "gone", "unavailable", "internal"}
	if got := Kinds(); !slices.Equal(got, want) {
		t.Errorf("Kinds() = %q, want %q", got, want)
	}
}
