package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// lines reads lines of at most max bytes.
type lines struct {
	r   *bufio.Reader
	max int
}

func newLines(r io.Reader, most int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), max: most}
}

// next returns the next line that is not blank, without its end; the caller owns
// it. A line without an end is the last one. One that is longer than allowed is
// skipped whole and gives a *tooLong; the line after it can be read. At the end
// the error is io.EOF.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.line()
		line = bytes.TrimSpace(line)
		if len(line) > 0 || err != nil && !errors.Is(err, io.EOF) {
			return line, err
		}
		if err != nil {
			return nil, io.EOF
		}
	}
}

// line returns a line with its end. It returns io.EOF with the last one only if
// that is empty.
func (l *lines) line() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		if len(bytes.TrimRight(line, "\r\n")) > l.max {
			return nil, l.skip(line, err)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		default:
			return line, err
		}
	}
}

// skip reads the rest of a line that began with begin and returns what is worth
// knowing of it. err is what the last read gave.
func (l *lines) skip(begin []byte, err error) error {
	long := &tooLong{
		max:  l.max,
		head: bytes.Clone(begin[:min(len(begin), 4<<10)]),
		tail: bytes.Clone(begin[max(0, len(begin)-tailSize):]),
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		var part []byte
		part, err = l.r.ReadSlice('\n')
		long.tail = append(long.tail, part...)
		long.tail = bytes.Clone(long.tail[max(0, len(long.tail)-tailSize):])
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return long
}

const tailSize = 512

// tooLong is the error of a message that is longer than allowed.
type tooLong struct {
	max        int
	head, tail []byte
}

func (t *tooLong) Error() string {
	return fmt.Sprintf("a message may have %d bytes and this one has more; send less at once", t.max)
}

// lastID matches the end of an object whose last member is its id. A quote in a
// JSON string is escaped, so this is no string's inside.
var lastID = regexp.MustCompile(`,\s*"id"\s*:\s*(-?[0-9]{1,20}|"[^"\\]{1,200}")\s*}\s*$`)

// id returns the id of the request, nil if it is not near its begin or end, so
// that its sender does not wait for ever.
func (t *tooLong) id() json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(t.head))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			break
		}
		if key == "id" {
			return validID(value)
		}
	}
	if found := lastID.FindSubmatch(t.tail); found != nil {
		return validID(found[1])
	}
	return nil
}
