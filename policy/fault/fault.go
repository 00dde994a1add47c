// Package fault holds the errors that an agent may read: each has a kind out of
// a closed list and a text that says what is wrong and what to do next, apart
// from the cause, which goes to the log alone.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// A Kind says to a program what went wrong. Kinds are protocol: they are added
// and never renamed.
type Kind string

// The kinds.
const (
	Invalid     Kind = "invalid"     // the arguments are wrong
	NotFound    Kind = "not_found"   // no such thing, or it belongs to someone else
	Refused     Kind = "refused"     // the policy says no
	Approval    Kind = "approval"    // a person has to say yes first
	Quota       Kind = "quota"       // it does not fit
	Busy        Kind = "busy"        // no room now; try again
	Timeout     Kind = "timeout"     // it did not end in time
	Gone        Kind = "gone"        // it was there and is no longer
	Unavailable Kind = "unavailable" // something that the call needs does not work here
	Internal    Kind = "internal"    // our own fault
)

// Kinds lists all kinds, in the order of their declaration.
func Kinds() []Kind {
	return []Kind{Invalid, NotFound, Refused, Approval, Quota, Busy, Timeout, Gone, Unavailable, Internal}
}

// An Error is an error whose text an agent may read.
type Error struct {
	kind  Kind
	text  string
	cause error
	after time.Duration
}

// New returns an error of the given kind. Never use an error as one of args:
// its text would reach the agent; use Wrap.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{kind: kind, text: fmt.Sprintf(format, args...)}
}

// Wrap is New with a cause, which goes to the log and not to the agent.
func Wrap(kind Kind, cause error, format string, args ...any) *Error {
	return &Error{kind: kind, text: fmt.Sprintf(format, args...), cause: cause}
}

// After returns the error with a time after which a call may have better luck.
// The text is to name it too.
func (e *Error) After(d time.Duration) *Error {
	later := *e
	later.after = d
	return &later
}

// RetryAfter returns the time of After, 0 if nobody knows one.
func (e *Error) RetryAfter() time.Duration { return e.after }

// Kind returns the kind.
func (e *Error) Kind() Kind { return e.kind }

// Text returns what an agent may read.
func (e *Error) Text() string { return e.text }

// Error returns the text and the cause, for the log.
func (e *Error) Error() string {
	if e.cause == nil {
		return e.text
	}
	return e.text + ": " + e.cause.Error()
}

// Unwrap returns the cause, which may be nil.
func (e *Error) Unwrap() error { return e.cause }

// KindOf returns the kind of the outermost fault in err's chain, Internal if
// there is none, and "" for a nil error.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if f, ok := errors.AsType[*Error](err); ok {
		return f.kind
	}
	return Internal
}
