package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"cloche.dev/cloche/policy/config"
	"cloche.dev/cloche/policy/fault"
)

// logger writes to w as the policy says, but nothing below least.
func logger(w io.Writer, l config.Log, least slog.Level) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo // the configuration takes known levels alone
	}
	o := &slog.HandlerOptions{Level: max(level, least)}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// readable is what a person at the terminal reads of an error: the cause too,
// once.
func readable(err error) string {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Unwrap() == nil {
		return err.Error()
	}
	cause := f.Unwrap().Error()
	for again := true; again; {
		cause, again = strings.CutPrefix(cause, f.Text()+": ")
	}
	before, after, _ := strings.Cut(err.Error(), f.Error())
	if cause == f.Text() {
		return before + f.Text() + after
	}
	return fmt.Sprintf("%s%s (%s)%s", before, f.Text(), cause, after)
}

// lastLines keeps the end of a log. It may be used from several goroutines.
type lastLines struct {
	mu   sync.Mutex
	text []byte // mu
}

const keptLog = 4 << 10

func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-keptLog):]
	return len(p), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
