package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/tools"
)

type callCommand struct {
	Conversation string `placeholder:"NAME" help:"Name of the conversation that the call belongs to."`
	JSON         bool   `help:"Print the whole result as JSON."`
	Tool         string `arg:"" predictor:"tool" help:"Name of the tool."`
	Arguments    string `arg:"" optional:"" default:"{}" help:"Its arguments, a JSON object; - reads them from standard input."`
}

func (callCommand) Help() string {
	return `Exit codes: 0 if the call was carried out (whatever the code's own exit), 1 if it was not, 2 for a wrong command line.

Examples:
  cloche call sandbox_status
  cloche call code_interpreter '{"code": "print(6*7)"}'
  echo '{"code": "print(6*7)"}' | cloche call --json code_interpreter -`
}

// maxArguments bounds what is read from standard input.
const maxArguments = 64 << 20

// Run calls the tool.
func (c *callCommand) Run(ctx context.Context, line *commandLine, s streams) (err error) {
	arguments := []byte(c.Arguments)
	if c.Arguments == "-" {
		if arguments, err = readArguments(s.in); err != nil {
			return err
		}
	}
	a, err := openQuiet(ctx, line, "name\x00"+c.Conversation)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := a.Close(ctx); err == nil {
			err = cerr
		}
	}()
	result, err := a.call(ctx, &tools.Call{Tool: c.Tool, Arguments: arguments})
	if err != nil {
		return c.refused(s.out, err)
	}
	return c.print(s.out, result)
}

// refused tells of a call that was not carried out.
func (c *callCommand) refused(w io.Writer, err error) error {
	if !c.JSON {
		return err
	}
	if err := encode(w, refusal(err)); err != nil {
		return err
	}
	return &exitError{code: exitFailure}
}

func readArguments(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxArguments+1))
	if err == nil && len(text) > maxArguments {
		err = fmt.Errorf("standard input has more than %d bytes", maxArguments)
	}
	if err != nil {
		return nil, fmt.Errorf("read arguments: %w", err)
	}
	return text, nil
}

// refusal is the JSON of a call that was not carried out.
func refusal(err error) map[string]any {
	told := map[string]any{"kind": fault.KindOf(err), "text": readable(err)}
	if f, ok := errors.AsType[*fault.Error](err); ok && f.RetryAfter() > 0 {
		told["retry_after_seconds"] = f.RetryAfter().Seconds()
	}
	return map[string]any{"isError": true, "error": told}
}

func (c *callCommand) print(w io.Writer, r tools.Result) error {
	if c.JSON {
		return encode(w, map[string]any{"content": content(r), "structuredContent": r.Structured, "isError": r.IsError})
	}
	_, err := fmt.Fprintln(w, strings.TrimSuffix(text(r), "\n"))
	return err
}

// text joins the texts of a result.
func text(r tools.Result) string {
	var parts []string
	for _, c := range r.Content {
		if c.MediaType == "" {
			parts = append(parts, c.Text)
		} else {
			parts = append(parts, fmt.Sprintf("[%s, %d bytes]", c.MediaType, len(c.Data)))
		}
	}
	return strings.Join(parts, "\n")
}

// content is a result's content as MCP writes it.
func content(r tools.Result) []map[string]any {
	list := []map[string]any{}
	for _, c := range r.Content {
		if c.MediaType == "" {
			list = append(list, map[string]any{"type": "text", "text": c.Text})
		} else {
			list = append(list, map[string]any{"type": "image", "mimeType": c.MediaType, "data": c.Data})
		}
	}
	return list
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
