package mcpclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cloche.dev/cloche/tools"
	"cloche.dev/cloche/tools/mcp"
	"cloche.dev/cloche/tools/mcpclient"
)

// serverKind names, in the environment, what this test binary is as a child.
const serverKind = "MCPCLIENT_TEST_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(serverKind); kind != "" {
		os.Exit(serve(kind))
	}
	goleak.VerifyTestMain(m)
}

// serve is the child. It returns its exit status.
func serve(kind string) int {
	switch kind {
	case "dead":
		return 3
	case "mute":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	fmt.Fprintln(os.Stderr, "serving")
	s := mcp.New(mcp.Options{Name: "child", Version: "7", Tools: childTools()})
	if err := s.Stdio(context.Background(), os.Stdin, os.Stdout, 0); err != nil {
		return 1
	}
	switch kind {
	case "stubborn":
		<-time.After(time.Hour)
	case "bad end":
		return 4
	case "chatty":
		// More than a pipe holds.
		line := `{"jsonrpc":"2.0","method":"x","params":{"a":"` + strings.Repeat("x", 1000) + `"}}`
		for range 1000 {
			fmt.Println(line)
		}
	}
	return 0
}

func childTools() []tools.Tool {
	tool := func(name string, run tools.Handler) tools.Tool {
		return tools.Tool{Name: name, Schema: json.RawMessage(`{"type":"object","properties":{}}`), Run: run}
	}
	return []tools.Tool{
		tool("environment", func(context.Context, *tools.Call) (tools.Result, error) {
			return tools.Text(strings.Join(os.Environ(), "\n")), nil
		}),
		tool("progress", func(_ context.Context, call *tools.Call) (tools.Result, error) {
			call.Progress("half")
			return tools.Text("done"), nil
		}),
		tool("die", func(context.Context, *tools.Call) (tools.Result, error) {
			os.Exit(5)
			return tools.Result{}, nil
		}),
	}
}

// command starts this binary as the kind of server.
func command(t *testing.T, kind string) mcpclient.Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return mcpclient.Command{Path: self, Env: []string{serverKind + "=" + kind, "GORACE=atexit_sleep_ms=0"}}
}

func TestStart(t *testing.T) {
	for version, want := range map[string]string{mcpclient.Legacy: mcpclient.Legacy, mcpclient.Modern: mcpclient.Modern, "": mcpclient.Modern} {
		t.Run(version, func(t *testing.T) {
			var log bytes.Buffer
			cmd := command(t, "good")
			cmd.Version, cmd.Stderr = version, &log
			c, err := mcpclient.Start(t.Context(), cmd)
			if err != nil {
				t.Fatal(err)
			}
			if c.ServerName() != "child" || c.ServerVersion() != "7" || c.ProtocolVersion() != want {
				t.Errorf("server %s %s speaks %s, want child 7 and %s", c.ServerName(), c.ServerVersion(), c.ProtocolVersion(), want)
			}
			// The process of that id was given what the command says.
			env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", c.PID()))
			if want := strings.Join(cmd.Env, "\x00") + "\x00"; err != nil || string(env) != want || c.PID() == os.Getpid() {
				t.Errorf("PID = %d, whose environment is %q, %v, want %q", c.PID(), env, err, want)
			}
			list, err := c.Tools(t.Context())
			if err != nil || len(list) != 3 || list[0].Name != "environment" {
				t.Errorf("Tools = %+v, %v", list, err)
			}
			r, err := c.Call(t.Context(), "environment", nil)
			if err != nil || strings.Join(r.Text, "") != strings.Join(cmd.Env, "\n") {
				t.Errorf("environment = %+v, %v, want %q alone", r, err, cmd.Env)
			}
			var told []string
			r, err = c.Call(t.Context(), "progress", struct{}{}, mcpclient.OnProgress(func(m string) { told = append(told, m) }))
			if err != nil || !slices.Equal(told, []string{"half"}) || !slices.Equal(r.Text, []string{"done"}) {
				t.Errorf("progress = %+v, %v, told %q", r, err, told)
			}
			if err := c.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
			if err := c.Close(); err != nil {
				t.Errorf("second Close = %v", err)
			}
			if _, err := c.Call(t.Context(), "environment", nil); err == nil {
				t.Error("Call after Close gives no error")
			}
			if !strings.HasPrefix(log.String(), "serving\n") { // The coverage tool adds to it.
				t.Errorf("stderr %q, want serving", log.String())
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	tests := []struct {
		name, want string
		change     func(*mcpclient.Command)
		kind       string
	}{
		{"no such program", "start server", func(c *mcpclient.Command) { c.Path = "/nonexistent/server" }, "good"},
		{"ends at once", "exit status 3", func(*mcpclient.Command) {}, "dead"},
		{"never answers", "context deadline exceeded", func(c *mcpclient.Command) { c.Version = mcpclient.Legacy }, "mute"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := command(t, tt.kind)
			tt.change(&cmd)
			ctx := t.Context()
			if tt.kind == "mute" {
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				ctx = short
			}
			c, err := mcpclient.Start(ctx, cmd)
			if err == nil || !strings.Contains(err.Error(), tt.want) || c != nil {
				t.Errorf("Start = %v, %v, want an error with %q", c, err, tt.want)
			}
		})
	}
}

func TestClose(t *testing.T) {
	tests := []struct{ kind, want string }{
		{"good", ""},
		{"chatty", ""},
		{"bad end", "exit status 4"},
		{"stubborn", "the server did not end in 300ms and was killed"},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			cmd := command(t, tt.kind)
			if tt.kind == "stubborn" {
				cmd.Patience = 300 * time.Millisecond
			}
			c, err := mcpclient.Start(t.Context(), cmd)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := c.Close(); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("Close = %v, want %q", err, tt.want)
				}
			}
		})
	}
}

// TestDeath has the server die during a call.
func TestDeath(t *testing.T) {
	c, err := mcpclient.Start(t.Context(), command(t, "good"))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Call(t.Context(), "die", nil); err == nil {
		t.Errorf("Call = %+v, want an error", r)
	}
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "exit status 5") {
		t.Errorf("Close = %v, want exit status 5", err)
	}
}

func TestCallEnds(t *testing.T) {
	c, err := mcpclient.Start(t.Context(), command(t, "good"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Call(ctx, "environment", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Call = %v, want %v", err, context.Canceled)
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
}
