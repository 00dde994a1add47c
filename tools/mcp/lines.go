package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
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
// that is empty. A long line is gathered in parts and then put together once,
// for what a growing slice leaves behind is as much again.
func (l *lines) line() ([]byte, error) {
	var parts [][]byte
	size := 0
	for {
		part, err := l.r.ReadSlice('\n')
		size += len(part)
		parts = append(parts, bytes.Clone(part))
		if size > l.max && size-ending(parts) > l.max {
			return nil, l.skip(parts, size, err)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && size > 0:
			err = nil
		}
		if len(parts) == 1 {
			return parts[0], err
		}
		return bytes.Join(parts, nil), err
	}
}

// ending returns how many bytes of the parts are the line's end.
func ending(parts [][]byte) (n int) {
	for _, part := range slices.Backward(parts) {
		rest := len(bytes.TrimRight(part, "\r\n"))
		n += len(part) - rest
		if rest > 0 {
			break
		}
	}
	return n
}

// skip reads the rest of a line that began with parts, of so many bytes, and
// returns what is worth knowing of it. err is what the last read gave.
func (l *lines) skip(parts [][]byte, size int, err error) error {
	long := &tooLong{max: l.max, size: size, head: bytes.Clone(parts[0][:min(len(parts[0]), 4<<10)])}
	for _, part := range parts[max(0, len(parts)-2):] {
		long.end(part)
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		var part []byte
		part, err = l.r.ReadSlice('\n')
		long.size += len(part)
		long.end(part)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	long.size -= ending([][]byte{long.tail})
	return long
}

const tailSize = 512

// tooLong is the error of a message that is longer than allowed.
type tooLong struct {
	max, size  int
	head, tail []byte
}

// end takes more of the message.
func (t *tooLong) end(part []byte) {
	t.tail = append(t.tail, part[max(0, len(part)-tailSize):]...)
	t.tail = bytes.Clone(t.tail[max(0, len(t.tail)-tailSize):])
}

func (t *tooLong) Error() string {
	return fmt.Sprintf("a line of %d bytes, of at most %d", t.size, t.max)
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
